"""A client of `nexus serve`: one coroutine per method, and the events of an agent (`nexus docs events`).

It can start the server too. Needs no part of the engine.
"""

# mypy: disable-error-code="empty-body"
# `_calls_method` gives its methods their bodies.

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import aiohttp

from nexus_cli.config.server_token import UNIX
from nexus_cli.core.json_value import JsonDict, JsonObject

if TYPE_CHECKING:
    from nexus_cli.commands.sessions import SessionsReport
    from nexus_cli.commands.worktree import WorktreesReport
    from nexus_cli.core.event_json import AskResult
    from nexus_cli.core.server_results import (
        AgentLimits,
        AgentList,
        CommandList,
        CommandResult,
        CompactResult,
        ConversationObject,
        CreatedAgent,
        ListedAgent,
        MessageList,
        ReleasedWorkers,
        RemovedWorktree,
        ServerEvent,
        TokenUsage,
        UnqueuedTexts,
        WorktreeDiff,
    )
    from nexus_cli.reports.context import ContextReport
    from nexus_cli.reports.workers import WorkerList
    from nexus_cli.worktrees.apply_worktree import AppliedWorktree

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
CONNECT_SECONDS = 10.0
IDLE_TIMEOUT_SECONDS = 60.0
"""Seconds without a byte, not even a comment, after which a stream of events is dead."""


