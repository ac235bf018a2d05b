"""The process of MCP servers: one JSON object a line on stdin and stdout, all servers of one nexus behind it.

Asked `{"id", "do", "target", ...}`, it answers `{"id", "result"}` or `{"id", "error"}`, before that any number of
`progress`, `ask` and `url`. `{"cancel": id}` ends a request, `{"answer": ask, "content"}` answers a question. It ends
its servers and itself when stdin ends. It knows nothing of sessions, permissions or settings.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams
from pydantic import ValidationError

from nexus_cli.config.programs import end_group
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.private_process import make_process_private
from nexus_cli.mcp.answers import call_json, content_json, prompt_json, tool_json
from nexus_cli.mcp.connection import AUTO, HANDSHAKE, Call, ServerConnection, Target, is_drop
from nexus_cli.mcp.login import LOGIN_SECONDS
from nexus_cli.mcp.server_values import ServerError
from nexus_cli.mcp.stdio_server import printable_line

RESTARTS = 3
"""Most restarts of a server that failed."""
BACKOFF_SECONDS = 0.5
"""Wait before the second attempt, doubled for each further one."""
REST_SECONDS = 60.0
"""After the last restart the server counts as failed for this long."""
PROGRESS_SECONDS = 0.1
"""Progress is passed on at most this often."""
_MOST_PAGES = 100
_MOST_ENTRIES = 5_000
_LARGEST_LIST = 10_000_000
"""Most bytes of all pages of a list."""
_LINE = 64_000_000
_SESSION_GONE = "Session terminated"
"""The SDK's text for HTTP status 404 within a session: the server has not looked at the request."""


