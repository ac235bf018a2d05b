"""One connection to one server through the SDK: how it begins in either era of the protocol, its calls, and its end.

A server on stdin and stdout is greeted with the handshake; the new era is tried only if the server refuses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import mcp_types as types
from mcp.client import Client, ClientSession
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from nexus_cli import __version__
from nexus_cli.core.certificates import describe_certificate_error, find_certificate_error
from nexus_cli.core.errors import iterate_causes, reason_of
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.mcp.login import LoginNeeded, TokenFile, browser_login, stored_login
from nexus_cli.mcp.server_values import Fault, ServerError, ServerQuestion, Target, describe_skipped
from nexus_cli.mcp.stdio_server import MAX_MESSAGE, ServerProcess, printable_line, run_server


class _BoundedStream(httpx2.AsyncByteStream):
    """The content of a response, which raises `ServerError` after `MAX_MESSAGE` bytes."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner, self._remaining = inner, MAX_MESSAGE

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            self._remaining -= len(data)
            if self._remaining < 0:
                raise ServerError("too_large", f"the server sent a response larger than {MAX_MESSAGE // 1_000_000} MB")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()


PROGRESS_FACTOR = 30
"""Progress extends a call to at most this many times its time limit."""
PROGRESS_SECONDS = 0.1
"""Progress is shown at most this often."""
MAX_QUESTIONS = 20
"""Most questions of one call that reach the person; none does after one that was declined."""
MAX_NOTIFICATIONS = 20_000
"""Most notifications between two calls' answers."""
_ERROR_SHOWN = 600
_CLOSED, _BROKEN_OFF = "Connection closed", "SSE stream "
"""What the SDK says of a connection that ended, and how it begins of one response over HTTP that did."""

LIST_TOOLS = "tools/list"
HANDSHAKE = "legacy"
AUTO = "auto"
"""Modes of the SDK: the handshake of 2024 and 2025; a question for the new era, then the handshake."""


@dataclass(eq=False)
class Call:
    """A call that is in flight: its question goes to the person who waits for it."""

    ask: Callable[[ServerQuestion], Awaitable[JsonDict | None]] | None
    show: TakeText
    seconds: float
    limit: asyncio.Timeout | None = None
    begun: float = 0.0
    last_progress: float = -PROGRESS_SECONDS
    """Time of the last progress that was shown."""
    questions: int = 0
    """How many it put to the person; `MAX_QUESTIONS` once one was declined."""
    may_have_arrived: bool = False
    """The server may have seen the call that failed."""
    left_out: list[str] = field(default_factory=list)
    """A line for each tool of a list that cannot be offered, with the reason."""

    def show_progress(self, text: str) -> None:
        """Show progress, which extends the call."""
        self.extend()
        now = asyncio.get_running_loop().time()
        if now - self.last_progress >= PROGRESS_SECONDS:
            self.last_progress = now
            self.show(text)

    def extend(self) -> None:
        """Give the call its time limit anew, up to `PROGRESS_FACTOR` times."""
        if self.limit is not None and not self.limit.expired():
            now = asyncio.get_running_loop().time()
            self.limit.reschedule(min(now + self.seconds, self.begun + PROGRESS_FACTOR * self.seconds))

    def pause(self) -> None:
        """Stop the clock: the call waits for a person."""
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(None)


def _new_revision() -> str:
    return uuid4().hex


_current: ContextVar[Call | None] = ContextVar("current_call", default=None)


