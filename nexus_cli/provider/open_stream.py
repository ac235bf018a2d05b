"""One open stream of a provider: its chunks, and the sockets to close.

Finds the provider's own chunks under litellm's wrapper, and closes. litellm's own `aclose` leaves the socket of some
providers open (Anthropic's in 1.100.5), so the responses themselves are recorded and closed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import Sending
from nexus_cli.provider.message_lines import empty_body
from nexus_cli.provider.stall import note_wait

_opening: ContextVar[OpenStream | None] = ContextVar("opening", default=None)
LAST_BYTES_SECONDS = 0.05
END: Final = object()
"""Returned instead of a chunk at the end."""


PHASES = ("connect", "read", "write", "pool")
"""What httpx limits in a request."""


async def note_request(request: Any) -> None:
    """Record the request for the stream that is being opened, as a hook of the HTTP client. Set its stall limit, which
    litellm's adapters of Gemini and Bedrock do not pass on, and follow its phases."""
    if (stream := _opening.get()) is not None:
        stream.requests.append(request)
        request.extensions |= {"timeout": dict.fromkeys(PHASES, stream.stall_seconds), "trace": stream.note_phase}


async def note_response(response: Any) -> None:
    """Record the response for the stream that is being opened, as a hook of the HTTP client."""
    if (stream := _opening.get()) is not None:
        stream.responses.append(response)


def _refuse_object(body: str) -> None:
    """Raise the error that a server sent as JSON with status 200. For any other JSON object, which may be a paid
    answer, raise one that is not transient. A stream that a server labels as JSON passes."""
    if not body.lstrip().startswith("{"):
        return
    from nexus_cli.provider.error_text import parse_body  # noqa: PLC0415  (an answer that is no stream)

    if parse_body(body).get("error"):
        raise ValueError(body)
    raise ProviderError(
        "provider",
        "the server sent one JSON object instead of a stream",
        "Turn on streaming in the server, or choose another model",
    )


class OpenStream:
    """The connection of one request."""

    def __init__(self, stall_seconds: float, sending: Sending) -> None:
        self._sending = sending
        self.requests: list[Any] = []
        self.responses: list[Any] = []
        self._wrapper: Any = None
        self._plain = False
        self._closing = False
        self.chunks: Any = None
        """The iterator of chunks, once open."""
        self.stall_seconds = stall_seconds

    async def open(self, call: Callable[..., Awaitable[Any]], arguments: JsonObject) -> None:
        """Make the call and find the chunks of its answer."""
        token = _opening.set(self)
        try:
            with note_wait(self.stall_seconds):
                self._wrapper = await call(**arguments)
                inner = getattr(self._wrapper, "completion_stream", None)
                if inner is None and hasattr(self._wrapper, "fetch_stream"):
                    inner = await self._wrapper.fetch_stream()
        except asyncio.CancelledError:
            self._sending.is_sent |= not self.requests  # some clients hide what they send
            raise
        finally:
            _opening.reset(token)
        self._plain = not hasattr(inner, "__aiter__")
        source: Any = self._wrapper if self._plain else inner
        if not hasattr(source, "__aiter__"):
            raise ProviderError("provider", "the model's answer is not a stream")
        response: Any = getattr(inner, "response", None)
        if hasattr(response, "aclose"):
            self.responses.append(response)
            headers = response.headers
            if "application/json" in headers.get("content-type", "") and "content-length" in headers:
                _refuse_object((await response.aread()).decode(errors="replace"))
            self._keep(response)
        self.chunks = source.__aiter__()

    async def note_phase(self, phase: str, info: Any) -> None:
        """Note that the request goes out, as a trace of httpcore: `http11.send_request_headers.started`."""
        self._sending.is_sent |= phase.endswith("send_request_headers.started")

    async def next_chunk(self) -> object:
        """Return the next chunk, or `END`. Raises every exception of the network and the SDKs, of a stall too."""
        while True:
            with note_wait(self.stall_seconds):
                chunk: object = await anext(self.chunks, END)
            if chunk is not None:
                return chunk

    @property
    def is_web_page(self) -> bool:
        """True if a web page came instead of a stream."""
        headers = (getattr(response, "headers", None) or {} for response in self.responses)
        return any("text/html" in header.get("content-type", "") for header in headers)

    @property
    def body_sha256(self) -> str:
        """Return the SHA-256 of the body of the answered request; "" if the transport hides it."""
        for response in self.responses:
            body = getattr(getattr(response, "request", None), "_content", None)  # none after a redirect
            if isinstance(body, bytes) and body:
                return sha256(body).hexdigest()
        return ""

    @property
    def has_invented_end(self) -> bool:
        """True if litellm's wrapper was read (for a provider without asynchronous chunks) and invented the end."""
        return self._plain and getattr(self._wrapper, "received_finish_reason", None) is None

    async def aclose(self) -> None:
        """Close the sockets at once, and free the bodies that were sent. An answer that was read whole leaves its
        connection for the next request."""
        self._closing = True
        for closable in (*self.responses, self._wrapper):
            if hasattr(closable, "aclose"):
                try:
                    await closable.aclose()
                except Exception:  # a seam: closing a broken connection may raise anything, and nothing is lost
                    continue
        for request in self.requests:
            empty_body(request)

    def _keep(self, response: Any) -> None:
        """Read the last bytes of the openai SDK's response before it is closed after `[DONE]`.

        The SDK closes it unread, which loses the connection, and every step would need a new one. The rest is read from
        the SDK's own iterator, and only while that is suspended: reading a finished body again makes httpcore loop for
        ever without yielding.
        """
        read, close = response.aiter_raw, response.aclose
        body: Any = None
        settled = False

        def remember(chunk_size: int | None = None) -> Any:
            nonlocal body
            body = read(chunk_size)
            return body

        async def settle() -> None:
            nonlocal settled
            unfinished = body is not None and not body.ag_running
            if unfinished and not settled and not self._closing and sys.exception() is None:
                settled = True
                try:
                    async with asyncio.timeout(LAST_BYTES_SECONDS):
                        async for _ in body:
                            pass
                except Exception:  # a seam: the connection is closed next, whatever is wrong with it
                    settled = True
            await close()

        response.aiter_raw = remember
        response.aclose = settle