@dataclass
class ServerMemory:
    """The state of a server that the host keeps between its connections."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: ServerConnection | None = None
    mode: str = ""
    failures: int = 0
    failed_at: float = 0.0
    last: str = ""


class ServerHost:
    """All servers, and the requests that are in flight."""

    def __init__(self, write: Callable[[JsonDict], None]) -> None:
        self._write = write
        self._servers: dict[str, ServerMemory] = {}
        self._names: dict[str, set[str]] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[JsonDict | None]] = {}
        self._next_ask = 0
        self.groups: set[int] = set()

    def take(self, message: JsonDict) -> None:
        """Begin a request, cancel one, or hand on an answer."""
        if "cancel" in message:
            if task := self._requests.get(message["cancel"]):
                task.cancel()
        elif "answer" in message:
            answer = self._asked.pop(message["answer"], None)
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
        open_ones = [state.connection for state in self._servers.values() if state.connection is not None]
        await asyncio.gather(*(connection.close() for connection in open_ones), return_exceptions=True)
        for group in list(self.groups):
            end_group(group)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _answer(self, message: JsonDict) -> None:
        number: int = message["id"]
        try:
            result = await self._carry_out(number, message)
            self._write({"id": number, "result": result})
        except ServerError as error:
            self._write({"id": number, "error": {"fault": error.fault, "text": str(error)}})
        except asyncio.CancelledError:
            self._write({"id": number, "error": {"fault": "silent", "text": "the call was cancelled"}})
        except Exception as error:  # a mistake of ours: told as the error of this request, so that nobody waits
            text = printable_line(f"{type(error).__name__}: {error}")
            self._write({"id": number, "error": {"fault": "protocol", "text": text}})

    async def _carry_out(self, number: int, message: JsonDict) -> Any:
        do = message["do"]
        if do == "revision":
            return {"revision": self._find_revision(message["key"])}
        target = Target(**message["target"])
        if do == "login":
            return await self._login(number, target)

        shown = 0.0

        def progress(text: str) -> None:
            nonlocal shown
            call.extend()
            if time.monotonic() - shown >= PROGRESS_SECONDS:
                shown = time.monotonic()
                self._write({"id": number, "progress": text})

        call = Call(partial(self._ask, number) if message.get("asks") else None, progress, target.call_seconds)
        request = _REQUESTS[do]
        for attempt in (1, 2):
            connection = await self._connect(target)
            if do == "call" and message["revision"] not in ("", connection.revision):
                raise ServerError(
                    "changed", f"the tools of {target.name} changed after nexus decided on this call; repeat the call"
                )
            try:
                before = connection.revision  # of a list: what the server says while it lists is not in the list
                result = await connection.run(call, lambda client: request(client, message, call))
            except ServerError as error:
                await self._settle(target, connection, error)
                if attempt == 2 or not _may_repeat(do, call, error):
                    unsure = do == "call" and error.fault == "died" and call.may_have_arrived
                    if unsure:
                        raise ServerError("died", f"{error}; it is unknown whether the call took effect") from None
                    raise
            else:
                self._state(target).failures = 0
                return {**result, "revision": before if do == "list" else connection.revision}
        raise AssertionError("the second attempt returns or raises")

    async def _settle(self, target: Target, connection: ServerConnection, error: ServerError) -> None:
        """Close a connection that is of no use any more, and count its failure."""
        # One that is silent is given up, unless others wait for it.
        given_up = error.fault == "silent" and not connection.calls and bool(target.command)
        if connection.is_open and not given_up and not _is_session_gone(error):
            return
        await connection.close()
        if connection is self._state(target).connection:
            self._state(target).connection = None
            self._count_failure(target, error)

    async def _ask(self, number: int, question: JsonDict) -> JsonDict | None:
        self._next_ask = ask = self._next_ask + 1
        answer: asyncio.Future[JsonDict | None] = asyncio.get_running_loop().create_future()
        self._asked[ask] = answer
        self._write({"id": number, "ask": ask, "question": question})
        try:
            return await answer
        finally:
            self._asked.pop(ask, None)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _state(self, target: Target) -> ServerMemory:
        self._names.setdefault(target.name, set()).add(target.key)
        return self._servers.setdefault(target.key, ServerMemory())

    def _find_revision(self, key: str) -> str:
        """Return the revision of an open connection, "" without one. Begins none."""
        state = self._servers.get(key)
        connection = state.connection if state is not None else None
        return connection.revision if connection is not None and connection.is_open else ""

    async def _connect(self, target: Target) -> ServerConnection:
        """Return the open connection, or begin one; raise `ServerError`."""
        state = self._state(target)
        async with state.lock:
            if state.connection is not None and state.connection.is_open:
                return state.connection
            if state.connection is not None:
                ended, state.connection = state.connection, None
                await ended.close()
            await self._wait_for_restart(state)
            try:
                state.connection = await self._open(target, state)
            except ServerError as error:
                self._count_failure(target, error)
                raise
            return state.connection

    async def _open(self, target: Target, state: ServerMemory) -> ServerConnection:
        mode = state.mode or (HANDSHAKE if target.command else AUTO)
        connection = ServerConnection(target, mode, self._see_group)
        try:
            await connection.open(target.start_seconds)
        except ServerError as error:
            if connection.refused_handshake and mode == HANDSHAKE:
                connection = ServerConnection(target, AUTO, self._see_group)
                await connection.open(target.start_seconds)
                mode = AUTO
            else:
                # An older server may be silent when it is asked for the new era.
                if target.url and error.fault == "silent":
                    state.mode = HANDSHAKE if mode == AUTO else AUTO
                raise
        state.mode = mode
        return connection

    def _count_failure(self, target: Target, error: ServerError) -> None:
        if error.fault in ("login", "refused"):
            return
        state = self._state(target)
        state.failures += 1
        state.failed_at = asyncio.get_running_loop().time()
        state.last = str(error)

    async def _wait_for_restart(self, state: ServerMemory) -> None:
        since = asyncio.get_running_loop().time() - state.failed_at
        if state.failures > RESTARTS:
            if since < REST_SECONDS:
                raise ServerError(
                    "died",
                    f"{state.last}; after {state.failures} failures, nexus waits up to a minute before a restart",
                )
            state.failures = 0
        elif state.failures > 1:
            await asyncio.sleep(BACKOFF_SECONDS * 2 ** (state.failures - 2) - since)

    def _see_group(self, group: int, begun: bool) -> None:
        (self.groups.add if begun else self.groups.discard)(group)
        self._write({"group": group, "begun": begun})

    async def _login(self, number: int, target: Target) -> None:
        async def show(url: str) -> None:
            self._write({"id": number, "url": url})

        connection = ServerConnection(target, AUTO, self._see_group, show)
        try:
            await connection.open(LOGIN_SECONDS)
            # Some servers want a login only for what they offer.
            call = Call(None, lambda _: None, LOGIN_SECONDS)
            await connection.run(call, lambda client: _list(client, {}, call))
        finally:
            await connection.close()
        await self._stop(target.name)

    async def _stop(self, name: str) -> None:
        for key in self._names.pop(name, set()):
            state = self._servers.pop(key, None)
            if state is not None and state.connection is not None:
                await state.connection.close()


def _may_repeat(do: str, call: Call, error: ServerError) -> bool:
    """Return True if a request that failed may be sent again: it only reads, or the server has not seen it."""
    if _is_session_gone(error) or error.fault == "start":  # `start`: it could not be reached
        return True
    return error.fault == "died" and (do != "call" or not call.may_have_arrived)


def _is_session_gone(error: ServerError) -> bool:
    return error.fault == "refused" and str(error).endswith(_SESSION_GONE)


# -- what is asked of a server -----------------------------------------------------------------------------------------


async def _list(client: Client, _message: JsonDict, call: Call) -> JsonDict:
    session, offers = client.session, client.server_capabilities
    call.left_out.clear()
    return {
        "instructions": session.instructions or "",
        "tools": await _pages(session.list_tools, "tools", tool_json),
        "left_out": call.left_out,
        "prompts": await _offered(session.list_prompts, "prompts", _prompt_json) if offers.prompts else [],
        **await _list_resources(client, {}, call),
    }


async def _list_resources(client: Client, _message: JsonDict, _call: Call) -> JsonDict:
    """Return the resources and the templates of URIs that a server lists."""
    session = client.session
    if not client.server_capabilities.resources:
        return {"resources": []}
    plain = await _offered(session.list_resources, "resources", lambda template: _resource_row(template.uri, template))
    listing = session.list_resource_templates
    templates = await _offered(
        listing, "resource_templates", lambda template: _resource_row(template.uri_template, template)
    )
    return {"resources": plain + templates}


async def _offered(listing: Callable[..., Awaitable[Any]], kind: str, entry: Callable[[Any], Any]) -> list[Any]:
    """Return a list, [] if the server refuses it: its tools count all the same."""
    try:
        return await _pages(listing, kind, entry)
    except (MCPError, ValidationError) as error:
        if is_drop(error):
            raise
        return []


def _prompt_json(prompt: Any) -> JsonDict:
    arguments = [[argument.name, bool(argument.required)] for argument in prompt.arguments or ()]
    return {"name": prompt.name, "description": prompt.description or "", "arguments": arguments}


def _resource_row(uri: object, resource: Any) -> list[str]:
    return [str(uri), printable_line(": ".join(filter(None, (resource.name, resource.description))))]


async def _call_tool(client: Client, message: JsonDict, call: Call) -> JsonDict:
    async def show(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        call.progress(printable_line(message) if message else share)

    return call_json(await client.call_tool(message["tool"], message["arguments"], progress_callback=show))


async def _read_resource(client: Client, message: JsonDict, _call: Call) -> JsonDict:
    return content_json((await client.read_resource(message["uri"])).contents)


async def _get_prompt(client: Client, message: JsonDict, _call: Call) -> JsonDict:
    return prompt_json(await client.get_prompt(message["name"], message["arguments"]))


_REQUESTS: dict[str, Callable[[Client, JsonDict, Call], Awaitable[Any]]] = {
    "list": _list,
    "resources": _list_resources,
    "call": _call_tool,
    "read": _read_resource,
    "prompt": _get_prompt,
}


async def _pages(listing: Callable[..., Awaitable[Any]], kind: str, entry: Callable[[Any], Any]) -> list[Any]:
    """Return all pages of a list; a list without an end is cut. Raise `OverflowError` for one that is too large to pass
    on as one line, because a line that is too long would end this process."""
    collected: list[Any] = []
    size, cursor = 0, None
    for _ in range(_MOST_PAGES):
        page = await listing(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        entries = [entry(row) for row in getattr(page, kind)]
        if (size := size + len(json.dumps(entries))) > _LARGEST_LIST:
            raise OverflowError(f"its list of {kind} exceeds the maximum of {_LARGEST_LIST // 1_000_000} MB")
        collected += entries
        cursor = page.next_cursor
        if not cursor or len(collected) >= _MOST_ENTRIES:
            break
    return collected[:_MOST_ENTRIES]


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
