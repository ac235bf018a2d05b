"""`nexus serve`: agents for other programs, by JSON-RPC over HTTP on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Allow, Directory, Json, Model, SharedOptions, refuse_empty
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.serve.serve_once import serve_once
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.paths import working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)


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
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Run due work and exit, for cron and timers. Exit status 1 if a run failed, 3 if a limit stopped it.",
        ),
    ] = False,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Exit when stdin ends, with the program that started nexus.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log to stderr; always on at a terminal.")] = False,
    json: Json = False,
) -> int:
    """Serve agents to other programs: JSON-RPC 2.0 over HTTP, on this machine unless --host names another address.

    The server also starts scheduled runs, agents of spaces, waiting runs whose event occurred, and services (POST
    /trigger/NAME, each with its own token). Clients send the token from the printed file with each request. SIGTERM
    stops the server: running turns finish their step and can be resumed.
    """
    SharedOptions(allow=allow).check()
    if once:
        given = (socket_path, port is not None, host != "127.0.0.1", model, directory, allow, until_eof, verbose)
        if any(given):
            why = "it opens no server, and schedules and services have their own model, folder and level"
            raise NexusError("usage", "--once", why, "Omit the other options but --json")
        block_imports_from(str(working_folder()))
        return serve_once(lambda: open_ledger(writes=True), json=json)
    if socket_path and (port is not None or host != "127.0.0.1"):
        raise NexusError("usage", "--socket and --host or --port", "they name different addresses", "Give one of them")
    folder = working_folder(directory)
    block_imports_from(str(folder))
    settings = settings_in(folder)
    try:
        chosen = choose_model(model, os.environ, settings).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
        write_stderr_line(f"nexus: {error.message}; every agent has to name its model")
    from nexus_cli.cli.serve.run_server import run_server  # noqa: PLC0415  (loads the engine)

    address = Path.cwd() / socket_path if socket_path else (host, port or 0)
    return run_server(folder, settings, chosen, allow, address, json=json, until_eof=until_eof, verbose=verbose)
