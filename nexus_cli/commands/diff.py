"""Show what changed in files: in a turn, or since the last commit."""

from __future__ import annotations

from nexus_cli.commands.undo import Paths, Turn, open_undo
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.reports.diff import DiffReport, SessionChanges, diff_report, folder_diff


def build_diff(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport]:
    """Show changes to files as a diff.

    The diff is that of the newest turn with changes, or of turn N with `--turn N`. For the changes to tracked
    files since the last commit: `git diff HEAD`.
    """
    from nexus_cli.reports.undo import turn_diff  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import is_undone  # noqa: PLC0415

    request = open_undo(source, path, turn)[1]
    shown, text, unread = turn_diff(request)
    value: DiffReport = {"version": 1, "turn": shown, **diff_report(text, unread=unread)}
    if not text and not unread:
        none = f"no changes to files are recorded for {f'turn {turn}' if turn else 'this session'}"
        return Report("", value, note=f"{none}{' at this path' if path else ''}.")
    undone = shown is not None and is_undone(request, shown)
    return Report("diff", value, note=f"turn {shown} was undone." if undone else "")


def show_changes(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport | SessionChanges]:
    """Show changes to files as a diff.

    With N, the number of a turn, the diff is that of this turn; with PATH, only of changes to PATH. With neither, it is
    the diff of the working folder, including untracked files; without git, the files that the session changed are
    listed.
    """
    if path or turn is not None:
        return build_diff(source, path, turn)
    return Report("diff", folder_diff(source.folder(), source.ledger, source.session()))


NOUN = Noun(
    "diff",
    "run",
    (Verb(show_changes, only="slash"), Verb(build_diff, of_session=True, only="shell")),
    is_first=True,
)
