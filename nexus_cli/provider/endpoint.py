"""Where a request goes and with which key, settled before anything is sent.

Owns the addresses of local servers and whether a key is there. Leaves to `given` whether what the environment has can
be a key or an address, and the addresses of hosted providers to litellm. Code is never sent to a provider that the
person did not choose: a local server without an address gets the loopback one, not the hosted service that litellm
would fall back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from nexus_cli.core.errors import ProviderError
from nexus_cli.provider.env_credentials import read_env_address, read_env_key
from nexus_cli.provider.error_hints import KEY_VARIABLES, hint_for, key_variable
from nexus_cli.provider.local import PORTS
from nexus_cli.provider.model_names import LOCAL, split_model_name
from nexus_cli.provider.model_table import provider_of

NO_KEY = "no-key-needed"
"""Stands for a key where a server of one's own wants none but the SDK under litellm wants something."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one request goes."""

    provider: str
    model: str
    """As litellm wants it."""
    base: str | None
    """None: litellm's own address for the provider."""
    key: str | None
    """None: litellm takes it from the environment."""

    @property
    def arguments(self) -> dict[str, str]:
        """As arguments of a call."""
        given = {"api_base": self.base, "api_key": self.key}
        return {name: value for name, value in given.items() if value is not None}


def is_loopback(address: str) -> bool:
    """True for an address on this machine."""
    host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
    return host == "localhost" or host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())


def address_from_env(model: str, environ: Mapping[str, str]) -> str:
    """Host and port that the environment sends `model` to, without name or password; empty where it says nothing."""
    try:
        given = read_env_address(provider_of(model), environ)
    except ProviderError:
        return ""
    place = urlsplit(given.text) if given else None
    return f"{place.hostname}:{place.port}" if place and place.port else (place.hostname or "" if place else "")


def _local_base(provider: str) -> str | None:
    port = next((port for port, _, prefix in PORTS if prefix == f"{provider}/"), None)
    path = "" if provider == "ollama_chat" else "/v1"
    return f"http://127.0.0.1:{port}{path}" if port else None


def resolve_endpoint(
    model: str, environ: Mapping[str, str], base: str | None = None, key: str | None = None
) -> Endpoint:
    """The endpoint of `model`; `base` and `key` win over the environment.

    Raises `ProviderError`: `usage` when the name tells no provider, `auth` when a key is needed and there is none, or
    one that cannot be sent, `config` when the address that the environment has is none.
    """
    provider = provider_of(model)
    if not provider:
        raise ProviderError("usage", f"no provider is known for the model {model!r}", hint_for("usage", model))
    name = f"ollama_chat/{split_model_name(model)[1]}" if provider == "ollama_chat" else model
    there = None if base else read_env_address(provider, environ)
    own = None if key else read_env_key(provider, model, environ)
    address = base or (there.text if there else None)
    if own and not own.exact:
        key = own.text
    if provider in LOCAL:
        dummy = None if own or provider == "ollama_chat" else NO_KEY
        return Endpoint(provider, name, address or _local_base(provider), key or dummy)
    if not key and not own:
        if provider == "openai" and is_loopback(address or ""):
            return Endpoint(provider, name, address, NO_KEY)
        if provider in KEY_VARIABLES:
            raise ProviderError("auth", f"{key_variable(provider)} is not set", hint_for("auth", model))
    return Endpoint(provider, name, base if there and there.exact else address, key)
