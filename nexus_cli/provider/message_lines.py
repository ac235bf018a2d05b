"""Put the messages of a request into its body as JSON, so that each message is encoded only once.

A request repeats the messages of the one before, and the openai SDK would encode the whole body at each call. It gets
`STAND_IN` instead of the messages, which `fill_body` replaces in the finished request. The bytes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from nexus_cli.core.wire import canonical

STAND_IN = "nexus puts the messages here"
"""The value of `messages` in the body that the SDK encodes."""
_KEY = b'"messages":'
filling: ContextVar[bytes | None] = ContextVar("filling", default=None)
"""The encoded messages of the current call."""


class MessageLines:
    """The encoded messages of the newest request. A message that is the same object is not encoded again."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[Mapping[str, Any], bytes]] = {}
        """By identity of the message, which is kept with its line."""

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> bytes:
        """Return `messages` as a JSON array without null fields, with the bytes that litellm would send."""
        lines = [self._lines.get(id(message)) or (message, _encode(message)) for message in messages]
        self._lines = {id(message): (message, line) for message, line in lines}
        return b"[" + b",".join(line for _, line in lines) + b"]"


def _encode(message: Mapping[str, Any]) -> bytes:
    return canonical({key: value for key, value in message.items() if value is not None})


def fill_body(request: Any) -> None:
    """Replace `STAND_IN` in the body of an `httpx.Request`, if it is there."""
    messages = filling.get()
    before, found, after = request.content.partition(_KEY + canonical(STAND_IN))
    if messages is None or not found:
        return
    body = b"".join((before, _KEY, messages, after))
    request.stream = type(request.stream)(body)
    request._content = body
    request.headers["Content-Length"] = str(len(body))


def empty_body(request: Any) -> None:
    """Free the body of an `httpx.Request` that is done with: the libraries keep requests in reference cycles, and a
    process would hold dozens of bodies until the next full collection."""
    if isinstance(getattr(request.stream, "_stream", None), bytes):
        request.stream._stream = b""
        request._content = b""
