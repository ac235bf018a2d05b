"""Rebuild the body of a request without sending it anywhere: litellm talks to a server on loopback that refuses it."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Provider, Request
from nexus_cli.provider.retry import closing

SECONDS = 30.0
"""Time limit for building one body; the first one imports litellm."""
REFUSAL = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
"""The answer to every request: no adapter retries it."""


class BodyCatcher:
    """An HTTP server on loopback that keeps the bodies of requests and refuses them all."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        """Start the server and return its address."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next((line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0")
            body = await reader.readexactly(int(length))
            if body:
                self.bodies.append(body)
            writer.write(REFUSAL)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError, ValueError):
            pass  # not a valid request: the caller finds no body
        finally:
            writer.close()


async def hash_rebuilt_body(request: Request, at: BodyCatcher, through: Provider) -> str:
    """Return the SHA-256 of the body that `through`, which sends to `at`, builds for a request; "" if none arrives."""
    at.bodies.clear()
    try:
        async with asyncio.timeout(SECONDS), closing(through.stream(request)) as deltas:
            async for _ in deltas:
                pass
    except (ProviderError, TimeoutError):
        pass  # the catcher refuses every request
    return sha256(at.bodies[-1]).hexdigest() if at.bodies else ""
