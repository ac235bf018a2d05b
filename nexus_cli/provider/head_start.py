"""Send the first request of a process before litellm is imported, and give litellm the open connection.

A proven template (`request_template`) makes the bytes. litellm then builds its own request and sends it as always, but
the connection that httpcore opens for it is the one on which these bytes went out: what litellm writes is compared with
them and not sent again, what the provider answers is read by litellm. Failures before the first byte leave the request
to litellm alone, later ones reach it as those of any connection. If litellm writes other bytes, the connection is
closed, no such template is used again, and the caller records the request as one whose answer was cut. The host comes
from the settings or from `HOSTS`, never from a template.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nexus_cli.core.certificates import client_context
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import ModelInfo, Request, Sending
from nexus_cli.provider.endpoint import HOSTS, Endpoint, read_key
from nexus_cli.provider.model_names import LOCAL
from nexus_cli.provider.request_template import Parts, TemplateFile, digest_inputs

FIRST_CHANCE = 0.1
"""Seconds for which the import of litellm leaves the processor to the connection."""
POLL = 0.01
"""Seconds between two looks of a request that waits until the first one has its connection."""
ATTEMPT_DELAY = 0.25
"""Seconds after which the next address of a host is tried too (RFC 8305)."""
STATUS_END = 12
"""The number of bytes of an answer up to the end of its status: `HTTP/1.1 200`."""
WASTED = "litellm built a different request from the one already sent"
_CUSTOM_NETWORK = re.compile(
    r"(http|https|all)_proxy|ssl_(verify|certificate|security_level|ecdh_curve)|.*_custom_headers"
)
_has_started = False
"""This process has sent a request, or is about to."""
_leader: HeadStart | None = None
"""The head start of the first request."""
_current: ContextVar[HeadStart | None] = ContextVar("head_start", default=None)


class HeadStart:
    """The first request of a process: sent early if its template is proven, else watched to learn the template."""

    def __init__(self, file: TemplateFile, origin: tuple[str, int, bool], sending: Sending) -> None:
        self._file = file
        self._sending = sending
        self._host, self._port, self._tls = origin
        self._rendered = file.render_proven()
        self._opening: asyncio.Task[None] | None = None
        self._stream: _EarlyStream | _WatchedStream | None = None
        self.is_claimed = False
        """Litellm has asked for the connection, or never will."""

    async def begin(self) -> None:
        """Send the request, if its template is proven; give it `FIRST_CHANCE` before other work begins."""
        if self._rendered:
            self._opening = asyncio.create_task(self._send())
            await asyncio.wait({self._opening}, timeout=FIRST_CHANCE)

    @contextmanager
    def lead(self) -> Iterator[None]:
        """Let the connection that is opened within the block be this one."""
        _patch_httpcore()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    async def connect(self, host: str, port: int, seconds: float | None, open_new: Callable[[], Awaitable[Any]]) -> Any:
        """Return the connection for httpcore: the early one if it was made, else a new one. Raises `TimeoutError` if
        the early one is still being made after `seconds`."""
        if self._opening is not None:
            async with asyncio.timeout(seconds):
                await asyncio.wait({self._opening})
        if self.is_claimed or (host, port) != (self._host, self._port):
            if self._stream is not None and self._stream.differs:
                raise ConnectionError(WASTED)
            return await open_new()
        self.is_claimed = True
        if self._stream is None:
            self._stream = _WatchedStream(await open_new())
        return self._stream

    async def aclose(self) -> None:
        """Learn from what was sent. Close a connection that litellm never asked for."""
        if self._opening is not None:
            self._opening.cancel()
        if self._stream is None:
            self.is_claimed = True
            return
        if not self.is_claimed:
            self.is_claimed = True
            await self._stream.aclose()
        status = self._stream.answer[9:STATUS_END]
        if status.startswith(b"3"):
            self._file.refuse()
        elif status == b"200" and isinstance(self._stream, _WatchedStream):
            self._file.note_sent(self._stream.sent)

    def refuse_wasted(self) -> ProviderError | None:
        """After a failure: if the request was sent and litellm asked for another one, or for none, stop using this
        template and return the error. The request counts as cut: the caller records it, with its cost, before it sends
        another one."""
        if not isinstance(self._stream, _EarlyStream) or (self.is_claimed and not self._stream.differs):
            return None
        self._file.refuse()
        return ProviderError("provider", WASTED, "Ask again", started=True, cut=True)

    async def _send(self) -> None:
        """Connect and send; leave a connection that fails before the first byte to litellm."""
        with suppress(OSError, ValueError):
            tls = _tls_context() if self._tls else None
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=tls, happy_eyeballs_delay=ATTEMPT_DELAY
            )
            self._stream = _EarlyStream(reader, writer, self._rendered)
            self._sending.is_sent = True


async def begins_process() -> bool:
    """Return True for the first request of this process, which alone may have a head start: for another one litellm may
    have a connection. That waits until the first one has its connection."""
    global _has_started
    is_first, _has_started = not _has_started, True
    # Else this request may leave an idle connection, which litellm would take for the first one.
    while not is_first and _leader is not None and not _leader.is_claimed:  # noqa: ASYNC110  (loops may be several)
        await asyncio.sleep(POLL)
    return is_first


def find_head_start(folder: Path, request: Request, endpoint: Endpoint, info: ModelInfo) -> HeadStart | None:
    """Return the head start of a request, which has its cache marks, or None where it may have none: a provider that
    signs or refreshes tokens, a proxy, TLS or headers of the person's own, a password in the address, a server whose
    answer decides on the request."""
    global _leader
    origin = _origin(endpoint)
    if origin is None or info.pending or _has_custom_network():
        return None
    plain = [{name: value for name, value in message.items() if value is not None} for message in request.messages]
    parts = Parts(endpoint.key or read_key(endpoint.provider), request.cache_key, request.max_output, plain)
    inputs = digest_inputs(replace(request, messages=()), endpoint, info)
    _leader = HeadStart(TemplateFile(folder, inputs, parts), origin, request.sending)
    return _leader


def _origin(endpoint: Endpoint) -> tuple[str, int, bool] | None:
    """Return host, port and encryption of the endpoint; None for one without head start."""
    if endpoint.provider not in HOSTS and endpoint.provider not in LOCAL:
        return None
    address = urlsplit(endpoint.address)
    if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc:
        return None
    tls = address.scheme == "https"
    return address.hostname, address.port or (443 if tls else 80), tls


def _has_custom_network() -> bool:
    """True if the environment, or the system, names a proxy, other rules for TLS, or headers, which may be secret."""
    if any(value and _CUSTOM_NETWORK.fullmatch(name.lower()) for name, value in copy_environ().items()):
        return True
    if sys.platform == "linux":
        return False
    from urllib.request import getproxies  # noqa: PLC0415  (only there can the system name one)

    return bool(getproxies())


def _tls_context() -> ssl.SSLContext:
    """Return a TLS context as that of litellm: the certificates of the environment or the system, TLS 1.2 or newer;
    HTTP/1.1."""
    context = client_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _EarlyStream:
    """A connection on which a request was already sent, in the form that httpcore expects of one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        self._reader, self._writer = reader, writer
        self._ahead = memoryview(request)
        self.differs = False
        self.answer = b""
        writer.write(request)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Compare `buffer` with what was sent; send what goes beyond the first request."""
        if not self._ahead:
            self._writer.write(buffer)
        elif self._ahead[: len(buffer)] == buffer:
            self._ahead = self._ahead[len(buffer) :]
        else:
            await self._give_up()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        import httpcore  # noqa: PLC0415  (the library comes with litellm, after the request)

        if self._ahead:
            await self._give_up()
        try:
            async with asyncio.timeout(timeout):
                data = await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        self.answer += data[: STATUS_END - len(self.answer)]
        return data

    async def aclose(self) -> None:
        self._writer.transport.abort()

    async def start_tls(self, *_: Any, **__: Any) -> _EarlyStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return True if the provider closed the connection or spoke on it unasked, as httpcore asks before it uses it
        again; None for all else."""
        if info == "is_readable":
            return self._reader.at_eof() or bool(getattr(self._reader, "_buffer", True))
        return None

    async def _give_up(self) -> None:
        self.differs = True
        await self.aclose()
        raise ConnectionError(WASTED)


class _WatchedStream:
    """A connection of httpcore; keeps the first request that is written to it, and the beginning of the answer."""

    differs = False

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sent = b""
        self.answer = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not self.answer:  # else it is a later request
            self.sent += buffer
        await self._inner.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._inner.read(max_bytes, timeout)
        self.answer += data[: STATUS_END - len(self.answer)]
        return bytes(data)

    async def start_tls(self, *arguments: Any, **keywords: Any) -> _WatchedStream:
        self._inner = await self._inner.start_tls(*arguments, **keywords)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@cache
def _patch_httpcore() -> None:
    """Let httpcore ask a head start for each connection that is opened within its `lead`."""
    from httpcore._backends.auto import AutoBackend  # noqa: PLC0415  (comes with litellm, after the request)

    original = AutoBackend.connect_tcp

    async def connect_tcp(self: AutoBackend, host: str, port: int, **options: Any) -> Any:
        ahead = _current.get()
        if ahead is None:
            return await original(self, host, port, **options)
        return await ahead.connect(host, port, options["timeout"], lambda: original(self, host, port, **options))

    AutoBackend.connect_tcp = connect_tcp  # type: ignore[assignment,method-assign]
