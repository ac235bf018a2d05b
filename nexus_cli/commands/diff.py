"""Show what changed in files: in a turn, or since the last commit."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import read_source, show_report
from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.undo import Paths, Turn, open_undo
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.json_value import DiffReport
from nexus_cli.reports.diff import folder_diff


def build_diff(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport]:
    """Show a turn's changes to files as a diff. `git diff` shows all changes since the last commit."""
    from nexus_cli.reports.undo import turn_diff  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import is_undone  # noqa: PLC0415

    request = open_undo(source, path, turn)[1]
    value = turn_diff(request)
    if not value["text"] and not value["unread"]:
        none = "no turn of this session changed a file." if turn is None else f"turn {turn} changed no file."
        return Report("diff", value, note=none)
    shown = value["turn"]
    undone = shown is not None and is_undone(request, shown)
    return Report("diff", value, note=f"turn {shown} was undone." if undone else "")


async def show_diff(context: CommandContext, path: Paths = None, turn: Turn = None) -> None:
    """Show changes since the last commit, or of a turn.

    Shows the diff of the working folder, including untracked files. Without git it lists the files that this session
    changed. With N, the number of a message, it shows the changes of that turn, or only those to PATH.
    """
    session = context.session
    if not path and turn is None:
        context.show("diff", await folder_diff(session.folder, session.ledger, session.id))
        return
    report = await asyncio.to_thread(build_diff, read_source(context), path, turn)
    if not report.value["text"] and not report.value["unread"]:
        raise usage_error(
            "diff", str(turn or ""), "no turn changed this path", "/diff N [PATH] shows the changes of turn N"
        )
    show_report(context, report)
    if report.note:
        context.say(report.note.capitalize())


NOUN = Noun(
    "diff",
    "run",
    (
        Verb(show_diff, places=("slash",)),
        Verb(build_diff, of_session=True, places=("shell",)),
    ),
    is_first=True,
)
