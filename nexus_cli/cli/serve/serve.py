"""`nexus serve`: agents for other programs, by JSON-RPC over HTTP on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.opened_ledger import open_ledger
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.serve.serve_once import ServeOnceReport, serve_once
from nexus_cli.commands.verb import Authority, Noun, Source, Verb
from nexus_cli.config.paths import working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.option import Allow, Directory, Model, Option
from nexus_cli.provider.choose_model import choose_model


def serve(
    source: Source,
    host: Annotated[str, Option("ADDRESS", "Listen on ADDRESS.")] = "127.0.0.1",
    port: Annotated[int | None, Option("N", "Listen on port N; default: any free port.", least=0, most=65535)] = None,
    socket_path: Annotated[str, Option("PATH", "Listen on a socket file.", "--socket")] = "",
    model: Model = "",
    directory: Directory = "",
    allow: Allow = "",
    once: Annotated[
        bool,
        Option(
            None, "Run due work and exit, for cron and timers. Exit status 1 if a run failed, 3 if a limit stopped it."
        ),
    ] = False,
    until_eof: Annotated[bool, Option(None, "Exit when stdin closes, as when the parent process exits.")] = False,
    verbose: Annotated[bool, Option(None, "Log to stderr; always on at a terminal.", "--verbose -v")] = False,
) -> Annotated[int, ServeOnceReport] | Annotated[int, "cli.serve.run_server.ServeLine"]:
    """Serve agents to other programs: JSON-RPC 2.0 over HTTP, on this machine unless --host names another address.

    The server also starts scheduled runs, agents of spaces, waiting runs whose event occurred, and services (POST
    /trigger/NAME, each with its own token or secret). Clients send the token from the printed file with each request.
    SIGTERM stops the server: running turns finish their step and can be resumed.
    """
    allow = SharedOptions(allow=allow).allow
    if once:
        options = (socket_path, port is not None, host != "127.0.0.1", model, directory, allow, until_eof, verbose)
        if any(options):
            why = "does not start a server; schedules and services have their own model, folder and level"
            raise UsageError("--once", why, "Omit all other options except --json")
        block_imports_from(str(working_folder()))
        return serve_once(lambda: open_ledger("write"), json=source.is_json)
    if socket_path and (port is not None or host != "127.0.0.1"):
        raise UsageError("--socket and --host or --port", "cannot be used together", "Omit one of them")
    folder = working_folder(directory)
    block_imports_from(str(folder))
    settings = settings_in(folder)
    try:
        chosen = choose_model(model, settings).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
        source.say(f"{error.message}; each agent must specify its model")
    from nexus_cli.cli.serve.run_server import run_server  # noqa: PLC0415  (loads the engine)

    address = Path.cwd() / socket_path if socket_path else (host, port or 0)
    return run_server(
        folder, settings, chosen, allow, address, json=source.is_json, until_eof=until_eof, verbose=verbose
    )


NOUN = Noun("serve", "run", (Verb(serve, "", Authority.OPERATES, "nothing"),))
