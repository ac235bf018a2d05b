"""Bound what a server with a URL may send in one response, and see its status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2

from nexus_cli.mcp.server_values import ServerError


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport whose responses raise `ServerError` after `most` bytes; streams of events are not counted."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int, see_status: Callable[[int], None]) -> None:
        self._inner, self._most, self._see_status = inner, most, see_status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; pass on the status of its response."""
        response = await self._inner.handle_async_request(request)
        self._see_status(response.status_code)
        # The SDK bounds each event of a stream, which may run for days.
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream, self._most)
        return response

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner, self._left, self._most = inner, most, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            self._left -= len(data)
            if self._left < 0:
                raise ServerError("too_large", f"it sent an answer of more than {self._most // 1_000_000} MB")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
