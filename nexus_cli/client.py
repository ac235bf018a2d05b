"""A client of `nexus serve`: one coroutine per method, and the events of an agent. Needs no part of the engine."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import aiohttp

from nexus_cli.config.server_token import UNIX

if TYPE_CHECKING:
    from nexus_cli.core.json_types.ask_result import AskResult
    from nexus_cli.core.json_types.context_report import ContextReport
    from nexus_cli.core.json_types.server_results import (
        AgentList,
        CommandResult,
        CompactResult,
        Conversation,
        CreatedAgent,
        ListedAgent,
        MessageList,
        TokenUsage,
    )

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""Seconds without a byte, not even a comment, after which a stream of events is dead."""


class CallError(Exception):
    """A call that failed: code, message and data of JSON-RPC; or an HTTP status as the code."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Client:
    """A connection to a server. Use `async with`, or `aclose` it. `ConnectionError` where the server is not there."""

    def __init__(self, url: str, token: str) -> None:
        """`url` is what `nexus serve` prints: `http://HOST:PORT` or `unix:PATH`."""
        self._base = "http://localhost" if url.startswith(UNIX) else url.rstrip("/")
        self._path = url.removeprefix(UNIX) if url.startswith(UNIX) else ""
        self._headers = {"Authorization": f"Bearer {token}"}
        self._ids = itertools.count(1)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._http is not None:
            await self._http.close()

    # -- methods -------------------------------------------------------------------------------------------------

    async def create_agent(
        self,
        agent_id: str | None = None,
        *,
        system_prompt: str | None = None,
        model: str | None = None,
        allow: str | None = None,
        cwd: str | None = None,
        recipe: str | None = None,
    ) -> CreatedAgent:
        """Make an agent; return its `agent_id` and `session`."""
        made: CreatedAgent = await self.call(
            "create_agent",
            agent_id=agent_id,
            system_prompt=system_prompt,
            model=model,
            allow=allow,
            cwd=cwd,
            recipe=recipe,
        )
        return made

    async def list_agents(self) -> list[ListedAgent]:
        """Return the agents with `agent_id`, `session`, `state`, `model`, `used`."""
        found: AgentList = await self.call("list_agents")
        return found["agents"]

    async def destroy_agent(self, agent_id: str) -> None:
        """Stop an agent and forget it; its session stays."""
        await self.call("destroy_agent", agent_id=agent_id)

    async def send(self, agent_id: str, content: str, images: Sequence[str] | None = None) -> AskResult:
        """Run a turn and return its result; a failed turn is a `CallError` with code -32004. `images` are base64."""
        result: AskResult = await self.call("send", agent_id=agent_id, content=content, images=images)
        return result

    async def stream(self, agent_id: str, content: str) -> AsyncIterator[dict[str, Any]]:
        """Run a turn and yield its events, the last of them the result."""
        body = self._request("send", {"agent_id": agent_id, "content": content})
        with _connection_errors():
            async with self._connect().post(
                f"{self._base}/rpc", json=body, headers={"Accept": "text/event-stream"}, timeout=_STREAM
            ) as response:
                async for event in _events(response):
                    yield event

    async def steer(self, agent_id: str, content: str) -> None:
        """Say something to the running turn."""
        await self.call("steer", agent_id=agent_id, content=content)

    async def cancel(self, agent_id: str) -> None:
        """Stop the running turn."""
        await self.call("cancel", agent_id=agent_id)

    async def approve(self, agent_id: str, id: str, answer: str, words: str | None = None) -> None:
        """Answer a question: `once`, `session` or `no`."""
        await self.call("approve", agent_id=agent_id, id=id, answer=answer, words=words)

    async def compact(self, agent_id: str, instructions: str | None = None) -> CompactResult:
        """Summarize older messages; return tokens `before` and `after`, and `why` it was not done."""
        result: CompactResult = await self.call("compact", agent_id=agent_id, instructions=instructions)
        return result

    async def get_tokens(self, agent_id: str) -> TokenUsage:
        """Return the tokens of the window by part."""
        result: TokenUsage = await self.call("get_tokens", agent_id=agent_id)
        return result

    async def get_context(self, agent_id: str) -> ContextReport:
        """Return the content of the next request."""
        result: ContextReport = await self.call("get_context", agent_id=agent_id)
        return result

    async def get_messages(self, agent_id: str, offset: int | None = None, limit: int | None = None) -> MessageList:
        """Return `messages` of the session, the oldest first, and their `total`."""
        result: MessageList = await self.call("get_messages", agent_id=agent_id, offset=offset, limit=limit)
        return result

    async def run_command(self, agent_id: str, name: str, arguments: str | None = None) -> CommandResult:
        """Run a slash command beside the session; return what it did at the terminal."""
        result: CommandResult = await self.call("run_command", agent_id=agent_id, name=name, arguments=arguments)
        return result

    async def get_conversation(self, agent_id: str, turns: int | None = None) -> Conversation:
        """Return the newest turns as events."""
        result: Conversation = await self.call("get_conversation", agent_id=agent_id, turns=turns)
        return result

    async def shutdown(self) -> None:
        """End the server; running turns finish their step."""
        await self.call("shutdown")

    async def events(
        self, agent_id: str, after: int | None = None, opened: Callable[[], object] = lambda: None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of an agent from now on, or those behind the event with the number `after`.

        `opened` is called when the server has begun: no later event is missed.
        """
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        with _connection_errors():
            async with self._connect().get(
                f"{self._base}/agents/{agent_id}/events", headers=headers, timeout=_STREAM
            ) as response:
                opened()
                async for event in _events(response):
                    yield event

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of any method. A parameter that is None is not sent."""
        given = {name: value for name, value in params.items() if value is not None}
        with _connection_errors():
            async with self._connect().post(f"{self._base}/rpc", json=self._request(method, given)) as response:
                return _result(await _answer(response))

    # -- inside --------------------------------------------------------------------------------------------------

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
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


_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Raise `ConnectionError` with words for a person for whatever the HTTP library raises about a connection."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConnectionError(_describe_failure(error)) from error


def _describe_failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    if isinstance(error, aiohttp.ClientConnectorError):
        code = error.os_error.errno or 0
        why = os.strerror(code) if code > 0 else error.os_error.strerror  # a name that is not known has no such code
        return f"the server cannot be reached: {why}" if why else "the server cannot be reached"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers is no nexus server"
    return "the connection broke off"


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


def _result(answer: Mapping[str, Any]) -> Any:
    if error := answer.get("error"):
        raise CallError(error["code"], error["message"], error.get("data"))
    return answer["result"]


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a stream; raise `CallError` if the answer is none."""
    if response.content_type != "text/event-stream":
        _result(await _answer(response))
        return
    data: list[bytes] = []
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif not line and data:
                yield json.loads(b"\n".join(data))
                data = []
