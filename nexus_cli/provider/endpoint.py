"""The address and key of a request, resolved before anything is sent.

Owns the environment variables of keys and addresses. `config.stored_keys` has the keys of `nexus login`, which the
environment overrides; `local_servers` finds local ones. litellm knows the addresses of hosted providers. A local server
without an address gets the loopback address, not the hosted service that litellm would fall back to: code goes only to
a provider that the person chose. Errors about invalid values name their variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nexus_cli.config.stored_keys import stored_key, stored_names
from nexus_cli.core.errors import ProviderError
from nexus_cli.provider.local_servers import BASE_VARIABLES, SERVERS
from nexus_cli.provider.model_names import LOCAL, SUBSCRIPTIONS, split_key_name, split_model_name
from nexus_cli.provider.model_table import HOW_TO_NAME, describe_unknown, name_with_provider, provider_of

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "ollama_chat": ("OLLAMA_API_KEY",),
}
"""Variables that litellm reads for a key, the usual one first."""


def key_variable(provider: str) -> str:
    """Return the variable to set for `provider`; for a subscription, the name of its stored login."""
    if provider in SUBSCRIPTIONS:
        return f"{provider.upper()}_LOGIN"
    return KEY_VARIABLES.get(provider, (f"{provider.upper() or 'PROVIDER'}_API_KEY",))[0]


def stored_name(provider: str, key_name: str = "") -> str:
    """Return the name under which the key of `provider` is stored; `key_name` is that of one of several keys."""
    return f"{key_variable(provider)}@{key_name}" if key_name else key_variable(provider)


def login_command(provider: str, key_name: str = "") -> str:
    """Return the command that stores the key of `provider`, or signs in to it."""
    return f"nexus login {provider.replace('_', '-')}" + (f" --as {key_name}" if key_name else "")


def set_key_hint(provider: str, key_name: str = "") -> str:
    """Return the hint for setting the key of `provider`, or for signing in to it."""
    if provider in SUBSCRIPTIONS:
        return f"Sign in: {login_command(provider, key_name)}"
    if key_name:
        return f"Run `nexus login {provider} --as {key_name}` to store a key"
    name, login = key_variable(provider), f"run `nexus login {provider}`"
    if provider not in KEY_VARIABLES:
        return f"Set {name} to a valid key"
    return f"Correct or unset {name}, or {login}" if os.environ.get(name) else f"Set {name}, or {login}"


def base_variable(provider: str) -> str:
    """Return the variable with the address of `provider`: the one that is set, else the usual one; "" if there is
    none."""
    names = BASE_VARIABLES.get(provider, ())
    return next((name for name in names if os.environ.get(name)), names[0] if names else "")


def check_address_hint(provider: str) -> str:
    """Return the hint for an address of `provider` at which something else than its API answers."""
    name = base_variable(provider)
    ending = "; most addresses end in /v1" if provider == "openai" else ""
    return f"Check the address in {name}{ending}" if name else "Check the connection"


BEARERS = frozenset({"ANTHROPIC_AUTH_TOKEN"})
"""Sent in another header than a key. litellm takes them only from the environment, unchanged."""
NOT_A_KEY = "contains characters that no key contains"


def describe_bad_key(text: str) -> str:
    """Return the reason that `text` cannot be sent as a key, to follow its name; "" if it can."""
    key = text.strip()
    if not key:
        return "is blank"
    return "" if key.isascii() and key.isprintable() else NOT_A_KEY


def is_provider_key(name: str) -> bool:
    """Return True for the variable of a provider's key."""
    return any(name in names for names in KEY_VARIABLES.values())


