"""Show what changed in files: in a turn, or since the last commit."""

from __future__ import annotations

from typing import Any

from nexus_cli.commands.undo import Paths, Turn, open_undo
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.reports.diff import DiffReport, diff_report, folder_diff


def build_diff(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport]:
    """Show changes to files as a diff.

    With N, the number of a message, it shows the changes of that turn, or only those to PATH. In a session, without
    both, it shows the diff of the working folder, including untracked files; without git it lists the files that the
    session changed. In a shell `git diff` shows all changes since the last commit.
    """
    from nexus_cli.reports.undo import turn_diff  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import is_undone  # noqa: PLC0415

    if source.live and not path and turn is None:
        value: Any = folder_diff(source.folder(), source.ledger, source.session())
        return Report("diff", value)
    request = open_undo(source, path, turn)[1]
    shown, text, unread = turn_diff(request)
    value = {"version": 1, "turn": shown, **diff_report(text, unread=unread)}
    if not text and not unread:
        none = f"no changes to files are recorded for {f'turn {turn}' if turn else 'this session'}"
        return Report("", value, note=f"{none}{' at this path' if path else ''}.")
    undone = shown is not None and is_undone(request, shown)
    return Report("diff", value, note=f"turn {shown} was undone." if undone else "")


NOUN = Noun(
    "diff",
    "run",
    (Verb(build_diff, places=("slash",)), Verb(build_diff, of_session=True, places=("shell",))),
    is_first=True,
)
