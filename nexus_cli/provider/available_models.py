"""Find usable models: API keys in the environment or stored, aliases, the default model of a run.

The command line explains the choice; only the provider knows whether a model exists.
"""

from __future__ import annotations

import os

from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import stored_names
from nexus_cli.core.errors import UsageError, nearest_name


def keys_present(settings: Settings) -> dict[str, str]:
    """Map each key variable of the settings to its model, if it is set in the environment or its key is stored."""
    models, stored = settings.default_models.items(), stored_names()
    present = {name: model for name, model in models if os.environ.get(name, "").strip() or name in stored}
    return {name: resolve_alias(model, settings) for name, model in present.items()}


def keys_to_choose_from(settings: Settings) -> dict[str, str]:
    """Return the keys in the environment, else the stored keys, each with its model, to pick a default model from.

    A gateway in the environment may lack that model: then a similar name that it lists is returned, if there is one.
    """
    present = keys_present(settings)
    present = {name: model for name, model in present.items() if os.environ.get(name, "").strip()} or present
    return {name: resolve_alias(_find_served(model), settings) for name, model in present.items()}


def _find_served(model: str) -> str:
    """Return `model`, or the only or a similar name if the server in the environment lists others. Blocks."""
    from nexus_cli.provider.model_names import split_key_name  # noqa: PLC0415  (few runs name no model)
    from nexus_cli.provider.model_table import provider_of  # noqa: PLC0415
    from nexus_cli.provider.served_models import list_served  # noqa: PLC0415

    listed = () if split_key_name(model)[0] else list_served(provider_of(model))
    if model in listed:
        return model
    return listed[0] if len(listed) == 1 else nearest_name(model, listed) or model


def resolve_alias(name: str, settings: Settings) -> str:
    """Return the model that an alias of the settings names, another name unchanged, with the project's key."""
    model = settings.alias.get(name.strip(), name.strip())
    return _with_key_name(model, settings.key_name) if settings.key_name else model


def resolve_for_worker(name: str, session_model: str, settings: Settings) -> str:
    """Resolve the name of a worker's model, "" for the session's own, with the session's key if the provider is the
    same.

    Only the person chooses a key: raise `UsageError` for another one than the session's.
    """
    if not name:
        return ""
    from nexus_cli.provider.model_names import split_key_name, split_model_name  # noqa: PLC0415  (see `_with_key_name`)
    from nexus_cli.provider.model_table import provider_of  # noqa: PLC0415

    model = resolve_alias(name, settings)
    session_provider, key = split_key_name(session_model)[0], split_key_name(model)[0]
    if key not in ("", session_provider) and split_key_name(name.strip())[0]:
        raise UsageError(f"key {key}", "only the person can choose a key")
    has_same_provider = not key and provider_of(model) == provider_of(session_model)
    return (
        f"{session_provider}:{model}"
        if session_provider and has_same_provider and split_model_name(model)[0]
        else model
    )


def _with_key_name(model: str, key_name: str) -> str:
    """Return `model` with the key of the project's folder, unless it names a key or its provider needs none. A key
    that is not stored is an error of the request: another one must not pay."""
    from nexus_cli.provider.endpoint import KEY_VARIABLES  # noqa: PLC0415  (few settings have keys by folder)
    from nexus_cli.provider.model_names import LOCAL, SUBSCRIPTIONS, split_key_name, split_model_name  # noqa: PLC0415
    from nexus_cli.provider.model_table import provider_of  # noqa: PLC0415

    provider = provider_of(model)
    if split_key_name(model)[0] or provider in LOCAL or provider not in {*KEY_VARIABLES, *SUBSCRIPTIONS}:
        return model
    return f"{key_name}:{model if split_model_name(model)[0] else f'{provider}/{model}'}"


def named_model(settings: Settings) -> str:
    """Return the model from `NEXUS_MODEL` or the settings: "" if neither is set."""
    return resolve_alias(os.environ.get("NEXUS_MODEL", "").strip() or settings.model, settings)


def unnamed_model(settings: Settings) -> str:
    """Return the default model of a run: `named_model`, else that of the only key (`keys_to_choose_from`), or ""."""
    present = keys_to_choose_from(settings)
    return named_model(settings) or (next(iter(present.values())) if len(present) == 1 else "")
