"""Show what changed in files: in a turn, or since the last commit."""

from __future__ import annotations

from nexus_cli.commands.undo import Paths, Turn, open_undo
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.reports.diff import DiffReport, SessionChanges, diff_report, folder_diff


def show_changes(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport | SessionChanges]:
    """Show changes to files as a diff.

    By default the diff shows the newest turn with changes; N selects a turn, and PATH limits the diff to some files. In
    a session, without N and PATH, it shows all changes in the working folder, including untracked files; without git,
    it lists the files that the session changed. In a shell, `git diff HEAD` shows the changes since the last commit.
    """
    if source.live and not path and turn is None:
        return Report("diff", folder_diff(source.folder(), source.ledger, source.session()))
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


NOUN = Noun("diff", "run", (Verb(show_changes, of_session=True),), aliases=("change",), is_first=True)