@dataclass(eq=False)
class ServerConnection:
    """A connection that is open, or says by `failure` why it is not."""

    target: Target
    mode: str
    tell: Callable[[JsonDict], None]
    """Takes notices: of process groups that begin and end, and of the revision of the tools."""
    show_url: TakeText | None = None
    """Begin a login; None for calls, which only use one."""
    client: Client = field(init=False)
    calls: list[Call] = field(default_factory=list)
    failure: ServerError | None = None
    refused_handshake: bool = False
    revision: str = field(default_factory=_new_revision)
    """Another text after each word of the server that its tools changed; a connection has its own."""
    _notified: int = 0
    _status: int = 0
    """Last HTTP status."""
    _unauthorized: bool = False

    def __post_init__(self) -> None:
        self._closing = asyncio.Event()
        self._ready = asyncio.Event()
        self._server = ServerProcess(self.tell, self._closing.set)
        self._task: asyncio.Task[None] | None = None

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def open(self, seconds: float) -> None:
        """Connect; raise `ServerError` if that takes longer than `seconds` or fails."""
        self._task = asyncio.create_task(self._hold_open())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._task, ready}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self._ready.is_set():
                if not self._task.done():
                    words = self._server.last_words()
                    self.failure = self.failure or self._error("silent", f"did not start within {seconds:g} s{words}")
                await self.close()
                raise self.failure or self._error("died", "the connection ended while the server was starting")
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            ready.cancel()

    @property
    def is_open(self) -> bool:
        """Return True if a call can be sent."""
        ended = self._closing.is_set() or self._task is None or self._task.done()
        return self._ready.is_set() and not ended and (self._server.open or not self.target.command)

    async def close(self) -> None:
        """End the connection and the server's process."""
        self._closing.set()
        if self._task is None:
            return
        if not self._ready.is_set():
            self._task.cancel()
        finished, _ = await asyncio.wait({self._task}, timeout=5)
        if not finished:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)

    async def _hold_open(self) -> None:
        """Hold the connection open until it is closed: the SDK wants its beginning and its end in one task."""
        try:
            async with self._transport() as transport:
                self.client = Client(
                    transport,
                    mode=self.mode,
                    elicitation_callback=self._elicit,
                    message_handler=self._count,
                    client_info=types.Implementation(name="nexus", version=__version__),
                    cache=None,
                )
                async with self.client:
                    # Schemas of answers are not checked: a server could hold up the process by a schema alone.
                    vars(self.client.session)["validate_tool_result"] = _accept_result
                    _filter_lists(self.client.session)
                    self._ready.set()
                    self._report_revision(self.revision)
                    await self._closing.wait()
                    self._report_revision("")  # the end of its process can take seconds
        except asyncio.CancelledError:
            pass  # the reason is known to whoever cancelled
        except BaseException as error:  # whatever the SDK or the server brings harms this connection alone
            self.failure = self.failure or self._explain(error)
        finally:
            self._closing.set()
            self._report_revision("")
            if self._server.fault is not None:
                self.failure = ServerError(self._server.fault[0], f"{self.target.name}: {self._server.fault[1]}")
            elif self.failure is None or (self.failure.fault == "died" and self.target.command):
                self.failure = self._error("died", self._explain_end())

    def _report_revision(self, revision: str) -> None:
        self.tell({"key": self.target.key, "revision": revision})

    def _explain_end(self) -> str:
        return self._server.explain_end() if self.target.command else "the connection ended"

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        target = self.target
        if target.command:
            yield run_server(target.command, target.values, target.cwd, self._server)
            return
        tokens = TokenFile(Path(target.tokens))
        async with contextlib.AsyncExitStack() as stack:
            auth: httpx2.Auth | None = None
            if self.show_url is not None:
                tokens.forget()
                auth = await stack.enter_async_context(browser_login(target.url, tokens, self.show_url))
            elif tokens.has_tokens():
                auth = stored_login(target.url, tokens)
            client = create_mcp_http_client(headers=dict(target.headers), auth=auth)
            client.event_hooks = {"response": [self._check_response]}
            await stack.enter_async_context(client)
            yield streamable_http_client(target.url, http_client=client, max_sse_event_size=MAX_MESSAGE)

    async def _check_response(self, response: httpx2.Response) -> None:
        """Note the status of a response, and bound its content."""
        self._status = status = response.status_code
        # The SDK takes a refusal of the first question for an older server, and the handshake may be refused otherwise.
        self._unauthorized = status == 401 or (self._unauthorized and not self._ready.is_set())
        # The SDK bounds each event of a stream, which may run for days.
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream)

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def run(self, call: Call, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request and return its result; raise `ServerError`. Progress and questions extend its time."""
        loop = asyncio.get_running_loop()
        self.calls.append(call)
        written = self._server.calls_written
        token = _current.set(call)
        try:
            async with asyncio.timeout(call.seconds) as call.limit:
                call.begun = loop.time()
                result = await request(self.client)
            self._notified = 0
            return result
        except TimeoutError as error:
            waited = round(loop.time() - call.begun, 1)
            raise self._error("silent", f"did not answer within {waited:g} s{self._server.last_words()}") from error
        except Exception as error:  # whatever the SDK makes of a wrong answer
            # The SDK also calls it a drop when one response over HTTP breaks off.
            if is_drop(error) and str(error) == _CLOSED:
                self._closing.set()
                assert self._task is not None
                await asyncio.wait({self._task}, timeout=6)
                if self.failure is not None:
                    raise self.failure from error
            raise self._explain(error) from error
        finally:
            call.may_have_arrived = bool(self.target.url) or self._server.calls_written > written
            _current.reset(token)
            self.calls.remove(call)

    async def _elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Put a server's question to the person of the call that it belongs to."""
        call = _current.get() or (self.calls[-1] if self.calls else None)
        if call is None or call.ask is None or call.questions >= MAX_QUESTIONS:
            return types.ElicitResult(action="cancel")
        call.questions += 1
        is_form = isinstance(params, types.ElicitRequestFormParams)
        schema = params.requested_schema if isinstance(params, types.ElicitRequestFormParams) else {}
        url = params.url if isinstance(params, types.ElicitRequestURLParams) else ""
        call.pause()
        try:
            content = await call.ask(ServerQuestion(params.message, schema, url))
        finally:
            call.extend()
        if content is None:
            call.questions = MAX_QUESTIONS
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=_with_defaults(schema, content) if is_form else None)

    async def _count(self, message: object) -> None:
        self._notified += 1
        if isinstance(message, types.ToolListChangedNotification):
            self.revision = _new_revision()
            self._report_revision(self.revision)
        if self._notified > MAX_NOTIFICATIONS and not self._closing.is_set():
            self.failure = self._error("protocol", f"sent more than {MAX_NOTIFICATIONS} notifications in a row")
            self._closing.set()

    # -- errors --------------------------------------------------------------------------------------------------------

    def _error(self, fault: Fault, text: str) -> ServerError:
        return ServerError(fault, f"{self.target.name}: {printable_line(text, _ERROR_SHOWN)}")

    def _explain(self, error: BaseException) -> ServerError:
        """Return the error of a server for what the SDK raised."""
        causes = list(_find_leaves(error))
        cause = next((cause for cause in causes if isinstance(cause, ServerError | LoginNeeded)), causes[0])
        reason = reason_of(cause) or type(cause).__name__
        if isinstance(cause, ServerError):
            return cause
        if isinstance(cause, LoginNeeded) or (self._unauthorized and not self.show_url):
            return self._error("login", f"requires a login; run `nexus mcp login {self.target.name}`")
        if isinstance(cause, OAuthFlowError):
            return self._error("login", f"the login failed: {cause}")
        if isinstance(cause, MCPError):
            if not self._ready.is_set() and self.target.command and not is_drop(cause):
                self.refused_handshake = True
            if self._status >= 400 and cause.code == types.INTERNAL_ERROR:
                return self._error("refused", f"answered with HTTP status {self._status}")
            if is_drop(cause):
                return self._error("died", self._explain_end() if self.target.command else cause.message)
            return self._error("refused", cause.message or f"error {cause.code}")
        if isinstance(cause, FileNotFoundError) and self.target.command:
            return self._error(
                "start", f"program {self.target.command[0]} not found: install it, or correct the command"
            )
        if refused := find_certificate_error(iterate_causes(cause)):
            return self._error(
                "start", ". ".join(describe_certificate_error(refused, urlsplit(self.target.url).netloc))
            )
        if isinstance(cause, httpx2.TransportError) and not isinstance(
            cause, httpx2.ConnectError | httpx2.ConnectTimeout
        ):
            return self._error("died", f"the connection was lost ({reason})")
        if isinstance(cause, OSError | httpx2.TransportError):
            address = self.target.url or self.target.command[0]
            return self._error(
                "start",
                f"{address}: {reason}",
            )
        if not self._ready.is_set() and isinstance(cause, RuntimeError) and self.target.command:
            self.refused_handshake = True  # a version that the handshake does not know
        if isinstance(cause, OverflowError):
            return self._error("protocol", str(cause))
        if isinstance(cause, ValidationError):
            return self._error("protocol", f"broke the protocol: {_describe_invalid(cause)}")
        return self._error("protocol", f"broke the protocol: {reason}")


