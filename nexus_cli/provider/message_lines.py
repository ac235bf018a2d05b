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
        self._messages: list[Mapping[str, Any]] = []
        self._lines: list[bytes] = []

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> bytes:
        """Return `messages` as a JSON array without null fields, with the bytes that litellm would send."""
        same = 0
        for before, now in zip(self._messages, messages, strict=False):
            if before is not now:
                break
            same += 1
        new = messages[same:]
        self._messages[same:] = new
        self._lines[same:] = [canonical({key: value for key, value in m.items() if value is not None}) for m in new]
        return b"[" + b",".join(self._lines) + b"]"


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
