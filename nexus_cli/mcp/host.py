"""The process of MCP servers: one JSON object a line on stdin and stdout, all servers of one nexus behind it.

Asked `{"id", "do", "target", "arguments", ...}`, it answers `{"id", "result"}`, a value of `server_values`, or `{"id",
"fault", "text"}`, before that any number of `show` and `ask`. `{"cancel": id}` ends a request, `{"answer": ask,
"content"}` answers a question. Lines without `id` are notices of a process group and of a revision. It ends its servers
and itself when stdin ends. It knows nothing of sessions, permissions or settings.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from nexus_cli.config.programs import end_group
from nexus_cli.core.json_value import JsonDict, to_json_value
from nexus_cli.core.private_process import make_process_private
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.mcp.answers import read_call, read_content, read_listed_prompt, read_prompt, read_tool
from nexus_cli.mcp.connection import AUTO, HANDSHAKE, Call, ServerConnection, is_drop
from nexus_cli.mcp.login import LOGIN_SECONDS
from nexus_cli.mcp.server_values import ServerAnswer, ServerError, ServerOffer, ServerQuestion, Target
from nexus_cli.mcp.stdio_server import printable_line

RESTARTS = 3
"""Most restarts of a server that failed."""
BACKOFF_SECONDS = 0.5
"""Wait before the second attempt, doubled for each further one."""
COOLDOWN_SECONDS = 60.0
"""After the last restart the server counts as failed for this long."""
_MAX_PAGES = 100
_MAX_ENTRIES = 5_000
_LARGEST_LIST = 10_000_000
"""Most bytes of all pages of a list."""
_LINE = 64_000_000
_SESSION_GONE = "Session terminated"
"""The SDK's text for HTTP status 404 within a session: the server has not looked at the request."""


@dataclass(eq=False)
class HostedServer:
    """A server between its connections: how it was reached, and how often it failed."""

    name: str
    tell: Callable[[JsonDict], None]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: ServerConnection | None = None
    mode: str = ""
    failures: int = 0
    failed_at: float = 0.0
    last: str = ""

    async def connect(self, target: Target) -> ServerConnection:
        """Return the open connection, or begin one; raise `ServerError`."""
        async with self.lock:
            if self.connection is not None and self.connection.is_open:
                return self.connection
            await self.close()
            await self._wait_for_restart()
            try:
                self.connection = await self._open(target)
            except ServerError as error:
                self._count_failure(error)
                raise
            return self.connection

    async def _open(self, target: Target) -> ServerConnection:
        mode = self.mode or (HANDSHAKE if target.command else AUTO)
        connection = ServerConnection(target, mode, self.tell)
        try:
            await connection.open(target.start_seconds)
        except ServerError as error:
            if connection.refused_handshake and mode == HANDSHAKE:
                connection = ServerConnection(target, AUTO, self.tell)
                await connection.open(target.start_seconds)
                mode = AUTO
            else:
                # An older server may be silent when it is asked for the new era.
                if target.url and error.fault == "silent":
                    self.mode = HANDSHAKE if mode == AUTO else AUTO
                raise
        self.mode = mode
        return connection

    async def close_failed(self, connection: ServerConnection, error: ServerError) -> None:
        """Close a connection that has failed, and count the failure."""
        # One that is silent is given up, unless others wait for it.
        given_up = error.fault == "silent" and not connection.calls and bool(connection.target.command)
        if connection.is_open and not given_up and not _is_session_gone(error):
            return
        await connection.close()
        if connection is self.connection:
            self.connection = None
            self._count_failure(error)

    def _count_failure(self, error: ServerError) -> None:
        if error.fault in ("login", "refused"):
            return
        self.failures += 1
        self.failed_at = asyncio.get_running_loop().time()
        self.last = str(error)

    async def _wait_for_restart(self) -> None:
        since = asyncio.get_running_loop().time() - self.failed_at
        if self.failures > RESTARTS:
            if since < COOLDOWN_SECONDS:
                raise ServerError(
                    "died",
                    f"{self.last}; after {self.failures} failures, nexus waits up to a minute before a restart",
                )
            self.failures = 0
        elif self.failures > 1:
            await asyncio.sleep(BACKOFF_SECONDS * 2 ** (self.failures - 2) - since)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()


