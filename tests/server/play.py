"""The scripted model server: a model provider on loopback that answers from a script and keeps what it received.

Owns the socket, the thread and the bounds. Stops by itself after `max_requests` requests or `lifetime` seconds. The
answer to one request is `server.answer`; the choice of a step is `server.script`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from server.answer import Refusal, answer
from server.connection import Connection, Gone, Head
from server.meter import Meter
from server.received import Received
from server.script import Script, Source
from server.step import Step

MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "nexus"}]}
SHOWN = {
    "modelfile": "",
    "template": "{{ .System }}{{ .Prompt }}{{ .Tools }}",
    "capabilities": ["completion", "tools"],
    "details": {"family": "scripted"},
    "model_info": {"general.architecture": "scripted", "scripted.context_length": 32768},
}
LISTED = {
    ("GET", "models"): MODELS,
    ("POST", "show"): SHOWN,
    ("GET", "tags"): {"models": [{"name": "scripted:latest", "model": "scripted:latest"}]},
    ("GET", "version"): {"version": "0.12.0"},
}
"""Method and last word of the path to what is answered without a script."""


class ScriptedServer:
    """Plays a provider on 127.0.0.1, in a thread with a loop of its own. A context manager; use from any thread."""

    def __init__(
        self,
        script: Source = None,
        *,
        port: int = 0,
        refuse_above: int | None = None,
        dialect: str = "",
        meter: Meter | None = None,
        max_requests: int = 5000,
        lifetime: float = 600.0,
        log: Path | None = None,
        answers: Mapping[tuple[str, str], Any] = MappingProxyType({}),
    ) -> None:
        """Initialize; `answers` are what is told without a script, by method and whole path, before `LISTED`.

        A function among them is called for its answer, in a thread."""
        self.script = Script.of(script)
        self.meter = meter or Meter()
        self.refusal = Refusal(refuse_above, dialect)
        self.requests: list[Received] = []
        """Model requests in order of arrival."""
        self.others: list[Received] = []
        """Everything else that was asked."""
        self.errors: list[BaseException] = []
        """What a scripted function raised (its request was answered by a 500), or a step that could not be written."""
        self.connections = 0
        self.port = port
        self._bounds = (max_requests, lifetime)
        self._log = log
        self._answers = answers
        self._ready = threading.Event()
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failed: OSError | OverflowError | None = None
        self._thread = threading.Thread(target=self._run, name="scripted-server", daemon=True)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def base(self, form: str) -> str:
        """What litellm wants as `api_base` for this form (README.md beside this file)."""
        return self.url + {"chat": "/v1", "gemini": "/v1beta"}.get(form, "")

    def start(self) -> ScriptedServer:
        """Listens; raises `OSError` when the port is taken, `OverflowError` when there is no such port."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def load(self, script: Source) -> None:
        """Takes another script from the next request on."""
        self.script = Script.of(script)

    def close(self) -> None:
        """Ends every connection and the thread. May be called twice."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        if self._thread.ident is not None:
            self._thread.join(120)

    def wait_for(self, condition: Callable[[ScriptedServer], bool], seconds: float = 90.0) -> bool:
        """Waits until `condition` holds, looked at when a request arrives or its answer ends; False when never."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), seconds)

    def join(self, seconds: float | None = None) -> bool:
        """Waits until it has stopped by itself; False when it still runs after `seconds`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.errors and error is None:
            raise self.errors[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (OSError, OverflowError) as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        lines: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                lines.add(task)
                task.add_done_callback(lines.discard)
            await self._talk(Connection(reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", self.port, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            await asyncio.wait_for(self._stop.wait(), self._bounds[1])
        except TimeoutError:
            pass
        server.close()
        for task in list(lines):
            task.cancel()
        if lines:
            await asyncio.wait(set(lines), timeout=2)

    async def _talk(self, line: Connection) -> None:
        self.connections += 1
        number = self.connections
        try:
            while (read := await line.request()) is not None:
                head, raw = read
                if not await self._one(line, head, raw, number):
                    return
        except (Gone, asyncio.CancelledError):
            pass
        finally:
            await line.close()

    async def _one(self, line: Connection, head: Head, raw: bytes, connection: int) -> bool:
        """Answers one request; True when the connection goes on."""
        request = Received(0, head.method, head.path, head.headers, raw, time.time(), connection)
        if len(self.requests) + len(self.others) >= self._bounds[0]:
            await line.whole(503, {"error": {"message": "the scripted server has answered all it may"}})
            self._end()
            return False
        if head.method != "POST" or not request.readable:
            await self._other(line, request)
            return head.headers.get("connection", "").lower() != "close"
        request.number = len(self.requests) + 1
        self._note(lambda: self.requests.append(request))
        try:
            await answer(line, request, partial(self._choose, request), self.meter, self.refusal)
        except Gone:
            raise
        except Exception as error:  # a step that cannot be written: raised when the server is left
            self.errors.append(error)
            raise Gone from error
        finally:
            request.closed_early = line.closed_by_client
            request.done = True
            self._write(request)
            self._note(lambda: None)
        return head.headers.get("connection", "").lower() != "close"

    def _choose(self, request: Received) -> Step:
        try:
            return self.script.take(request)
        except Exception as error:  # a test's own function: told to the client, raised when the server is left
            self.errors.append(error)
            return Step.of({"fault": {"status": 500, "message": f"the script failed: {error!r}"}})

    async def _other(self, line: Connection, request: Received) -> None:
        path = request.path.partition("?")[0]
        known = self._answers.get((request.method, path)) or LISTED.get((request.method, path.rpartition("/")[2]))
        if (request.method, path) == ("GET", "/_log"):
            await line.whole(200, [item.record() for item in self.requests])
            return
        self._note(lambda: self.others.append(request))
        if callable(known):
            known = await asyncio.to_thread(known)
        request.status = 200 if known else 400 if request.form else 404
        body = known or {"error": {"message": f"{request.method} {path}: no such route, or a body that is no object"}}
        await line.whole(request.status, body)

    def _note(self, change: Callable[[], Any]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def _write(self, request: Received) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(request.record(), ensure_ascii=False) + "\n")

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()


def closed_port() -> int:
    """A port on 127.0.0.1 that refuses connections: bound a moment ago, and free again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
