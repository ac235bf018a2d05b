"""Our side of the process of MCP servers: starts it at the first use, asks it, and ends it. Imports nothing of the SDK.

The environment of a server and the keys in headers are made here; the process itself has none of the person's keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from nexus_cli.config.host_environment import host_environment
from nexus_cli.config.paths import places
from nexus_cli.config.programs import end_group, start_program_async
from nexus_cli.config.stored_keys import read_secret
from nexus_cli.core.certificates import certificate_file
from nexus_cli.core.install_hint import install_hint
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.read_event import read_value
from nexus_cli.core.shared_types import Environ, T, TakeText
from nexus_cli.mcp.server_tools import describe_resources
from nexus_cli.mcp.server_values import (
    AskPerson,
    ServerAnswer,
    ServerEntry,
    ServerError,
    ServerOffer,
    ServerQuestion,
    token_path,
)

ShowUrl = Callable[[str], Awaitable[None] | None]

HARMLESS = (
    "PATH HOME USER LOGNAME SHELL TERM TZ TMPDIR LANG LANGUAGE SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE "
    "NODE_EXTRA_CA_CERTS CURL_CA_BUNDLE NO_PROXY no_proxy HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY "
    "all_proxy XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR"
).split()
"""Variables of our environment that every server gets, and those that begin with LC_."""
SLACK_SECONDS = 20.0
"""Seconds that a request may exceed its limits until the process itself counts as hung."""
_LOGIN_SECONDS = 330.0
_LINE = 64_000_000
_END_SECONDS = 8.0
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class McpHost:
    """The servers of one event loop. Everything raises `ServerError`, and starts the process where there is none."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        """The folder of servers that name none."""
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Queue[JsonDict]] = {}
        self._numbers = itertools.count(1)
        self._groups: set[int] = set()
        self._revisions: dict[str, str] = {}
        """The revisions of the tools of servers, by hash of the entry; "" for one that does not run."""
        self._errors: deque[str] = deque(maxlen=5)
        self._starting = asyncio.Lock()

    async def list_offer(self, server: ServerEntry) -> ServerOffer:
        """Return the instructions, tools, prompts and resources of a server, in its order."""
        return await self._ask(ServerOffer, "list", server)

    def find_revision(self, server: ServerEntry) -> str:
        """Return the revision of a server's tools (`ServerOffer.revision`); "" if it does not run. Starts nothing."""
        return self._revisions.get(server.sha256, "")

    async def call(
        self,
        server: ServerEntry,
        tool: str,
        arguments: JsonObject,
        *,
        revision: str = "",
        ask: AskPerson | None = None,
        progress: TakeText | None = None,
    ) -> ServerAnswer:
        """Call a tool. Cancelling this cancels the call at the server. Raises `ServerError("changed", ...)` if the
        server's tools have another `revision`; "": whatever it is."""
        call = {"name": tool, "arguments": dict(arguments)}
        return await self._ask(ServerAnswer, "call", server, call, revision=revision, ask=ask, show=progress)

    async def read_resource(self, server: ServerEntry, uri: str) -> ServerAnswer:
        """Read a resource."""
        return await self._ask(ServerAnswer, "read", server, {"uri": uri})

    async def list_resources(self, server: ServerEntry) -> ServerAnswer:
        """Return a line for each resource and each template of URIs."""
        offer = await self._ask(ServerOffer, "resources", server)
        return ServerAnswer(describe_resources(offer.resources), revision=offer.revision)

    async def get_prompt(self, server: ServerEntry, name: str, arguments: Mapping[str, str]) -> ServerAnswer:
        """Return the text of a prompt."""
        return await self._ask(ServerAnswer, "prompt", server, {"name": name, "arguments": dict(arguments)})

    async def login(self, server: ServerEntry, show_url: ShowUrl) -> None:
        """Log in with a browser: `show_url` is called with the address that the person opens."""
        await self._ask(ServerAnswer, "login", server, show=show_url)

    async def aclose(self) -> None:
        """End the process and all servers. Never raises."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        await self._end(process)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        kind: type[T],
        do: str,
        server: ServerEntry,
        arguments: JsonObject = MappingProxyType({}),
        *,
        revision: str = "",
        ask: AskPerson | None = None,
        show: ShowUrl | None = None,
    ) -> T:
        """Send a request and return its result, a value of `kind`."""
        target = self._resolve(server)
        await self._start()
        process, number = self._process, next(self._numbers)
        queue = self._waiting[number] = asyncio.Queue()
        # Both eras, then once more on a fresh connection.
        seconds = 4 * server.start_seconds + 2 * server.call_seconds + SLACK_SECONDS
        seconds += _LOGIN_SECONDS if do == "login" else 0
        request = {"do": do, "target": target, "arguments": dict(arguments), "revision": revision}
        is_answered = False
        try:
            self._send({"id": number, "asks": ask is not None, **request})
            while True:
                async with asyncio.timeout(seconds):
                    line = await queue.get()
                is_answered = "fault" in line or "result" in line
                if "fault" in line:
                    raise ServerError(line["fault"], line["text"])
                if "result" in line:
                    result: T = read_value(kind, line["result"])
                    return result
                if "show" in line:
                    showing = show(line["show"]) if show is not None else None
                    if inspect.isawaitable(showing):
                        await showing
                else:
                    content = await ask(read_value(ServerQuestion, line["question"])) if ask is not None else None
                    self._send({"answer": line["ask"], "content": content})
        except TimeoutError as error:
            if process is not None:
                await self._end(process)
            raise ServerError("silent", "the process that runs MCP servers did not answer and was stopped") from error
        finally:
            del self._waiting[number]
            if not is_answered:
                self._send({"cancel": number})

    def _resolve(self, server: ServerEntry) -> JsonDict:
        """Return the fields of `Target`; raise `ServerError` if a header has no value."""
        folder = self._folder / server.cwd
        env = _server_environment(server, folder) if server.command else {}
        headers = {name: _fill_in(server, name, value) for name, value in server.headers.items()}
        tokens = token_path(places().data, server.name, server.url)
        resolved = {"values": env, "headers": headers, "cwd": str(folder), "key": server.sha256, "tokens": str(tokens)}
        return asdict(server) | resolved

    def _send(self, line: JsonDict) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(json.dumps(line).encode() + b"\n")

    # -- the process ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            if find_spec("mcp") is None:
                raise ServerError("start", f"MCP servers need a package: {install_hint('mcp')}")
            variables = ("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "LD_LIBRARY_PATH")
            env = _filter_environment(os.environ) | {name: os.environ[name] for name in variables if name in os.environ}
            if trusted := certificate_file():
                env["SSL_CERT_FILE"] = trusted
            try:
                process = await start_program_async(
                    # Without the working folder on its path: a project may have a module of the same name.
                    [sys.executable, "-P", "-m", "nexus_cli.mcp.host"],
                    env=env,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=_LINE,
                )
            except OSError as error:
                why = f"the process that runs MCP servers cannot be started: {error.strerror}"
                raise ServerError("start", f"{why}; `ulimit -u` shows your process limit") from error
            self._process = process
            self._reader = asyncio.create_task(self._read(process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand on what the process says; when it ends, tell all who wait, and end its servers."""
        assert process.stdout is not None
        errors = asyncio.create_task(self._keep_errors(process))
        try:
            async for data in _lines(process.stdout):
                line = json.loads(data)
                if "group" in line:
                    (self._groups.add if line["begun"] else self._groups.discard)(line["group"])
                elif "revision" in line:
                    self._revisions[line["key"]] = line["revision"]
                elif queue := self._waiting.get(line["id"]):
                    queue.put_nowait(line)
        finally:
            if self._process is process:
                self._process = None
            await asyncio.wait({errors}, timeout=0.05)  # for what it said last
            errors.cancel()
            last_error = f": {self._errors[-1]}" if self._errors else ""
            lost = {"fault": "died", "text": f"the process that runs MCP servers ended{last_error}"}
            for queue in self._waiting.values():
                queue.put_nowait(lost)
            self._kill(process)

    async def _keep_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self._errors.clear()
        async for line in _lines(process.stderr):
            if text := line.decode("utf-8", "replace").strip():
                self._errors.append(text[:300])

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        reader = self._reader
        self._kill(process)
        if self._process is process:
            self._process = None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        if reader is not None:
            await asyncio.wait({reader}, timeout=1)
            reader.cancel()
            await asyncio.wait({reader})

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        """End the process and what it could not end itself."""
        groups, self._groups = [*self._groups, *([process.pid] if process.returncode is None else [])], set()
        self._revisions.clear()
        for group in groups:
            end_group(group)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines until the end; a line beyond the limit ends them too."""
    with contextlib.suppress(ValueError, OSError):
        while line := await stream.readline():
            yield line


def _filter_environment(environ: Environ) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name in HARMLESS or name.startswith("LC_")}


def _server_environment(server: ServerEntry, folder: Path) -> dict[str, str]:
    """Return the harmless variables, those that the entry names (also keys stored by `nexus login`), and its values."""
    env = _filter_environment(host_environment(os.environ, folder))
    # A program gets no proxy with a password in its address.
    env = {name: value for name, value in env.items() if not (name.lower().endswith("_proxy") and "@" in value)}
    variables = {name: value for name in server.env if (value := _read_variable(server, name))}
    return {**env, **variables, **server.values}


def _read_variable(server: ServerEntry, name: str) -> str:
    """Return a variable of our environment; for a person's own server also a key that `nexus login` stored."""
    return os.environ.get(name, "") or (read_secret(name) if server.source == "personal" else "")


def _fill_in(server: ServerEntry, header: str, text: str) -> str:
    """Replace `${NAME}` by the variable; raise `ServerError` if it is not set."""

    def value(match: re.Match[str]) -> str:
        if variable := _read_variable(server, match[1]):
            return variable
        raise ServerError("start", f"{server.name}: the header {header} needs {match[1]}, which has no value")

    return text if server.source == "editor" else _VARIABLE.sub(value, text)
