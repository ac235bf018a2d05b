"""What the environment gives for a provider's key and address, and whether it can be one.

Owns that question alone: what cannot be sent is refused by the name of its variable, never with its value. Leaves to
`endpoint` which of them a request needs. What surrounds a value (the newline of a file that held it) is taken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from nexus_cli.core.errors import ProviderError
from nexus_cli.provider.error_hints import BASE_VARIABLES, KEY_VARIABLES, hint_for, key_variable
from nexus_cli.provider.model_names import LOCAL

BEARERS = frozenset({"ANTHROPIC_AUTH_TOKEN"})
"""Sent in another header than a key: litellm takes them from the environment only, as they are."""


@dataclass(frozen=True, slots=True)
class EnvValue:
    """The value of one variable."""

    text: str
    exact: bool
    """It stands so in the environment, where litellm finds it."""


def read_env_key(provider: str, model: str, environ: Mapping[str, str]) -> EnvValue | None:
    """The key that litellm would find for `provider`; None without any. `ProviderError` of kind `auth` where it cannot
    be sent."""
    names = KEY_VARIABLES.get(provider, (key_variable(provider),) if provider in LOCAL else ())
    name = next((name for name in names if environ.get(name)), "")
    if not name:
        return None
    text = environ[name].strip()
    exact = text == environ[name]
    if not text:
        raise ProviderError("auth", f"{name} is blank", hint_for("auth", model))
    if not (text.isascii() and text.isprintable()) or (name in BEARERS and not exact):
        raise ProviderError("auth", f"{name} holds characters that no key has", hint_for("auth", model))
    return EnvValue(text, exact)


def read_env_address(provider: str, environ: Mapping[str, str]) -> EnvValue | None:
    """The address that litellm would find for `provider`; None without any. `ProviderError` of kind `config` where it
    is none."""
    names = BASE_VARIABLES.get(provider, (f"{provider.upper()}_API_BASE",))
    name = next((name for name in names if environ.get(name)), "")
    if not name:
        return None
    text = environ[name].strip()
    if not _is_address(text):
        why = f"{name} is no address: it must be a whole one with http:// or https://"
        raise ProviderError("config", why, "Correct it, or unset it")
    return EnvValue(text, text == environ[name])


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return whole and text.isprintable() and " " not in text
