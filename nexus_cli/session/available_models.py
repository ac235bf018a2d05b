"""What can be asked here and now: keys in the environment, servers on loopback, the model that is used unnamed.

Owns looking; leaves to the command line how a choice is explained, and to the provider whether a model exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import REDACTED
from nexus_cli.provider.endpoint import local_servers


class Server(Protocol):
    """A local server that was found."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def url(self) -> str:
        """Where it answers."""

    @property
    def prefix(self) -> str:
        """The provider part of its models' names, with its slash."""


def keys_present(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The key variables of the settings that are set in the environment, each with its model."""
    models = settings.default_models.items()
    return {name: _meant(model, settings) for name, model in models if environ.get(name, "").strip()}


def find_local_servers() -> Sequence[Server]:
    """The model servers that answer on loopback now."""
    return local_servers()


def resolve_alias(name: str, settings: Settings) -> str:
    """`name` with an alias of the settings taken for what it stands for; `NexusError("config", ...)` where that looks
    like a key."""
    from nexus_cli.config.misplaced_keys import misplaced_key_error  # noqa: PLC0415  (see `_meant`)

    model = _meant(name, settings)
    if model == REDACTED:
        raise misplaced_key_error("the model", "`nexus config show --origin` shows one in the settings")
    return model


def _meant(name: str, settings: Settings) -> str:
    """The same with `[redacted]` for what looks like a key."""
    from nexus_cli.config.misplaced_keys import hide_key  # noqa: PLC0415  (slow, and a start may name no model)

    return hide_key(settings.alias.get(name.strip(), name.strip()))


def named_model(environ: Mapping[str, str], settings: Settings) -> str:
    """The model that `NEXUS_MODEL` or the settings name, "" where neither does, `[redacted]` for a key."""
    return _meant(environ.get("NEXUS_MODEL", "").strip() or settings.model, settings)


def unnamed_model(environ: Mapping[str, str], settings: Settings) -> str:
    """The model of a run that names none: `named_model`, else that of the one key in the environment, else ""."""
    present = keys_present(environ, settings)
    return named_model(environ, settings) or (next(iter(present.values())) if len(present) == 1 else "")
