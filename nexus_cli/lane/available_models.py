"""Find usable models: keys in the environment or stored, aliases, the model of a run that names none.

The command line explains a choice, and the provider knows if a model exists.
"""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import stored_names
from nexus_cli.core.errors import REDACTED


def keys_present(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the key variables of the settings that are set in the environment, or whose key is stored, each with its
    model."""
    models, stored = settings.default_models.items(), stored_names()
    present = {name: model for name, model in models if environ.get(name, "").strip() or name in stored}
    return {name: _resolve_or_redact(model, settings) for name, model in present.items()}


def keys_to_choose_from(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the keys that give an unnamed model, as `keys_present` does: those in the environment, else the stored."""
    present = keys_present(environ, settings)
    return {name: model for name, model in present.items() if environ.get(name, "").strip()} or present


def resolve_alias(name: str, settings: Settings) -> str:
    """Return the model of an alias in the settings, else `name`; raise `NexusError("config", ...)` if it looks like a
    key."""
    from nexus_cli.config.misplaced_keys import misplaced_key_error  # noqa: PLC0415  (see `_resolve_or_redact`)

    model = _resolve_or_redact(name, settings)
    if model == REDACTED:
        raise misplaced_key_error("the model", "`nexus config show --origin` shows one in the settings")
    return model


def _resolve_or_redact(name: str, settings: Settings) -> str:
    """Return the same, or `[redacted]` if it looks like a key."""
    from nexus_cli.config.misplaced_keys import hide_key  # noqa: PLC0415  (slow, and a start may name no model)

    return hide_key(settings.alias.get(name.strip(), name.strip()))


def named_model(environ: Mapping[str, str], settings: Settings) -> str:
    """Return the model in `NEXUS_MODEL` or the settings: "" if neither names one, `[redacted]` for a key."""
    return _resolve_or_redact(environ.get("NEXUS_MODEL", "").strip() or settings.model, settings)


def unnamed_model(environ: Mapping[str, str], settings: Settings) -> str:
    """Return the model of a run that names none: `named_model`, else that of the only key (`keys_to_choose_from`), else
    ""."""
    present = keys_to_choose_from(environ, settings)
    return named_model(environ, settings) or (next(iter(present.values())) if len(present) == 1 else "")
