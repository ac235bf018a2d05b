"""Run one server from start to exit: its address, its token, signals, and turns that finish their step."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.open_files import raise_file_limit
from nexus_cli.cli.serve.serve_once import make_runner, run_line
from nexus_cli.cli.work_folder import load_plugins
from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.server_token import store_token
from nexus_cli.config.settings import Settings
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.core.request import Provider
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.provider.retry import make_provider
from nexus_cli.rpc.http_server import LOOPBACK, RpcServer
from nexus_cli.rpc.listening import bind_address, bind_file, remove_file, server_url
from nexus_cli.rpc.methods import PoolMethods
from nexus_cli.rpc.pool import AgentPool, SharedComponents
from nexus_cli.rpc.trigger_door import TriggerDoor
from nexus_cli.runs.service_triggers import Service, ServiceObject, load_services, service_value
from nexus_cli.ui.print.stream import Stream, write_stderr_line

MAX_FILES = 4096
"""Limit of open files: each agent, connection, worker and request holds one. Many systems default to 1,024."""
RETRY_SECONDS = 15.0
"""Seconds before another attempt after the ledger has failed."""
MAX_REMEMBERED_LINES = 1000
"""Most lines of which it is remembered that they were printed."""
MAX_LINE_LENGTH = 120
"""Most characters of the line of a run."""
STEP_SECONDS = 60.0
"""Seconds that running turns have at shutdown to finish their step."""


class ServeLine(TypedDict):
    """Printed when the server listens."""

    url: str
    token_file: str
    pid: int
    services: list[ServiceObject]


def run_server(
    folder: Path,
    settings: Settings,
    model: str,
    allow: str,
    address: tuple[str, int] | Path,
    *,
    json: bool,
    until_eof: bool,
    verbose: bool = False,
) -> int:
    """Serve at `address`, a host and port or a socket file, until a signal, `shutdown` or, with `until_eof`, the end of
    stdin; return the exit status. With `verbose`, and at a terminal, it prints on stderr what it does."""
    provider = make_provider(settings)
    pool = AgentPool(SharedComponents(model=model, allow=allow or None, cwd=folder), provider=provider)
    listening = bind_file(address) if isinstance(address, Path) else bind_address(*address)
    leave = partial(remove_file, address, os.lstat(address)) if isinstance(address, Path) else _remove_nothing
    host = "" if isinstance(address, Path) else address[0]
    note: TakeText = _note if verbose or Stream(2).terminal else lambda line: None
    run = _Run(pool, provider, folder, settings, listening, host, leave, note)
    raise_file_limit(MAX_FILES)
    for line in load_plugins():
        write_stderr_line(f"nexus: {line}")
    try:
        return run_in_loop(run.serve(json, until_eof))
    finally:
        listening.close()
        leave()


def _remove_nothing() -> None:
    """Do nothing: a TCP address leaves no file."""


def _note(line: str) -> None:
    """Print a line about what the server does."""
    write_stderr_line(f"{datetime.now():%H:%M:%S} {line}")


def _wait_for_eof(ended: Callable[[], object]) -> None:
    """Read stdin to its end, then call `ended`."""
    with suppress(OSError, RuntimeError):  # the loop has ended first
        while os.read(0, 4096):
            pass
        ended()


class _Work:
    """The work besides the agents: plans, services, spaces, and runs whose wait is over."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        services: Mapping[str, Service],
        warn: TakeText,
        note: TakeText,
        provider: Provider,
    ) -> None:
        self.services = services
        self.door = TriggerDoor(ledger, services)
        self._ledger, self._warn = ledger, warn
        self._runner = make_runner(
            ledger, settings, warn, provider, [self.door], changed=lambda run: note(run_line(run, MAX_LINE_LENGTH))
        )
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        settings: Settings,
        folder: Path,
        warn: TakeText,
        provider: Provider,
        note: TakeText,
    ) -> _Work | None:
        """Open the ledger and load the services. If that fails, pass the reason to `warn` and return None."""
        try:
            services, problems = load_services(settings.services, folder)
            ledger = Ledger.open(ledger_place())
        except NexusError as error:
            warn(f"{error.message}; schedules, services and waiting runs are not served. Correct this, then restart")
            return None
        for line in problems:
            warn(line)
        return cls(ledger, settings, services, warn, note, provider)

    def start(self) -> None:
        """Start to run what is due."""
        self._task = asyncio.create_task(self._serve())
        self._task.add_done_callback(self._note_end)

    async def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                await self._runner.serve(self._stop)
            except NexusError as error:  # the disk is full, or another process holds a lock
                self._warn(f"{error.message}; schedules, services and waiting runs resume when the ledger is available")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RETRY_SECONDS)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._warn(f"{report_bug(error).message}: schedules, services and waiting runs are no longer served")

    async def finish_steps(self) -> None:
        """Start no other work, and let running work finish its step."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STEP_SECONDS)

    async def aclose(self) -> None:
        """Stop the running work, for another process to resume, and close the ledger."""
        await self._runner.aclose()
        self._ledger.close()


class _Run:
    """One run of the server."""

    def __init__(
        self,
        pool: AgentPool,
        provider: Provider,
        folder: Path,
        settings: Settings,
        listening: socket.socket,
        host: str,
        leave: Callable[[], None],
        note: TakeText,
    ) -> None:
        """Initialize; `leave` removes the socket file, also if a second signal ends the process."""
        self._pool, self._folder, self._listening, self._host, self._leave = pool, folder, listening, host, leave
        self._end = asyncio.Event()
        self._methods = PoolMethods(pool, folder, self._end.set)
        self._interrupt = Interrupt()
        self._settings, self._provider = settings, provider
        self._work: _Work | None = None
        self._warned = set[str]()
        self._note = pool.note = note

    async def serve(self, json: bool, until_eof: bool) -> int:
        """Serve until a signal, `shutdown` or the end of stdin; return the exit status."""
        url = server_url(self._listening, self._host)
        token = secrets.token_urlsafe(32)
        path = store_token(url, token)
        self._open_work()
        door = self._work.door if self._work else None
        server = RpcServer(self._methods, token, self._host, door, self._warn, self._note)
        asyncio.get_running_loop().set_exception_handler(self._report)

        def remove_files() -> None:
            path.unlink(missing_ok=True)
            self._leave()

        self._interrupt.install(self._end.set, before_exit=remove_files)
        try:
            await server.start(self._listening)
            self._print(url, path, list(self._work.services.values()) if self._work else [], json)
            starting = asyncio.create_task(self._start_work(server))
            threading.Thread(target=self._pool.prepare, name="prepare", daemon=True).start()
            if until_eof:
                ends = partial(asyncio.get_running_loop().call_soon_threadsafe, self._end.set)
                threading.Thread(target=_wait_for_eof, args=(ends,), name="stdin", daemon=True).start()
            await self._end.wait()
            self._methods.is_stopping = True
            self._print_running()
            starting.cancel()
            work = self._work
            await asyncio.gather(self._pool.finish_steps(STEP_SECONDS), *([work.finish_steps()] if work else []))
            await server.stop()
            self._print_open()
            await self._pool.aclose()
        finally:
            path.unlink(missing_ok=True)
            self._interrupt.uninstall()
            if self._work:
                await self._work.aclose()
        return self._interrupt.status

    def _open_work(self) -> None:
        self._work = _Work.open(self._settings, self._folder, self._warn, self._provider, self._note)

    async def _start_work(self, server: RpcServer) -> None:
        """Start the schedules and services; until the ledger can be opened try again, as when the machine starts the
        database after nexus."""
        while not self._work:
            await asyncio.sleep(RETRY_SECONDS)
            await asyncio.to_thread(self._open_work)  # a host that is away takes seconds
        server.triggers = self._work.door
        self._work.start()

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Print an unhandled error of the loop as one line, instead of a traceback."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self._warn(f"{context['message']}: {reason_of(error)}")
        elif error is not None:
            self._warn(report_bug(error).message)

    def _warn(self, line: str) -> None:
        """Print a line for the person, unless it was printed before."""
        if line not in self._warned:
            self._warned = {line, *(self._warned if len(self._warned) < MAX_REMEMBERED_LINES else ())}
            write_stderr_line(f"nexus: {line}")

    def _print(self, url: str, path: Path, services: list[Service], json: bool) -> None:
        """Print the address in one line on stdout, and a line for each service on stderr."""
        if self._host not in {"", *LOOPBACK}:
            write_stderr_line(
                f"nexus: listening on {self._host}: anyone who can read the traffic can get the token; "
                "use a tunnel instead"
            )
        listed = [service_value(service, url) for service in services]
        value: ServeLine = {"url": url, "token_file": str(path), "pid": os.getpid(), "services": listed}
        text = json_text(value, escaped=True) if json else f"nexus serves {url} (token: {path})"
        with suppress(NexusError):  # a daemon may have no stdout
            Stream(1).write(f"{text}\n")
        if json or not Stream(1).terminal:
            self._note(f"listening at {url}")
        for service in [] if json else listed:
            token = f" (token: {service['token_file']})" if service["token_file"] else ""
            write_stderr_line(f"nexus: POST {service['url']} starts {service['name']}{token}")

    def _print_running(self) -> None:
        """Print the agents that the shutdown waits for."""
        if names := [agent.agent_id for agent in self._pool.list() if agent.dispatcher.state != "idle"]:
            write_stderr_line(
                f"nexus: waiting up to {STEP_SECONDS:g} s for agent {name_first(names, 1)} to finish a step; "
                "a second signal stops the server immediately"
            )

    def _print_open(self) -> None:
        """Print how to resume the turns that were cut short."""
        for agent in self._pool.list():
            if agent.session.is_open() and agent.session.saved:
                write_stderr_line(
                    f"nexus: {agent.agent_id} was interrupted. Resume with: nexus ask -r {agent.session.id}"
                )
