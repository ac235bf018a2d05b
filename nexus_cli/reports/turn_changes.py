"""Count the files and lines that the turns of a session changed, as a person reads them: `3 files (+41 -7)`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.turn_diff import change_text
from nexus_cli.session.session import Session
from nexus_cli.text.diff_lines import count_lines, parse_diff
from nexus_cli.tree.file_state import FILE
from nexus_cli.undo.follow_changes import settle_killed
from nexus_cli.undo.read_content import ContentReader
from nexus_cli.undo.records import FileChange
from nexus_cli.undo.rewind_turns import TurnChanges, changes_by_turn

COUNTING = 0.3
"""Most seconds in which the changed lines of a turn are counted at its end."""
MOST = 300
"""Most files of a turn whose lines are counted."""


@dataclass(frozen=True, slots=True)
class TurnCount:
    """The changes of one turn, in figures."""

    files: int
    lines: tuple[int, int] | None
    """Added and removed lines; None if they were not counted, or no file has lines."""
    in_force: bool
    was_killed: bool
    is_kept: bool
    """False if the earlier content of a file was not kept, so that an undo leaves that file."""

    @property
    def text(self) -> str:
        """The figures for a person."""
        if not self.files and self.was_killed:
            return "nexus was killed"
        count = plural(self.files, "file") if self.files else "git"
        if not self.in_force:
            return f"{count}, undone"
        lines = f" (+{self.lines[0]:,} -{self.lines[1]:,})" if self.lines else ""
        return f"{count}{lines}{', nexus was killed' * self.was_killed}"

    def offer_undo(self, turn: int) -> str:
        """Return the figures of the newest turn, with what /undo needs or cannot do."""
        if not self.is_kept:
            return f"{self.text}; /undo {turn} cannot restore files whose earlier content was not kept"
        return f"{self.text}: /undo {turn} to revert" if self.was_killed else self.text


def count_turns(data: Path, session: str, seconds: float) -> dict[int, TurnCount]:
    """Count what each turn changed, the newest first, also in killed processes; lines for at most `seconds`."""
    with suppress(OSError, ValueError):
        settle_killed(data, session)
    end, turns = time.monotonic() + seconds, changes_by_turn(data, session)
    with ContentReader(data) as reader:
        return {turn: _count(turns[turn], reader, end) for turn in sorted(turns, reverse=True)}


def count_turn(data: Path, session: str, turn: int, seconds: float) -> TurnCount | None:
    """Count what one turn changed, lines for at most `seconds`; None if nothing of it is in force."""
    turn_changes = changes_by_turn(data, session).get(turn)
    if turn_changes is None or not turn_changes.in_force:
        return None
    with ContentReader(data) as reader:
        return _count(turn_changes, reader, time.monotonic() + seconds)


def count_newest_turn(session: Session) -> str:
    """Return the files and lines that the newest turn changed and /undo would take back; "" if unknown. Blocks.

    Of a turn in which nexus was killed, name the command: /undo takes that turn back only by its number.
    """
    try:
        turn = session.record.count_turns()
        count = count_turn(places().data, session.id, turn, COUNTING)
    except (OSError, ValueError, NexusError):
        return ""
    return count.offer_undo(turn) if count else ""


def _count(turn: TurnChanges, reader: ContentReader, end: float) -> TurnCount:
    lines = _count_lines(turn.changes, reader, end) if len(turn.changes) <= MOST else None
    files = sum(not change.is_whole_folder for change in turn.changes) or len(turn.changes)
    is_kept = all(path_change.before.kind != FILE or path_change.before.content for path_change in turn.changes)
    return TurnCount(files, lines, turn.in_force, turn.was_killed, is_kept)


def _count_lines(changes: Iterable[FileChange], reader: ContentReader, end: float) -> tuple[int, int] | None:
    """Return the added and removed lines, None if there are none or the time is up."""
    added = removed = 0
    for change in changes:
        if time.monotonic() > end:
            return None
        more, less = count_lines(parse_diff(change_text(change, "a", reader)))
        added, removed = added + more, removed + less
    return (added, removed) if added or removed else None
