"""`nexus diff`: show what a turn of a session changed in files."""

from __future__ import annotations

import os

import typer

from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.cli.undo import Paths, Turn, Worked, settle
from nexus_cli.config.paths import working_folder
from nexus_cli.core.elide import plural
from nexus_cli.reports.undo import turn_diff
from nexus_cli.session.undo_files import open_undo
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Stream, write_stderr_line
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.render.unified_diff import diff_lines

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("diff")
def diff(path: Paths = None, session: Worked = "", turn: Turn = None) -> int:
    """Show what a turn changed in files, as a diff. `git diff` shows all that changed since the last commit."""
    ledger = open_ledger()
    key = session or find_session_id(ledger, "")
    request = open_undo(ledger, key, working_folder(), turn=turn, paths=path or [])[1]
    settle(request.project)
    value = turn_diff(request)
    if value["turn"] is None or not (value["text"] or value["unread"]):
        write_stderr_line(
            "nexus: no turn of this session changed a file." if turn is None else f"nexus: turn {turn} changed no file."
        )
        return 0
    stream = Stream(1)
    if stream.colour:
        theme = choose_theme("auto", os.environ, stream.colour)
        stream.write("".join(f"{line}\n" for line in diff_lines(value["text"], stream.width, theme, names=True)))
    else:
        stream.write(sanitize(value["text"]) if stream.terminal else value["text"])
    if value["unread"]:
        names = ", ".join(value["unread"])
        write_stderr_line(f"nexus: {plural(len(value['unread']), 'file')} not shown, large or not text: {names}")
    return 0