class ServerHost:
    """All servers, and the requests that are in flight."""

    def __init__(self, write: Callable[[JsonDict], None]) -> None:
        self._write = write
        self._servers: dict[str, HostedServer] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._questions: dict[int, asyncio.Future[JsonDict | None]] = {}
        self._next_ask = 0
        self.groups: set[int] = set()

    def take(self, message: JsonDict) -> None:
        """Begin a request, cancel one, or hand on an answer."""
        if "cancel" in message:
            if task := self._requests.get(message["cancel"]):
                task.cancel()
        elif "answer" in message:
            answer = self._questions.pop(message["answer"], None)
            if answer is not None and not answer.done():
                answer.set_result(message["content"])
        else:
            task = asyncio.create_task(self._answer(message))
            self._requests[message["id"]] = task
            task.add_done_callback(lambda _: self._requests.pop(message["id"], None))

    async def close(self) -> None:
        """End all requests, connections and servers."""
        for task in list(self._requests.values()):
            task.cancel()
        await asyncio.gather(*(server.close() for server in self._servers.values()), return_exceptions=True)
        for group in list(self.groups):
            end_group(group)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _answer(self, message: JsonDict) -> None:
        number, do, target = message["id"], message["do"], Target(**message["target"])

        def show(text: str) -> None:
            self._write({"id": number, "show": text})

        try:
            if do == "login":
                result: ServerOffer | ServerAnswer = await self._login(target, show)
            else:
                ask = partial(self._ask, number) if message["asks"] else None
                call = Call(ask, show, target.call_seconds)
                result = await self._carry_out(do, target, message["arguments"], message["revision"], call)
            line = {"result": to_json_value(result)}
        except ServerError as error:
            line = {"fault": error.fault, "text": str(error)}
        except asyncio.CancelledError:
            line = {"fault": "silent", "text": "the call was cancelled"}
        except Exception as error:  # a mistake of ours: told, so that nobody waits
            line = {"fault": "protocol", "text": printable_line(f"{type(error).__name__}: {error}")}
        self._write({"id": number, **line})

    async def _carry_out(
        self, do: str, target: Target, arguments: JsonDict, revision: str, call: Call
    ) -> ServerOffer | ServerAnswer:
        server, request = self._serve(target), _REQUESTS[do]
        for attempt in (1, 2):
            connection = await server.connect(target)
            if revision not in ("", connection.revision):
                raise ServerError(
                    "changed", f"the tools of {target.name} changed after nexus decided on this call; repeat the call"
                )
            try:
                before = connection.revision  # of a list: what the server says while it lists is not in the list
                result = await connection.run(call, lambda client: request(client, call, **arguments))
            except ServerError as error:
                await server.close_failed(connection, error)
                if attempt == 2 or not _may_repeat(do, call, error):
                    unsure = do == "call" and error.fault == "died" and call.may_have_arrived
                    if unsure:
                        raise ServerError("died", f"{error}; it is unknown whether the call took effect") from None
                    raise
            else:
                server.failures = 0
                return replace(result, revision=before if do == "list" else connection.revision)
        raise AssertionError("the second attempt returns or raises")

    async def _ask(self, number: int, question: ServerQuestion) -> JsonDict | None:
        self._next_ask = ask = self._next_ask + 1
        answer: asyncio.Future[JsonDict | None] = asyncio.get_running_loop().create_future()
        self._questions[ask] = answer
        self._write({"id": number, "ask": ask, "question": to_json_value(question)})
        try:
            return await answer
        finally:
            self._questions.pop(ask, None)

    # -- servers -------------------------------------------------------------------------------------------------------

    def _serve(self, target: Target) -> HostedServer:
        return self._servers.setdefault(target.key, HostedServer(target.name, self._note))

    def _note(self, line: JsonDict) -> None:
        """Pass on a notice of a connection."""
        if "group" in line:
            (self.groups.add if line["begun"] else self.groups.discard)(line["group"])
        self._write(line)

    async def _login(self, target: Target, show: TakeText) -> ServerAnswer:
        connection = ServerConnection(target, AUTO, lambda _: None, show)
        try:
            await connection.open(LOGIN_SECONDS)
            # Some servers want a login only for what they offer.
            call = Call(None, lambda _: None, LOGIN_SECONDS)
            await connection.run(call, lambda client: _list(client, call))
        finally:
            await connection.close()
        keys = [key for key, server in self._servers.items() if server.name == target.name]
        for server in [self._servers.pop(key) for key in keys]:
            await server.close()  # it was opened without the tokens
        return ServerAnswer("")


def _may_repeat(do: str, call: Call, error: ServerError) -> bool:
    """Return True if a request that failed may be sent again: it only reads, or the server has not seen it."""
    if _is_session_gone(error) or error.fault == "start":  # `start`: it could not be reached
        return True
    return error.fault == "died" and (do != "call" or not call.may_have_arrived)


