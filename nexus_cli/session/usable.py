"""What can be asked here and now: keys in the environment, servers on loopback, the model that is used unnamed.

Owns looking; leaves to the command line how a choice is explained, and to the provider whether a model exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nexus_cli.core.settings import Settings
from nexus_cli.provider.local import local_servers


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
    keys = settings.keys.items()
    return {name: resolved(model, settings) for name, model in keys if environ.get(name, "").strip()}


def find_local() -> Sequence[Server]:
    """The model servers that answer on loopback now."""
    return local_servers()


def resolved(name: str, settings: Settings) -> str:
    """`name` with an alias of the settings taken for what it stands for."""
    return settings.alias.get(name.strip(), name.strip())


def named_model(environ: Mapping[str, str], settings: Settings) -> str:
    """The model that `NEXUS_MODEL` or the settings name, "" where neither does."""
    return resolved(environ.get("NEXUS_MODEL", "").strip() or settings.model, settings)


def unnamed_model(environ: Mapping[str, str], settings: Settings) -> str:
    """The model of a run that names none: `named_model`, else that of the one key in the environment, else ""."""
    present = keys_present(environ, settings)
    return named_model(environ, settings) or (next(iter(present.values())) if len(present) == 1 else "")