class CallError(Exception):
    """A call that failed: code, message and data of JSON-RPC; or an HTTP status as the code."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def _calls_method(declared: F) -> F:
    """Return a coroutine function for a function without a body: it calls the server's method of the same name with the
    same arguments."""
    parameters = signature(declared)
    has_result = declared.__annotations__["return"] != "None"

    @wraps(declared)
    async def call(*args: Any, **kwargs: Any) -> Any:
        arguments = parameters.bind(*args, **kwargs).arguments
        client: Client = arguments.pop("self")
        result = await client.call(declared.__name__, **arguments)
        return result if has_result else None

    return cast("F", call)


class Client:
    """A connection to a server. Use `async with`, or `aclose` it. Methods raise `ConnectionError` if the server cannot
    be reached."""

    def __init__(self, url: str, token: str) -> None:
        """`url` is what `nexus serve` prints: `http://HOST:PORT` or `unix:PATH`."""
        self._base = "http://localhost" if url.startswith(UNIX) else url.rstrip("/")
        self._path = url.removeprefix(UNIX) if url.startswith(UNIX) else ""
        self._headers = {"Authorization": f"Bearer {token}"}
        self._folder: str | None = None
        """The folder that relative ones count from, for a server that this program started; None: the server's."""
        self._ids = itertools.count(1)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @classmethod
    @asynccontextmanager
    async def start(cls, *options: str, cwd: str | None = None) -> AsyncIterator[Client]:
        """Start `nexus serve` with these options on a free port, in the folder `cwd`; end it afterwards.

        A relative `cwd`, here and in the methods, counts from the folder of this process. A turn that is still running
        then has up to a minute to finish its step. The server also ends when this process is killed. Raises
        `ConnectionError` if it does not start; its stderr, which is ours, has the reason.
        """
        # The program that calls this runs on the same Python, with the same packages: it trusts them already.
        command = (sys.executable, "-P", "-m", "nexus_cli", "serve", "--json", "--until-eof", "--port", "0", *options)
        pipe, caller_folder = asyncio.subprocess.PIPE, os.getcwd()
        server = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=cwd, start_new_session=True
        )
        assert server.stdout is not None
        try:
            if not (line := await server.stdout.readline()):
                raise ConnectionError(f"nexus serve did not start: exit status {await server.wait()}")
            place = json.loads(line)
            async with cls(place["url"], Path(place["token_file"]).read_text(encoding="ascii").strip()) as client:
                client._folder = caller_folder
                yield client
        finally:
            with suppress(ProcessLookupError):
                server.terminate()
            await server.wait()

    async def run(
        self,
        prompt: str,
        answer: Callable[[ServerEvent], str | Awaitable[str]] = lambda question: "no",
        each: Callable[[ServerEvent], object] = lambda event: None,
        **agent: Any,
    ) -> AskResult:
        """Run one turn of a new agent and return its result, also of a failed turn.

        `agent` is what `create_agent` takes: `session` continues one, which stays when the agent is destroyed at the
        end. `answer`, which may be a coroutine function, returns `once`, `session` or `no` for a question, or words for
        the model, which refuse it; `each` sees every event.
        """
        agent_id = (await self.create_agent(**agent))["agent_id"]
        try:
            async for event in self.stream(agent_id, prompt):
                each(event)
                if event["type"] == "approval.ask":
                    returned = answer(event)
                    reply = await returned if isinstance(returned, Awaitable) else returned
                    if not isinstance(reply, str):
                        raise TypeError("answer must be once, session, no or a reason for the refusal")
                    approval = ("no", reply) if reply not in ("once", "session", "no") else (reply, None)
                    await self.approve(agent_id, event["id"], *approval)
                elif event["type"] == "result":
                    return cast("AskResult", event)
            raise ConnectionError(_NO_RESULT)
        finally:
            with suppress(CallError, ConnectionError):
                await self.destroy_agent(agent_id)

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._http is not None:
            await self._http.close()

    # -- methods -------------------------------------------------------------------------------------------------

    @_calls_method
    async def create_agent(
        self,
        agent_id: str | None = None,
        *,
        system_prompt: str | None = None,
        model: str | None = None,
        allow: str | None = None,
        cwd: str | None = None,
        recipe: str | None = None,
        session: str | None = None,
        limits: AgentLimits | None = None,
        effort: str | None = None,
        joins: bool | None = None,
    ) -> CreatedAgent:
        """Make an agent, which continues `session` if one is given; return its id, session, level and limits. With
        `joins` an agent that has the session is returned as it is."""

    @_calls_method
    async def list_sessions(self, cwd: str | None = None, limit: int | None = None) -> SessionsReport:
        """Return the newest sessions of a folder, or of all."""

    async def list_agents(self) -> list[ListedAgent]:
        """Return the agents with `agent_id`, `session`, `state`, `model`, `used`."""
        agent_list: AgentList = await self.call("list_agents")
        return agent_list["agents"]

    @_calls_method
    async def destroy_agent(self, agent_id: str) -> None:
        """Stop an agent and forget it; its session stays."""

    @_calls_method
    async def send(
        self,
        agent_id: str,
        content: str,
        images: Sequence[str] | None = None,
        typed: bool | None = None,
        pasted: Sequence[str] | None = None,
        session: str | None = None,
    ) -> AskResult:
        """Run a turn and return its result; a failed turn is a `CallError` with code -32004. `images` are base64;
        guides that `typed` content calls outside its `pasted` parts are added. It is refused if it is for a `session`
        that the agent has left."""

    async def stream(self, agent_id: str, content: str) -> AsyncIterator[ServerEvent]:
        """Run a turn and yield its events, the last of them the result.

        Events that were not read in time are replaced by a `gap`. Raises `ConnectionError` if no result comes.
        """
        body, ended = self._request("send", {"agent_id": agent_id, "content": content}), False
        with _connection_errors():
            async with self._connect().post(
                f"{self._base}/rpc", json=body, headers={"Accept": "text/event-stream"}, timeout=_STREAM
            ) as response:
                async for event in _events(response):
                    ended = event["type"] == "result"
                    yield event
        if not ended:
            raise ConnectionError(_NO_RESULT)

    @_calls_method
    async def steer(
        self,
        agent_id: str,
        content: str,
        session: str | None = None,
        typed: bool | None = None,
        pasted: Sequence[str] | None = None,
    ) -> None:
        """Say something to the running turn; refused as in `send`."""

    @_calls_method
    async def cancel(self, agent_id: str) -> None:
        """Stop the running turn."""

    @_calls_method
    async def release(self, agent_id: str) -> ReleasedWorkers:
        """Let the commands and workers that the running turn waits for go on in the background."""

    @_calls_method
    async def approve(self, agent_id: str, id: str, answer: str, words: str | None = None) -> None:
        """Answer a question: `once`, `session` or `no`."""

    @_calls_method
    async def answer(self, agent_id: str, id: str, answers: Sequence[str]) -> None:
        """Answer the questions of the model: fewer answers leave the others without one."""

    @_calls_method
    async def unqueue(self, agent_id: str, content: str | None = None) -> UnqueuedTexts:
        """Take back the messages that no turn has used yet, or the newest one with this content."""

    @_calls_method
    async def compact(self, agent_id: str, instructions: str | None = None) -> CompactResult:
        """Summarize older messages; return tokens `before` and `after`, and `why` it was not done."""

    @_calls_method
    async def get_tokens(self, agent_id: str) -> TokenUsage:
        """Return the tokens of the window by part."""

    @_calls_method
    async def get_context(self, agent_id: str) -> ContextReport:
        """Return the content of the next request."""

    @_calls_method
    async def get_messages(self, agent_id: str, offset: int | None = None, limit: int | None = None) -> MessageList:
        """Return `messages` of the session, the oldest first, and their `total`."""

    @_calls_method
    async def run_command(
        self,
        agent_id: str,
        name: str,
        arguments: str | None = None,
        asks: bool | None = None,
        session: str | None = None,
    ) -> CommandResult:
        """Run a slash command beside the session; return its actions at the terminal, with `asks` up to its first
        choice. It is refused as in `send`."""

    @_calls_method
    async def list_commands(self, agent_id: str) -> CommandList:
        """Return the commands of the person, the project and its MCP servers, which `typed` content calls."""

    @_calls_method
    async def choose(self, agent_id: str, id: str, key: str | None = None) -> CommandResult:
        """Answer the choice of a command; return its actions at the terminal from then on."""

    @_calls_method
    async def get_status(self, agent_id: str) -> JsonObject:
        """Return the figures of the status line."""

    @_calls_method
    async def get_conversation(self, agent_id: str, turns: int | None = None) -> ConversationObject:
        """Return the newest turns as events."""

    @_calls_method
    async def list_workers(self, agent_id: str) -> WorkerList:
        """Return the workers of the session, each followed by its own."""

    @_calls_method
    async def worktree_list(self, cwd: str | None = None) -> WorktreesReport:
        """Return the worktrees of the project around `cwd`, the server's folder without it."""

    @_calls_method
    async def worktree_diff(self, name: str, cwd: str | None = None, stat: bool | None = None) -> WorktreeDiff:
        """Return the changes in a worktree as a patch."""

    @_calls_method
    async def worktree_apply(self, name: str, cwd: str | None = None) -> AppliedWorktree:
        """Apply the changes of a worktree to the project."""

    @_calls_method
    async def worktree_remove(self, name: str, cwd: str | None = None, force: bool | None = None) -> RemovedWorktree:
        """Remove a worktree with its branch."""

    @_calls_method
    async def shutdown(self) -> None:
        """End the server; running turns finish their step."""

    async def events(
        self,
        agent_id: str,
        after: int | None = None,
        opened: Callable[[], object] = lambda: None,
        *,
        questions: bool = False,
    ) -> AsyncIterator[ServerEvent]:
        """Yield the events of an agent from now on or behind number `after`; `opened` is called before the first. With
        `questions` the model may ask the person at this client, who answers by `answer`."""
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        with _connection_errors():
            async with self._connect().get(
                f"{self._base}/agents/{agent_id}/events",
                params={"questions": "true"} if questions else None,
                headers=headers,
                timeout=_STREAM,
            ) as response:
                opened()
                async for event in _events(response):
                    yield event

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of any method. A parameter that is None is not sent."""
        arguments = {name: value for name, value in params.items() if value is not None}
        if self._folder is not None and isinstance(cwd := arguments.get("cwd"), str):
            arguments["cwd"] = os.path.join(self._folder, cwd)
        with _connection_errors():
            async with self._connect().post(f"{self._base}/rpc", json=self._request(method, arguments)) as response:
                return _result(await _answer(response))

    # -- inside --------------------------------------------------------------------------------------------------

    def _request(self, method: str, params: JsonObject) -> JsonDict:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": dict(params)}

    def _connect(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = aiohttp.UnixConnector(self._path, limit=0) if self._path else aiohttp.TCPConnector(limit=0)
            self._http = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
        return self._http


_NO_RESULT = "the stream ended without a result; the server may have stopped, or the message left the queue"
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=IDLE_TIMEOUT_SECONDS)


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Raise `ConnectionError` with words for a person for whatever the HTTP library raises about a connection."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConnectionError(_describe_failure(error)) from error


def _describe_failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server is not responding"
    if isinstance(error, aiohttp.InvalidURL):
        return f"not a server URL: {error.url}"
    if isinstance(error, aiohttp.ClientConnectorError):
        code = error.os_error.errno or 0
        why = os.strerror(code) if code > 0 else error.os_error.strerror  # a name that is not known has no such code
        return f"the server cannot be reached: {why}" if why else "the server cannot be reached"
    if isinstance(error, aiohttp.ClientResponseError):
        return "the response is not from a nexus server"
    return "the connection was lost"


async def _answer(response: aiohttp.ClientResponse) -> Any:
    """Return the JSON of an answer; raise `CallError` for an HTTP status that is none of success."""
    text = await response.text()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if response.status >= 400 or not isinstance(value, dict):
        why = value.get("error") if isinstance(value, dict) else None
        raise CallError(response.status, str(why or f"HTTP {response.status}"))
    return value


def _result(answer: JsonObject) -> Any:
    if error := answer.get("error"):
        raise CallError(error["code"], error["message"], error.get("data"))
    return answer["result"]


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream; raise `CallError` if the answer is none."""
    if response.content_type != "text/event-stream":
        _result(await _answer(response))
        return
    data: list[bytes] = []
    partial_line = b""
    async for chunk in response.content.iter_any():
        *lines, partial_line = (partial_line + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif not line and data:
                yield json.loads(b"\n".join(data))
                data = []
