"""`nexus sessions list | show | search | export | stop | fork | rename | delete`: the sessions in the ledger."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, refuse_empty, whole_number, working_folder
from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.export import Format, Output, Page, Raw, write_export
from nexus_cli.cli.print_report import print_report, print_text
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.paths import places
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.ledger import SessionInfo
from nexus_cli.reports import sessions as reports
from nexus_cli.reports.export import HTML
from nexus_cli.reports.running import running_report, running_text, stop_running
from nexus_cli.reports.sessions import describe_more_sessions, search_text, session_text, sessions_text
from nexus_cli.session.undo_files import fork_session
from nexus_cli.ui.print.stream import write_stderr_line
from nexus_cli.undo.retention import forget_session

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Sessions in the ledger.")
LISTED = 50
"""Default number of listed sessions."""
Key = Annotated[str, typer.Argument(metavar="ID", help="Id, its start or end, or name.")]


@app.callback()
def sessions() -> None:
    """List, read, export, stop, fork, rename and delete sessions."""


@app.command("list")
def list_sessions(
    everywhere: Annotated[bool, typer.Option("--all", help="Those of every folder, and runs of nexus ask.")] = False,
    limit: Annotated[
        int, typer.Option(callback=whole_number(), metavar="N", help="Show at most this many, newest first.")
    ] = LISTED,
    worktree: Annotated[
        str,
        typer.Option(metavar="NAME", help="Those of this project in the worktree of this name.", callback=refuse_empty),
    ] = "",
    running: Annotated[
        bool, typer.Option("--running", help="All that runs, waits or asks now, in any terminal and folder.")
    ] = False,
    json: Json = False,
) -> int:
    """List the sessions of this folder, the newest first. Runs of nexus ask are kept apart."""
    folder, ledger = working_folder(), open_ledger()
    if running:
        return print_report(running_report(ledger), running_text, json=json)
    if worktree:
        project = None if everywhere else ledger.project_of(folder)
        value = reports.list_in_worktree(ledger, project, worktree, limit)
    else:
        value = reports.list_sessions(ledger, None if everywhere else str(folder), limit)
    print_report(value, sessions_text, json=json, whole=True)
    if limit == LISTED and not json and not os.isatty(1) and (more := describe_more_sessions(value)):
        write_stderr_line(f"nexus: {more}")
    return 0


@app.command("show")
def show_session(key: Key, json: Json = False) -> int:
    """Print what happened in a session."""
    ledger = open_ledger()
    value = reports.show_session(ledger, ledger.find_session(key).id)
    return print_report(value, session_text, json=json, whole=True)


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Plain text to search for; case is ignored.")],
    everywhere: Annotated[bool, typer.Option("--all", help="Sessions of every folder.")] = False,
    limit: Annotated[
        int, typer.Option(callback=whole_number(), metavar="N", help="Show at most this many matches.")
    ] = 20,
    json: Json = False,
) -> int:
    """Search what was said and done in the sessions of this folder, newest first."""
    folder = None if everywhere else str(working_folder())
    value = reports.search_sessions(open_ledger(), replace_surrogates(text), folder, limit)
    return print_report(value, search_text, json=json)


@app.command("export")
def export(key: Key, form: Format = "", html: Page = False, raw: Raw = False, output: Output = "") -> int:
    """Write a whole session as Markdown, as JSON Lines, as a page, or as Claude Code keeps it. See nexus export."""
    return write_export(key, HTML if html and not form else form, output, raw=raw)


@app.command("stop")
def stop(
    key: Annotated[str, typer.Argument(metavar="ID", help="Id or name of a session, or a run such as run-3.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Stop a session that is open in another terminal, or cancel a run. Completed steps are kept.

    The process of the session gets SIGTERM: it stops the turn, saves and ends.
    """
    if key.startswith("run-"):
        from nexus_cli.cli.twins import make_source  # noqa: PLC0415
        from nexus_cli.commands.runs import cancel_run  # noqa: PLC0415
        from nexus_cli.reports.runs import run_text  # noqa: PLC0415

        return print_report(cancel_run(make_source(open_ledger(writes=True)), key).value, run_text, json=False)
    ledger = open_ledger()
    session = ledger.find_session(key).id
    owner = stop_running(ledger, session)
    named = " ".join(filter(None, (f"nexus {owner.command}".rstrip(), owner.terminal)))
    if not yes:
        if not can_confirm():
            raise NexusError("usage", f"session {session}", f"it would end {named}, process {owner.pid}", "Add --yes")
        if not confirm(f"End {named}, process {owner.pid}? Completed steps are kept."):
            return 0
    if not ledger.end_owner(session, owner):
        raise NexusError("usage", f"session {session}", "it has just been closed", "nexus sessions list --running")
    write_stderr_line(f"nexus: process {owner.pid} was told to end.")
    return 0


@app.command("fork")
def fork(key: Key, name: Annotated[str, typer.Option("--name", help="Name of the new session.")] = "") -> int:
    """Copy a session as it is now into a new one, and print its id."""
    ledger = open_ledger(writes=True)
    made = fork_session(ledger, ledger.find_session(key).id, name=name)
    ledger.close()
    print_text(made.id)
    return 0


@app.command("rename")
def rename(key: Key, name: Annotated[str, typer.Argument(help="The new name.")]) -> int:
    """Name a session; --resume finds it by that name."""
    ledger = open_ledger(writes=True)
    ledger.rename_session(ledger.find_session(key).id, name)
    ledger.close()
    return 0


@app.command("delete")
def delete(
    key: Key, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask in a terminal.")] = False
) -> int:
    """Delete a session and everything that no other session uses. This cannot be undone."""
    ledger = open_ledger(writes=True)
    info = ledger.find_session(key)
    if not yes and can_confirm() and not _sure(info):
        write_stderr_line("nexus: nothing was deleted.")
        return 0
    if not ledger.lock(info.id):
        raise NexusError("usage", f"session {info.id}", "it is open in another process", "End that one first")
    freed = ledger.delete_session(info.id)
    ledger.close()
    forget_session(places().data, info.id)
    write_stderr_line(f"nexus: deleted session {info.id}, {freed:,} bytes freed.")
    return 0


def _sure(info: SessionInfo) -> bool:
    name = f' "{info.name}"' if info.name else ""
    return confirm(f"Delete session {info.id}{name} with {plural(info.entries, 'entry', 'entries')} for good?")
