"""Ask a provider, by one free request, whether it accepts a key that a person has just typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread

from nexus_cli.core.errors import NexusError
from nexus_cli.core.proxy import ProxyError, open_connection
from nexus_cli.provider.endpoint import Endpoint, find_address
from nexus_cli.provider.error_text import find_error, format_error_line
from nexus_cli.provider.failures import NO_KEY

SECONDS = 3.0
"""Time limit of the question, with the look-up of the name. An answer that comes later does not count."""
MOST_ANSWER = 100_000
"""Most bytes of an answer that are read."""
UNAUTHORIZED, BAD_REQUEST = 401, 400
"""Status with which providers refuse a key; Gemini and xAI use the second one, with words."""
_PATHS: Mapping[str, str] = {
    "openai": "/v1/models",
    "anthropic": "/v1/models",
    "gemini": "/v1beta/models",
    "mistral": "/v1/models",
    "deepseek": "/models",
    "xai": "/v1/models",
    "openrouter": "/api/v1/key",
}
"""By provider: what only a valid key may read, and what costs nothing."""
_HEADERS: Mapping[str, Mapping[str, str]] = {
    "anthropic": {"x-api-key": "{}", "anthropic-version": "2023-06-01"},
    "gemini": {"x-goog-api-key": "{}"},
}
"""Headers with the key; those of other providers are usual ones."""


def find_refusal(provider: str, key: str, environ: Mapping[str, str]) -> str:
    """Return why the provider refuses `key`, at the address of the environment or its own; "" if it accepts the key, or
    cannot be asked. Blocks for `SECONDS` at most."""
    found: list[str] = []

    def ask() -> None:
        with suppress(OSError, ValueError, ProxyError, NexusError):
            found.append(_ask(provider, key, environ))

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return found[0] if found else ""


def _ask(provider: str, key: str, environ: Mapping[str, str]) -> str:
    from http.client import HTTPException  # noqa: PLC0415  (few processes store a key)

    path, address = _PATHS.get(provider, ""), find_address(Endpoint(provider, "", None, None), environ)
    if not path or not address:
        return ""
    address = address.rstrip("/").removesuffix(path.rpartition("/")[0]).removesuffix("/v1")
    headers = _HEADERS.get(provider, {"Authorization": "Bearer {}"})
    headers = {name: text.format(key) for name, text in headers.items()}
    connection, target, more = open_connection(address + path, SECONDS)
    try:
        connection.request("GET", target, headers={**headers, **more})
        answer = connection.getresponse()
        text = answer.read(MOST_ANSWER).decode("utf-8", "replace")
    except HTTPException:
        return ""
    finally:
        connection.close()
    is_refused = answer.status == UNAUTHORIZED or (answer.status == BAD_REQUEST and NO_KEY.search(text) is not None)
    return (_read_reason(text) or f"HTTP status {answer.status}") if is_refused else ""


def _read_reason(text: str) -> str:
    """Return the message of a refusal in one line, without keys."""
    with suppress(ValueError):
        return format_error_line(str(find_error(json.loads(text)).get("message", "")))
    return ""
