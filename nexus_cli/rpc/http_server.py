"""The HTTP server: JSON-RPC on `/rpc`, events on `/agents/ID/events`, the description on `/openrpc.json`.

Checks access (token, Host, Origin) and enforces limits: bytes of a body, seconds of a read or a write, connections. The
methods are in `methods`. An agent never waits for a connection: events go through bounded queues, and a client that
does not read them is cut off.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from nexus_cli.config.crash_report import report_bug
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.wire import json_text
from nexus_cli.rpc.dispatcher import AgentDispatcher
from nexus_cli.rpc.event_feed import CUT, Listener
from nexus_cli.rpc.jsonrpc import (
    INTERNAL_ERROR,
    RpcCall,
    RpcError,
    error_object,
    parse_calls,
    result_object,
)
from nexus_cli.rpc.methods import PoolMethods, openrpc_document
from nexus_cli.rpc.trigger_door import BODY_SECONDS, SERVICE, TriggerDoor, json_response, problem_response
from nexus_cli.runs.webhook_senders import refuse_unsigned

MAX_BODY = 8 << 20
"""Most bytes of a request."""
MAX_CONNECTIONS = 400
"""Beyond this number the oldest connection without a token is closed; if all have one, the new connection is."""
IDLE_SECONDS = 30.0
"""Seconds that a connection may take for its next request line and headers."""
WRITE_SECONDS = 20.0
"""Seconds that a client may leave written data unread."""
STOP_SECONDS = 5.0
"""Seconds that connections may stay open after the last call has ended."""
KEEP_ALIVE_SECONDS = 15.0
"""Seconds without an event after which a stream carries a comment."""
EVENTS = "text/event-stream"
HTTP_REFUSED = 400
"""Lowest HTTP status of a refusal."""
MAX_SHOWN = 120
"""Most characters of an answer in a line for the person."""
MINUTE = 60.0
"""Least seconds between two lines about what anybody can cause."""
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RpcServer:
    """The server of one pool. `start` and `stop` it in one event loop."""

    def __init__(
        self,
        methods: PoolMethods,
        token: str,
        host: str,
        triggers: TriggerDoor | None,
        warn: TakeText = lambda line: None,
        note: TakeText = lambda line: None,
    ) -> None:
        """`host` is the name or address that it listens on, "" for a socket file; `triggers` are its services; `warn`
        gets one line for each bug, and one a minute for malformed requests, `note` one for what else comes in."""
        self._methods = methods
        self.triggers = triggers
        self._token = token
        self._is_open = _is_wildcard(host)
        """True if it listens on every address of this machine."""
        self._hosts = LOOPBACK | {socket.gethostname().lower() if self._is_open else host.lower()}
        self._works: set[asyncio.Task[Any]] = set()
        self._authorized: set[asyncio.BaseTransport] = set()
        """Connections on which a token was shown."""
        self._note, self._note_refused = note, RateLimitedLog(note)
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guard])
        app.router.add_post("/rpc", self._rpc)
        app.router.add_get("/agents/{agent_id}/events", self._events)
        app.router.add_get("/openrpc.json", self._describe)
        app.router.add_post(f"/trigger/{{{SERVICE}}}", self._trigger)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_quiet_logger(warn),
            handler_cancellation=True,
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=1.0,
            shutdown_timeout=STOP_SECONDS,
        )
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve connections to a bound socket."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        if listening.family == socket.AF_UNIX:
            self._server = await loop.create_unix_server(self._accept, sock=listening)
        else:
            self._server = await loop.create_server(self._accept, sock=listening)

    async def stop(self) -> None:
        """Accept no more connections, end the streams, and finish the calls in progress."""
        if self._server is not None:
            self._server.close()
        for agent in self._methods.pool.list():
            agent.dispatcher.feed.end()
        if self._works:
            await asyncio.wait(list(self._works), timeout=WRITE_SECONDS)
        await self._runner.cleanup()

    def _accept(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection. A client without a token can neither lock out others by holding
        connections nor cause a connection with a token to be closed."""
        server = self._runner.server
        if server is None:
            return _FullProtocol()
        # The server does not yet know of a connection that was just aborted.
        transports = [
            connection.transport
            for connection in server.connections
            if connection.transport and not connection.transport.is_closing()
        ]
        self._authorized.intersection_update(transports)
        while len(transports) >= MAX_CONNECTIONS:
            oldest = next((writer for writer in transports if writer not in self._authorized), None)
            if oldest is None:
                return _FullProtocol()
            transports.remove(oldest)
            oldest.write(_FULL)
            oldest.abort()
        return server()

    # -- access --------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests without access, turn every failure into an answer, and do not wait for slow readers."""
        try:
            refusal = self._refusal(request)
            if refusal is None and request.transport is not None and not self._is_from_outside(request):
                self._add_authorized(request.transport, request.remote)
            response = refusal if refusal is not None else await handler(request)
        except web.HTTPException as error:
            response = problem_response(error.status, error.reason)
            if allowed := error.headers.get("Allow"):
                response.headers["Allow"] = allowed
        except RpcError as error:
            response = json_response(error_object(None, error))
        if isinstance(response, web.Response) and (service := request.match_info.get(SERVICE)):
            says = self._note if response.status < HTTP_REFUSED else self._note_refused
            says(f"webhook {service[:40]}: {response.status} {(response.text or '')[:MAX_SHOWN].strip()}")
        if not response.prepared and isinstance(response, web.Response):
            with suppress(ConnectionError):
                await _write(request, response.prepare(request))
                await _write(request, response.write_eof())
        return response

    def _add_authorized(self, transport: asyncio.BaseTransport, peer: str | None) -> None:
        """Remember a connection with a token; note the first one after there was none."""
        self._authorized = {writer for writer in self._authorized if not writer.is_closing()}
        if not self._authorized:
            self._note(f"connected: {peer or 'a program'}")
        self._authorized.add(transport)

    def _refusal(self, request: web.Request) -> web.Response | None:
        checked = not self._is_from_outside(request)
        if checked and not self._is_own_host(request.headers.get("Host", "")):
            return problem_response(403, "this Host is not allowed")
        origin = request.headers.get("Origin")
        if checked and origin is not None and not self._is_own_host(origin.partition("://")[2]):
            return problem_response(403, "requests from this Origin are not allowed")
        if not self._may_enter(request):
            return problem_response(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return problem_response(415, "compressed bodies are not supported")
        return None

    def _is_from_outside(self, request: web.Request) -> bool:
        """True for a service whose sender comes through a proxy. No web page has its secret."""
        return self.triggers is not None and self.triggers.is_from_outside(request)

    def _is_own_host(self, host: str) -> bool:
        """True if the host is one that a foreign web page cannot have made a browser ask for. DNS rebinding can point a
        page's own name here, but not an address."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return bool(name) and (name in self._hosts or (self._is_open and _is_address(name)))

    def _may_enter(self, request: web.Request) -> bool:
        """True if the token matches the path: a service has its own, which opens nothing else."""
        if self.triggers is not None and SERVICE in request.match_info:
            return self.triggers.admits(request)
        return not refuse_unsigned("", "", self._token, request.headers, b"", 0.0)

    # -- calls ---------------------------------------------------------------------------------------------------

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        if (length := request.content_length or 0) > MAX_BODY:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY, length)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
        except TimeoutError:
            return problem_response(408, f"the body took longer than {BODY_SECONDS:g} s", {"Connection": "close"})
        calls, is_list = parse_calls(body)
        call = calls[0]
        if not (is_list or call.error or call.is_notification) and call.method == "send" and _wants_events(request):
            return await self._stream_turn(request, call)
        answers = await asyncio.shield(self._begin(self._answer_all(calls)))
        if not answers:
            return web.Response(status=204)
        return json_response(answers if is_list else answers[0])

    async def _answer_all(self, calls: list[RpcCall]) -> list[JsonObject]:
        """Run the calls concurrently and return their answers; notifications have none. The turn of a notification is
        not waited for."""
        tasks = [(call, self._begin(self._answer(call))) for call in calls]
        waits = [task for call, task in tasks if not (call.is_notification and call.method == "send")]
        return [answer for answer in await asyncio.gather(*waits) if answer is not None]

    async def _answer(self, call: RpcCall) -> JsonObject | None:
        try:
            if call.error is not None:
                raise call.error
            answer = result_object(call.id, await self._methods.call(call.method, call.params))
        except RpcError as error:
            answer = error_object(call.id, error)
        except Exception as bug:  # the last seam: a caller always gets an answer
            answer = error_object(call.id, RpcError(INTERNAL_ERROR, report_bug(bug).message))
        return None if call.is_notification else answer

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Return a task that continues after the client has left."""
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return task

    async def _trigger(self, request: web.Request) -> web.StreamResponse:
        if self.triggers is None:
            return problem_response(404, "no such service")
        return await self.triggers.answer(request)

    # -- events --------------------------------------------------------------------------------------------------

    async def _stream_turn(self, request: web.Request, call: RpcCall) -> web.StreamResponse:
        """Run a turn and stream its events as the answer."""
        listener = Listener(drops=True)
        try:
            dispatcher, arguments = self._methods.find_target(call.method, call.params)
            dispatcher.begin_turn(**arguments, listener=listener)
        except RpcError as error:
            return json_response(error_object(call.id, error))
        return await self._stream(request, dispatcher, listener)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        last_id = request.headers.get("Last-Event-ID", "")
        if not re.fullmatch(r"(-1|[0-9]{1,15})?", last_id):  # behind -1: all that are kept
            return problem_response(400, "Last-Event-ID must be an event number")
        agent = self._methods.pool.get(request.match_info["agent_id"])
        if agent is None:
            return problem_response(404, "no such agent")
        feed = agent.dispatcher.feed
        # A client of 0.2.0, which does not name `questions`, would ask a question twice.
        questions = request.query.get("questions") == "true"
        listener = agent.dispatcher.listen(int(last_id) if last_id else None, questions=questions)
        try:
            return await self._stream(request, agent.dispatcher, listener)
        finally:
            feed.leave(listener)

    async def _stream(
        self, request: web.Request, dispatcher: AgentDispatcher, listener: Listener
    ) -> web.StreamResponse:
        """Write events until they end, the client leaves, or it stops reading."""
        response = web.StreamResponse(headers={"Content-Type": EVENTS, "Cache-Control": "no-store"})
        has_person = request.query.get("questions") == "true"
        dispatcher.approver.attach_client(has_person=has_person)
        try:
            await _write(request, response.prepare(request))
            await _write(request, response.write(b": connected\n\n"))
            while (items := await listener.read(KEEP_ALIVE_SECONDS)) is not None:
                text = b"".join(b"id: %d\ndata: %b\n\n" % (item.seq, item.data) for item in items)
                await _write(request, response.write(text or b": keep-alive\n\n"))
            if listener.is_cut_off:
                why = "the client reads too slowly; reconnect with Last-Event-ID"
                last = json_text({"v": 1, "type": CUT, "why": why}, escaped=False).encode()
                await _write(request, response.write(b"data: " + last + b"\n\n"))
            await _write(request, response.write_eof())
        except ConnectionError:
            pass
        finally:
            dispatcher.approver.detach_client(has_person=has_person)
        return response

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        return json_response(await asyncio.to_thread(openrpc_document))


_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _FullProtocol(asyncio.Protocol):
    """A connection beyond the limit: it is answered with 503 and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer at once."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_FULL)
        transport.close()


class RateLimitedLog:
    """Passes at most one line a minute on, with the number of all lines so far."""

    def __init__(self, write: TakeText) -> None:
        self._write = write
        self._next, self._count = 0.0, 0

    def __call__(self, line: str) -> None:
        """Count a line, and pass it on if none was within the last minute."""
        self._count += 1
        if (now := time.monotonic()) >= self._next:
            self._next = now + MINUTE
            self._write(f"{line} ({self._count:,} so far)" if self._count > 1 else line)


class _BugReports(logging.Handler):
    """Handles aiohttp's log records: a malformed request is the client's error, everything else is a bug of ours."""

    def __init__(self, warn: TakeText) -> None:
        super().__init__()
        self._warn, self._malformed = warn, RateLimitedLog(warn)

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exception of a record in one line, without the text of the request."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            peer = str(record.args[0] or "") if isinstance(record.args, tuple) and record.args else ""
            self._malformed(f"malformed HTTP{' from ' * bool(peer)}{peer}: {type(error).__name__}")
        elif error is not None and not isinstance(error, web.HTTPException | ConnectionError):
            self._warn(report_bug(error).message)


def _quiet_logger(warn: TakeText) -> logging.Logger:
    """Return a logger that prints no traceback."""
    logger = logging.Logger("nexus.server")  # not registered: the handlers of registered loggers print
    logger.addHandler(_BugReports(warn))
    return logger


async def _write(request: web.Request, work: Awaitable[object]) -> None:
    """Write to a client; close the connection of one that does not read, and raise `ConnectionError`."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await work
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client is not reading") from None


def _wants_events(request: web.Request) -> bool:
    return EVENTS in request.headers.get("Accept", "").lower()


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False


def _is_wildcard(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