def _is_session_gone(error: ServerError) -> bool:
    return error.fault == "refused" and str(error).endswith(_SESSION_GONE)


# -- what is asked of a server -----------------------------------------------------------------------------------------


async def _list(client: Client, call: Call) -> ServerOffer:
    call.left_out.clear()
    tools = await _pages(client.list_tools, "tools", read_tool)
    offer = await _list_resources(client, call)
    if client.server_capabilities.prompts:
        offer = replace(offer, prompts=await _offered(client.list_prompts, "prompts", read_listed_prompt))
    return replace(offer, tools=tools, instructions=client.instructions or "", left_out=tuple(call.left_out))


async def _list_resources(client: Client, _call: Call) -> ServerOffer:
    """Return the resources and the templates of URIs that a server lists."""
    if not client.server_capabilities.resources:
        return ServerOffer()
    plain = await _offered(client.list_resources, "resources", lambda row: _describe_resource(row.uri, row))
    listing = client.list_resource_templates
    templates = await _offered(listing, "resource_templates", lambda row: _describe_resource(row.uri_template, row))
    return ServerOffer(resources=plain + templates)


async def _offered(listing: Callable[..., Awaitable[Any]], kind: str, read: Callable[[Any], T]) -> tuple[T, ...]:
    """Return a list, () if the server refuses it: its tools count all the same."""
    try:
        return await _pages(listing, kind, read)
    except (MCPError, ValidationError) as error:
        if is_drop(error):
            raise
        return ()


def _describe_resource(uri: object, resource: Any) -> tuple[str, str]:
    return str(uri), printable_line(": ".join(filter(None, (resource.name, resource.description))))


async def _call_tool(client: Client, call: Call, name: str, arguments: JsonDict) -> ServerAnswer:
    async def show(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        call.show_progress(printable_line(message) if message else share)

    return read_call(await client.call_tool(name, arguments, progress_callback=show))


async def _read_resource(client: Client, _call: Call, uri: str) -> ServerAnswer:
    return read_content((await client.read_resource(uri)).contents)


async def _get_prompt(client: Client, _call: Call, name: str, arguments: dict[str, str]) -> ServerAnswer:
    return read_prompt(await client.get_prompt(name, arguments))


_REQUESTS: dict[str, Callable[..., Awaitable[ServerOffer | ServerAnswer]]] = {
    "list": _list,
    "resources": _list_resources,
    "call": _call_tool,
    "read": _read_resource,
    "prompt": _get_prompt,
}


async def _pages(listing: Callable[..., Awaitable[Any]], kind: str, read: Callable[[Any], T]) -> tuple[T, ...]:
    """Return all pages of a list; a list without an end is cut. Raise `OverflowError` for one that is too large to pass
    on as one line, because a line that is too long would end this process."""
    collected: list[T] = []
    size, cursor = 0, None
    for _ in range(_MAX_PAGES):
        page = await listing(cursor=cursor)
        rows = [read(row) for row in getattr(page, kind)]
        if (size := size + len(json.dumps(rows, default=_list_fields))) > _LARGEST_LIST:
            raise OverflowError(f"its list of {kind} exceeds the maximum of {_LARGEST_LIST // 1_000_000} MB")
        collected += rows
        cursor = page.next_cursor
        if not cursor or len(collected) >= _MAX_ENTRIES:
            break
    return tuple(collected[:_MAX_ENTRIES])


def _list_fields(row: Any) -> list[Any]:
    """Return the values of a row, for its size: all of its JSON would be a second copy of a list of 10 MB."""
    return [getattr(row, name) for name in row.__slots__]


# -- the program -------------------------------------------------------------------------------------------------------


async def serve(source: int, sink: int) -> None:
    """Answer what comes on the file descriptor `source` until it ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(sink, "wb", 0))

    def write(message: JsonDict) -> None:
        if not transport.is_closing():
            transport.write(json.dumps(message).encode() + b"\n")

    host = ServerHost(write)
    try:
        while line := await reader.readline():
            host.take(json.loads(line))
    finally:
        await host.close()


def main() -> None:
    """Serve stdin and stdout; anything else written to stdout goes to stderr."""
    make_process_private()
    logging.disable(logging.CRITICAL)  # the SDK's: what matters of it is in the errors
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    asyncio.run(serve(source, sink))


if __name__ == "__main__":
    main()
