"""`nexus undo`: take back what a turn of a session did to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, refuse_empty, whole_number
from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.config.paths import working_folder
from nexus_cli.reports.undo import UNSURE_QUESTION, describe_unsure, undo_text
from nexus_cli.session.settle_projects import settle_projects
from nexus_cli.session.undo_files import open_undo, restore_files
from nexus_cli.ui.print.progress_bar import progress_bar
from nexus_cli.ui.print.stream import write_stderr_line
from nexus_cli.undo.undo_turn import find_unsure

app = typer.Typer(add_completion=False, rich_markup_mode=None)
Paths = Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="Only these files and folders.")]
Turn = Annotated[
    int | None,
    typer.Option(metavar="N", callback=whole_number(), help="Number of the message; default: the newest with changes."),
]
Worked = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        callback=refuse_empty,
        help="Session (id or name), run-N, or worktree-NAME once applied; default: the newest session of this folder.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would be done.")]


Everything = Annotated[bool, typer.Option("--all", help="Also what may be yours: it changed while a command ran.")]


@app.command("undo")
def undo(
    path: Paths = None,
    session: Worked = "",
    turn: Turn = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Take back what a turn did to files: edits, and what its commands changed, moved and deleted.

    What you changed since stays: merged where that works, else the earlier version is put beside it (NAME.nexus-undo),
    and the exit status is 1. Again goes further back. Branches, tags, stashes and the index of git go back too, unless
    they moved on. What changed while a command ran and was not named by it may be yours: you are asked, and without a
    terminal it stays.
    """
    return run_undo(session, turn, path or [], dry_run=dry_run, json=json, takes_unsure=everything)


def settle(project: str) -> None:
    """Settle what a killed process left in a project, and print what that changed. Raises `NexusError`."""
    for line in settle_projects([Path(project)]):
        write_stderr_line(f"nexus: {line}")


def run_undo(
    session: str,
    turn: int | None,
    paths: list[str],
    *,
    dry_run: bool,
    json: bool,
    redo: bool = False,
    takes_unsure: bool = False,
) -> int:
    """Undo or redo in a session that the person names, and print the report; return the exit status."""
    ledger = open_ledger(writes=not dry_run)
    key = session or find_session_id(ledger, "")
    log, request = open_undo(ledger, key, working_folder(), turn=turn, paths=paths, dry_run=dry_run)
    settle(request.project)
    if not (redo or dry_run or takes_unsure) and can_confirm() and (unsure := find_unsure(request)):
        takes_unsure = confirm(f"{describe_unsure(unsure, request.project)} {UNSURE_QUESTION}")
    request = replace(request, takes_unsure=takes_unsure)
    with progress_bar("redoing" if redo else "undoing"):
        value = restore_files(log, request, redo=redo)
    ledger.close()
    print_report(value, undo_text, json=json, whole=True)
    return 1 if value["kept"] or value["not_covered"] else 0
