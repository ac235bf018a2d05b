"""One HTTP/1.1 connection in raw bytes: reads requests, writes answers, notices when the client leaves.

Knows nothing of models. What is written is decided in `server.answer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from server.framing import FRAMINGS, Framing

BODY_LIMIT = 256 << 20


class Gone(Exception):
    """The client has closed, or the connection was ended on purpose."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]


class Connection:
    """Both directions of one socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.closed_by_client = False
        self._ahead: asyncio.Task[bytes] | None = None
        self._chunked = False
        writer.transport.set_write_buffer_limits(high=1 << 16)
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def request(self) -> tuple[Head, bytes] | None:
        """The next request and its body; None when the client closed or sent no HTTP."""
        try:
            early = await self._ahead if self._ahead else b""
            self._ahead = None
            line = early + await self.reader.readline()
            words = line.decode("latin-1").split()
            if len(words) != 3:
                return None
            headers: dict[str, str] = {}
            while (field := (await self.reader.readline()).decode("latin-1").strip()) != "":
                name, _, value = field.partition(":")
                headers[name.strip().lower()] = value.strip()
            return Head(words[0], words[1], headers), await self._body(headers)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None

    async def head(
        self, status: int, content_type: str, framing: Framing, length: int, extra: Mapping[str, str] | None = None
    ) -> None:
        """The status line and headers; `length` counts only where the framing announces it."""
        self._chunked = framing.body == "chunked"
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Overloaded" if status == 529 else "Unknown"
        lines = [f"HTTP/{framing.version} {status} {phrase}", f"Content-Type: {content_type}"]
        if self._chunked:
            lines.append("Transfer-Encoding: chunked")
        elif framing.body == "length":
            lines.append(f"Content-Length: {length}")
        if framing.connection:
            lines.append(f"Connection: {framing.connection}")
        lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
        await self._write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def body(self, data: bytes) -> None:
        """A piece of the body, in a chunk of its own where the body is chunked."""
        if data:
            await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        """The end of a chunked body."""
        if self._chunked:
            await self._write(b"0\r\n\r\n")

    async def whole(self, status: int, value: Any, extra: Mapping[str, str] | None = None) -> int:
        """A JSON answer at once; gives the length of its body."""
        data = json.dumps(value, ensure_ascii=False).encode()
        await self.head(status, "application/json", FRAMINGS["length"], len(data), extra)
        await self.body(data)
        return len(data)

    async def wait(self, seconds: float) -> None:
        """Waits; raises `Gone` as soon as the client closes."""
        await asyncio.wait({self._watch()}, timeout=max(0.0, seconds))
        self.check()

    def check(self) -> None:
        """Raises `Gone` when the client has closed."""
        watch = self._watch()
        if watch.done() and (watch.cancelled() or watch.exception() is not None or watch.result() == b""):
            self.closed_by_client = True
            raise Gone

    def hang_up(self, *, reset: bool) -> None:
        """Ends the connection: by a TCP reset, or by closing it after what was written."""
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.writer.transport.abort()
        else:
            self.writer.close()

    async def close(self) -> None:
        """Closes and waits until it is closed."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait({self._ahead})
            if not self._ahead.cancelled():
                self._ahead.exception()
        self.writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(self.writer.wait_closed(), 1)

    def _watch(self) -> asyncio.Task[bytes]:
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self.reader.read(1))
        return self._ahead

    async def _write(self, data: bytes) -> None:
        self.check()
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError as error:
            self.closed_by_client = True
            raise Gone from error

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            made = bytearray()
            while (size := int((await self.reader.readline()).split(b";")[0], 16)) > 0:
                if len(made) + size > BODY_LIMIT:
                    raise ValueError("body too large")
                made += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
            return bytes(made)
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= BODY_LIMIT:
            raise ValueError("body too large")
        return await self.reader.readexactly(length)
