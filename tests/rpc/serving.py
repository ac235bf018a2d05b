"""A server in this process, on a real socket, over models that are functions; and its client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from session.played import stream_answer

from nexus_cli.client import Client
from nexus_cli.config.settings import Settings
from nexus_cli.core.request import Delta, Request, TextDelta
from nexus_cli.core.usage import Usage
from nexus_cli.rpc.http_server import RpcServer
from nexus_cli.rpc.listening import bind_address, bind_file, server_url
from nexus_cli.rpc.methods import PoolMethods
from nexus_cli.rpc.pool import AgentPool, SharedComponents
from nexus_cli.rpc.trigger_door import TriggerDoor

MODEL = "openai/played"
TOKEN = "a-token-of-a-test"
SETTINGS = Settings(models={MODEL: {"window": 32_000}})
SECONDS = 300.0
"""After so long a test that waits has failed."""
Reply = str | list[tuple[str, dict[str, Any]]]


def words(request: Request) -> str:
    """The newest words of the person in a request, without what we add before them."""
    newest = next(message for message in reversed(request.messages) if message["role"] == "user")
    return str(newest["content"]).rpartition("\n")[2]


def echo(request: Request) -> Reply:
    """Says what the person said last."""
    return f"echo {words(request)}"


@dataclass
class Answering:
    """A provider that answers as `script` says; with `gates` a request whose words have one waits for it."""

    script: Callable[[Request], Reply] = echo
    model: str = MODEL
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    waits: dict[str, asyncio.Event] = field(default_factory=dict)
    """The same before the first word of the reply."""
    asked: list[str] = field(default_factory=list)
    """The words of every request."""
    seen: list[list[dict[str, Any]]] = field(default_factory=list)
    """The messages of every request."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        request.sending.is_sent = True
        said = words(request)
        self.asked.append(said)
        self.seen.append(json.loads(json.dumps(list(request.messages))))
        number = len(self.asked)
        if said in self.waits:
            await self.waits[said].wait()
        if said in self.gates:
            yield TextDelta("wait ")
            await self.gates[said].wait()
        for delta in stream_answer(self.script(request), number, Usage(100, 10)):
            yield delta


@dataclass
class Served:
    """A running server."""

    url: str
    client: Client
    pool: AgentPool
    methods: PoolMethods
    ended: asyncio.Event
    """Set by `shutdown`."""

    async def post(self, body: str | bytes, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """POST to `/rpc`; the status and the JSON of the answer, None without one."""
        given = {"Authorization": f"Bearer {TOKEN}"} | (headers or {})
        async with aiohttp.ClientSession() as http, http.post(f"{self.url}/rpc", data=body, headers=given) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def error(self, body: str | bytes) -> tuple[int, Any]:
        """The code of the error that a body is answered with, and the id."""
        status, value = await self.post(body)
        assert status == 200 and value["jsonrpc"] == "2.0" and "result" not in value, value
        return value["error"]["code"], value["id"]


@asynccontextmanager
async def serving(
    folder: Path,
    provider: Any = None,
    *,
    file: Path | None = None,
    host: str = "127.0.0.1",
    triggers: TriggerDoor | None = None,
    note: Callable[[str], None] = lambda line: None,
    **shared: Any,
) -> AsyncIterator[Served]:
    """A server whose agents work in `folder`; on a socket file with `file`. `host` is what it takes its address for."""
    more = {"config": SETTINGS, "cwd": folder, **shared}
    pool = AgentPool(SharedComponents(provider=provider or Answering(), **more))
    listening = bind_file(file) if file else bind_address("127.0.0.1", 0)
    ended = asyncio.Event()
    methods = PoolMethods(pool, folder, ended.set)
    server = RpcServer(methods, TOKEN, "" if file else host, triggers, note=note)
    await server.start(listening)
    url = server_url(listening, "127.0.0.1")
    try:
        async with asyncio.timeout(SECONDS), Client(url, TOKEN) as client:
            yield Served(url, client, pool, methods, ended)
    finally:
        await server.stop()
        await pool.aclose()
        listening.close()


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110  (anything can be waited for)
            await asyncio.sleep(0.005)