def read_key(provider: str, key_name: str = "") -> str:
    """Return the key or token in the environment for `provider`, else the stored key; "" without any. Of a key that a
    person named the environment has no say. Raises `ProviderError` of kind `auth` if it cannot be sent, or the named
    one is not stored."""
    names = KEY_VARIABLES.get(provider, (key_variable(provider),) if provider in LOCAL else ())
    name = "" if key_name else next((name for name in names if os.environ.get(name)), "")
    stored = stored_key(stored_name(provider, key_name)) if provider in KEY_VARIABLES and not name else ""
    key = os.environ[name].strip() if name else stored
    bad = describe_bad_key(key) if name or stored else ""
    if name in BEARERS and key != os.environ[name]:
        bad = bad or NOT_A_KEY
    if key_name:
        why = f"the {provider} key `{key_name}` {bad}" if key else f"no {provider} key `{key_name}` is stored"
    else:
        why = f"{name or f'the stored key of {key_variable(provider)}'} {bad}"
    if bad or (key_name and not key):
        raise ProviderError("auth", why, set_key_hint(provider, key_name))
    return key


def read_env_address(provider: str) -> str:
    """Return the address that litellm would find for `provider`; "" without any. Raises `ProviderError` of kind
    `config` if it is invalid."""
    names = BASE_VARIABLES.get(provider, (f"{provider.upper()}_API_BASE",))
    name = next((name for name in names if os.environ.get(name)), "")
    text = os.environ.get(name, "").strip()
    if name and not _is_address(text):
        why = f"{name} is not a complete URL with http:// or https://"
        raise ProviderError("config", why, "Correct or unset the variable")
    return text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_whole and text.isprintable() and " " not in text
    except ValueError:
        return False


NO_KEY = "no-key-needed"
"""Placeholder key for a local server that needs none: the SDK under litellm requires a value."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The destination of one request."""

    provider: str
    model: str
    """In litellm's form."""
    base: str | None
    """None: litellm's own address for the provider."""
    key: str | None = field(repr=False)
    """None: there is none, or litellm takes a token from the environment."""
    login: str = ""
    """The name of the stored login of a subscription, whose tokens take the place of a key."""

    @property
    def address(self) -> str:
        """The address, "" for a hosted provider that only litellm knows."""
        return self.base or HOSTS.get(self.provider, "")


def is_loopback(address: str) -> bool:
    host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
    return host == "localhost" or host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())


HOSTS: Mapping[str, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "mistral": "https://api.mistral.ai",
    "deepseek": "https://api.deepseek.com",
    "xai": "https://api.x.ai",
    "openrouter": "https://openrouter.ai",
}
"""Addresses of the hosted providers whose requests carry a key and are not signed."""


def address_from_env(model: str) -> str:
    """Return host and port that the environment sends `model` to, without name or password; "" if unset."""
    try:
        place = urlsplit(read_env_address(provider_of(model)))
    except ProviderError:
        return ""
    return f"{place.hostname}:{place.port}" if place.port else place.hostname or ""


def resolve_endpoint(model: str, base: str | None = None, key: str | None = None) -> Endpoint:
    """Return the endpoint of `model`; `base` and `key` override the environment, and so does a key that it names.

    Raises `ProviderError`: `usage` if the name implies no provider, `auth` if a needed key is missing or cannot be
    sent, `config` if the address in the environment is invalid.
    """
    provider = provider_of(model)
    if not provider:
        raise ProviderError("usage", describe_unknown(model), HOW_TO_NAME)
    key_name, model = split_key_name(model)
    base = base or read_env_address(provider) or None
    if provider in SUBSCRIPTIONS and not key:
        login = stored_name(provider, key_name)
        if login not in stored_names():
            key_label = f" named {key_name}" if key_name else ""
            why = f"there is no {SUBSCRIPTIONS[provider]} login{key_label}"
            raise ProviderError("auth", why, set_key_hint(provider, key_name))
        return Endpoint(provider, model, base, None, login)
    key = key or read_key(provider, key_name)
    if provider in LOCAL:
        base = base or next(server.url for server in SERVERS if f"{provider}/" == server.prefix)
    model = name_with_provider(model)
    if provider == "ollama_chat":
        model = f"ollama_chat/{split_model_name(model)[1]}"
    elif not key and (provider in LOCAL or (provider == "openai" and is_loopback(base or ""))):
        key = NO_KEY
    elif not key and provider in KEY_VARIABLES:
        raise ProviderError("auth", f"{key_variable(provider)} is not set", set_key_hint(provider))
    is_bearer = provider == "anthropic" and key in map(os.environ.get, BEARERS)
    return Endpoint(provider, model, base, None if is_bearer else key or None)