def _find_leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for exception in error.exceptions for leaf in _find_leaves(exception)]
    return [error]


def is_drop(error: BaseException) -> bool:
    """Return True for the end of the connection. A server may use the same code for an error of its own."""
    if not isinstance(error, MCPError) or error.code != types.CONNECTION_CLOSED:
        return False
    return str(error) == _CLOSED or str(error).startswith(_BROKEN_OFF)


def _with_defaults(schema: JsonDict, content: JsonDict) -> JsonDict:
    """Return the answer with the defaults of fields that it leaves out."""
    fields = schema.get("properties")
    arguments = fields.items() if isinstance(fields, dict) else ()
    missing = {
        name: argument["default"]
        for name, argument in arguments
        if isinstance(argument, dict) and "default" in argument
    }
    return {**missing, **content}


def _describe_invalid(error: ValidationError, outer: int = 0) -> str:
    """Return the first fault with its place, without the `outer` steps that lead there."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"][outer:]))
    message = first["msg"].partition(" or instance of ")[0]
    return f"{place}: {message}" if place else message


def _filter_lists(session: ClientSession) -> None:
    """Take tools that cannot be offered out of each list before the SDK checks it: it would refuse the whole list.

    They are noted in the call that asked for the list.
    """
    dispatcher, version = session._dispatcher, session.protocol_version or LATEST_HANDSHAKE_VERSION
    ask = dispatcher.send_raw_request

    async def request_and_filter(method: str, params: Any, options: Any = None) -> JsonDict:
        answer: JsonDict = await ask(method, params, options)
        call, tools = _current.get(), answer.get("tools") if method == LIST_TOOLS else None
        if call is None or not isinstance(tools, list):
            return answer
        valid_tools = []
        for place, tool in enumerate(tools, 1):
            fields = tool if isinstance(tool, dict) else {}
            if isinstance(schema := fields.get("inputSchema"), dict):
                schema.setdefault("type", "object")  # the protocol demands it, many servers leave it out
            if why := _explain_unfit_tool({**answer, "tools": [tool]}, version):
                label = printable_line(name) if isinstance(name := fields.get("name"), str) else f"number {place}"
                call.left_out.append(describe_skipped(label, why))
            else:
                valid_tools.append(tool)
        return {**answer, "tools": valid_tools}

    vars(dispatcher)["send_raw_request"] = request_and_filter


def _explain_unfit_tool(answer: JsonDict, version: str) -> str:
    """Return the reason that the one tool of a list cannot be offered, "" if it can."""
    try:
        methods.validate_server_result(LIST_TOOLS, version, answer)
        tool = types.Tool.model_validate(answer["tools"][0], by_name=False)
    except ValidationError as error:
        outer = 2 if error.errors()[0]["loc"][:1] == ("tools",) else 0
        return printable_line(_describe_invalid(error, outer))
    needs_task = tool.execution is not None and tool.execution.task_support == "required"
    return "the tool only runs as a task, which nexus does not support" if needs_task else ""


async def _accept_result(_name: str, _result: object) -> None:
    """Take the place of the SDK's check of structured content."""
