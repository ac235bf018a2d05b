"""Find usable models: API keys in the environment or stored, aliases, the default model of a run.

The command line explains the choice; only the provider knows whether a model exists.
"""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import stored_names
from nexus_cli.core.errors import REDACTED


def keys_present(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Map each key variable of the settings to its model, if it is set in the environment or its key is stored."""
    models, stored = settings.default_models.items(), stored_names()
    present = {name: model for name, model in models if environ.get(name, "").strip() or name in stored}
    return {name: _resolve_or_redact(model, settings) for name, model in present.items()}


def keys_to_choose_from(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the keys in the environment, else the stored keys, each with its model, to pick a default model from."""
    present = keys_present(environ, settings)
    return {name: model for name, model in present.items() if environ.get(name, "").strip()} or present


def resolve_alias(name: str, settings: Settings) -> str:
    """Resolve an alias of the settings; other names are returned unchanged. Raises `NexusError("config", ...)` if the
    result looks like an API key."""
    from nexus_cli.config.misplaced_keys import misplaced_key_error  # noqa: PLC0415  (see `_resolve_or_redact`)

    model = _resolve_or_redact(name, settings)
    if model == REDACTED:
        raise misplaced_key_error("the model", "`nexus config show --origin` shows one in the settings")
    return model


def _resolve_or_redact(name: str, settings: Settings) -> str:
    """Resolve an alias as `resolve_alias` does, but return `[redacted]` for an API key."""
    from nexus_cli.config.misplaced_keys import hide_key  # noqa: PLC0415  (slow, and a start may name no model)

    return hide_key(settings.alias.get(name.strip(), name.strip()))


def named_model(environ: Mapping[str, str], settings: Settings) -> str:
    """Return the model from `NEXUS_MODEL` or the settings: "" if neither is set, `[redacted]` for an API key."""
    return _resolve_or_redact(environ.get("NEXUS_MODEL", "").strip() or settings.model, settings)


def unnamed_model(environ: Mapping[str, str], settings: Settings) -> str:
    """Return the default model of a run: `named_model`, else the model of the only key (`keys_to_choose_from`), or
    ""."""
    present = keys_to_choose_from(environ, settings)
    return named_model(environ, settings) or (next(iter(present.values())) if len(present) == 1 else "")
