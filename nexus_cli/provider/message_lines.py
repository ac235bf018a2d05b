"""Put the messages of a request into its body as JSON, past the openai SDK.

The SDK walks all messages several times at each call, which takes ten times as long as to encode them. It gets
`STAND_IN` instead, which `fill_body` replaces in the finished request. The bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import canonical

STAND_IN = "nexus puts the messages here"
"""The value of `messages` in the body that the SDK encodes."""
_KEY = b'"messages":'
filling: ContextVar[bytes | None] = ContextVar("filling", default=None)
"""The encoded messages of the current call, without null fields: the bytes that litellm would send."""


class MessageEncoder:
    """Encodes the messages of requests that grow at the end: what the last one held is not encoded again."""

    def __init__(self) -> None:
        self._encoded: tuple[list[JsonObject], list[bytes]] = [], []
        """The messages of the last request, and their lines."""

    def encode(self, messages: Sequence[JsonObject]) -> bytes:
        """Return `messages` as JSON, without null fields."""
        encoded, lines = self._encoded
        if encoded != [*messages[: len(encoded)]]:
            encoded, lines = [], []
        plain = ({key: value for key, value in m.items() if value is not None} for m in messages[len(encoded) :])
        lines = [*lines, *map(canonical, plain)]
        self._encoded = [*messages], lines
        return b"[%b]" % b",".join(lines)


def fill_body(request: Any) -> None:
    """Replace `STAND_IN` in the body of an `httpx.Request`, if it is there."""
    messages = filling.get()
    before, separator, after = request.content.partition(_KEY + canonical(STAND_IN))
    if messages is None or not separator:
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
