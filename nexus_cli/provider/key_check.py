"""Take a key that a person types, and ask its provider with one free request whether the key is accepted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from threading import Thread
from urllib.parse import urlsplit

from nexus_cli.core.errors import NexusError
from nexus_cli.core.proxy import open_connection, send_request
from nexus_cli.core.redact_secrets import protect_secret
from nexus_cli.provider.endpoint import HOSTS, address_from_env, read_env_address
from nexus_cli.provider.error_text import format_error_line
from nexus_cli.provider.failures import NO_KEY, describe_unreachable
from nexus_cli.provider.key_shapes import SHAPES, clean_key

TRIES = 3
SECONDS = 3.0
"""Time limit of the question, with the look-up of the name. An answer that comes later does not count."""
MAX_ANSWER = 100_000
"""Most bytes of an answer that are read."""
OK, UNAUTHORIZED, BAD_REQUEST = 200, 401, 400
"""Status of an accepted key, and those of a refused one; Gemini and xAI use the last, with words."""
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


def ask_key(provider: str, ask: Callable[[str, str], str]) -> tuple[str, str]:
    """Let a person type the key of a provider; return the key, "" for none, and what to tell them about it. Blocks.

    `ask` shows a text, asks for a line that is not shown and that its second argument names, and returns the line.

    A key that the provider refuses counts once it is given again: a gateway may refuse the question alone.
    """
    shape, host = SHAPES[provider], address_from_env(f"{provider}/")
    page = f"Create a key for {shape.title} at {shape.page}."
    goes = f"The key will be sent to {host}, the address that the environment sets for {shape.title}."
    text, refused = f"{goes if host else page} Paste it here (Esc to cancel).", ""
    for remaining_tries in reversed(range(TRIES)):
        line = ask(text, "Key").strip()
        if not line:
            return "", ""
        protect_secret(line)
        try:
            key = clean_key(provider, line)
        except NexusError as error:
            text = error.sentences
            continue
        refusal, untried = ("", "") if key == refused else check_key(provider, key)
        if not refusal:
            return key, f"The key was not verified: {untried}." if untried else ""
        refused = key
        again = (
            "Paste another key, or paste this one again to store it anyway."
            if remaining_tries
            else "Nothing was stored."
        )
        text = f"{host or shape.title} rejected this key: {refusal}. {again}"
    return "", text


def check_key(provider: str, key: str) -> tuple[str, str]:
    """Return the reason that the provider refuses `key`, at the address of the environment or its own, and why it could
    not be asked; "" each if not so. Blocks for `SECONDS` at most."""
    from http.client import HTTPException  # noqa: PLC0415  (few processes store a key)

    try:
        address = read_env_address(provider) or HOSTS.get(provider, "")
    except NexusError as error:
        return "", error.why
    if provider not in _PATHS or not address:
        return "", ""
    host = urlsplit(address).hostname or address
    verdict = ("", f"{host} did not answer within {SECONDS:g} s")

    def ask() -> None:
        nonlocal verdict
        try:
            verdict = _ask(provider, address, key)
        except (OSError, ValueError, HTTPException) as error:
            verdict = "", ". ".join(describe_unreachable(error, host))

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return verdict


def _ask(provider: str, address: str, key: str) -> tuple[str, str]:
    path = _PATHS[provider]
    address = address.rstrip("/").removesuffix(path.rpartition("/")[0]).removesuffix("/v1")
    headers = _HEADERS.get(provider, {"Authorization": "Bearer {}"})
    headers = {name: text.format(key) for name, text in headers.items()}
    ends = time.monotonic() + 2 * SECONDS  # `check_key` waits for less
    with send_request(open_connection(address + path, SECONDS), ends, headers) as answer:
        text = answer.read(MAX_ANSWER).decode("utf-8", "replace")
    if answer.status == UNAUTHORIZED or (answer.status == BAD_REQUEST and re.search(NO_KEY, text, re.I)):
        return format_error_line(text) or f"HTTP status {answer.status}", ""
    return "", "" if answer.status == OK else f"{urlsplit(address).hostname} answered with HTTP status {answer.status}"
