"""`nexus serve`: agents for other programs, by JSON-RPC over HTTP on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.cli import process
from nexus_cli.cli.choose_model import choose_model
from nexus_cli.cli.command_options import Allow, Directory, Json, Model, SharedOptions, refuse_empty, working_folder
from nexus_cli.cli.interrupt import Interrupt
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.run_turn import close_loop
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.server_token import store_token
from nexus_cli.core.errors import NexusError
from nexus_cli.core.wire import json_text
from nexus_cli.rpc.listening import bind_address, bind_file, server_url
from nexus_cli.rpc.methods import PoolMethods
from nexus_cli.rpc.pool import AgentPool, SharedComponents
from nexus_cli.rpc.server import LOOPBACK, RpcServer
from nexus_cli.session.factory import make_provider
from nexus_cli.ui.print.stream import Stream, write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)

STEP_SECONDS = 60.0
"""Seconds that running turns have at the end to finish their step."""


@app.command("serve")
def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen on ADDRESS.", callback=refuse_empty)
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="N", help="Listen on port N; default: any that is free.")
    ] = None,
    socket_path: Annotated[
        str, typer.Option("--socket", metavar="PATH", help="Listen on a socket file.", callback=refuse_empty)
    ] = "",
    model: Model = "",
    directory: Directory = "",
    allow: Allow = "",
    json: Json = False,
) -> int:
    """Agents for other programs: JSON-RPC 2.0 over HTTP, on this machine unless --host names another address.

    A program sends the token of the printed file with each request. SIGTERM ends it: running turns finish their step
    and can be resumed.
    """
    SharedOptions(allow=allow).check()
    if socket_path and (port is not None or host != "127.0.0.1"):
        raise NexusError("usage", "--socket and --host or --port", "it listens in one place", "Give one of them")
    folder = working_folder(directory)
    block_imports_from(str(folder))
    settings = load_settings_in(project_root(folder), places(), defaults_dir(), os.environ).settings
    try:
        chosen = choose_model(model, os.environ, settings).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
        write_stderr_line(f"nexus: {error.message}; every agent has to name its model")
    shared = SharedComponents(model=chosen, allow=allow or None, cwd=folder)
    pool = AgentPool(shared, provider=make_provider(settings))
    listening = bind_file(Path.cwd() / socket_path) if socket_path else bind_address(host, port or 0)
    run = _Run(pool, folder, listening, "" if socket_path else host)
    process.freeze_gc()
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(run.serve(json))
    finally:
        close_loop(loop)
        if socket_path:
            with suppress(OSError):
                os.unlink(listening.getsockname())
        listening.close()


class _Run:
    """One server from its start to its end."""

    def __init__(self, pool: AgentPool, folder: Path, listening: socket.socket, host: str) -> None:
        self._pool, self._listening, self._host = pool, listening, host
        self._end = asyncio.Event()
        self._methods = PoolMethods(pool, folder, self._end.set)
        self._interrupt = Interrupt()

    async def serve(self, json: bool) -> int:
        """Serve until a signal or `shutdown`; return the exit status."""
        url = server_url(self._listening, self._host)
        token = secrets.token_urlsafe(32)
        path = store_token(url, token)
        server = RpcServer(self._methods, token, self._host)
        self._interrupt.install(self._end.set)
        try:
            await server.start(self._listening)
            self._print(url, path, json)
            threading.Thread(target=self._pool.prepare, name="prepare", daemon=True).start()
            await self._end.wait()
            self._methods.is_stopping = True
            await self._pool.finish_steps(STEP_SECONDS)
            await server.stop()
            self._print_open()
            await self._pool.aclose()
        finally:
            path.unlink(missing_ok=True)
            self._interrupt.uninstall()
        return self._interrupt.status if self._interrupt.signal else 0

    def _print(self, url: str, path: Path, json: bool) -> None:
        """Print one line on stdout: where it listens."""
        if self._host not in {"", *LOOPBACK}:
            write_stderr_line(f"nexus: listening on {self._host}: whoever reads along has the token; prefer a tunnel")
        value = {"url": url, "token_file": str(path), "pid": os.getpid()}
        text = json_text(value, escaped=True) if json else f"nexus serves {url} (token: {path})"
        Stream(1).write(f"{text}\n")

    def _print_open(self) -> None:
        """Print how turns that were cut short are resumed."""
        for agent in self._pool.list():
            if agent.session.is_open() and agent.session.saved:
                write_stderr_line(
                    f"nexus: {agent.agent_id} was cut short. Resume with: nexus ask -r {agent.session.id}"
                )
