"""The committed notes of a session's main lane on a server: each kind is read once, later notes with each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nexus_cli.core.entry import Memo
from nexus_cli.ledger import lanes
from nexus_cli.ledger.database import Database

_OVERLAP, _OVERLAP_OF_TURN = 32, 10_000
"""Notes of the whole ledger before the newest that are read again, with a commit and as a turn begins: a transaction
may commit after a later one."""


class KnownNotes:
    """The committed notes of one lane, by kind, as far as they were asked for."""

    def __init__(self, db: Database, lane: int, *, is_new: bool) -> None:
        """Initialize; nothing is asked if the lane `is_new`, which has no notes."""
        self._lane = lane
        self.is_fresh = False
        """True if the notes of other processes were read in this turn."""
        self._newest = 0 if is_new else lanes.newest_note(db, lane)
        self._is_new = is_new
        self._notes: dict[str, dict[int, Memo]] = {}
        """By kind: of a new lane all of them, else those that were asked for."""

    def of_kind(self, kind: str, read: Callable[[], dict[int, Memo]]) -> Iterable[Memo]:
        """Return the notes of a kind, also later ones; `read` reads those that were not read yet."""
        if kind not in self._notes:
            self._notes.setdefault(kind, {} if self._is_new else read())
        return self._notes[kind].values()

    def begin_later(self, db: Database) -> Callable[[], dict[int, Memo]]:
        """Begin to read the notes that other processes may have made; inside a transaction."""
        overlap = _OVERLAP if self.is_fresh else _OVERLAP_OF_TURN
        return lanes.begin_later_notes(db, self._lane, max(0, self._newest - overlap))

    def add(self, found: Mapping[int, Memo]) -> None:
        """Add notes that were committed, by key."""
        for key, memo in found.items():
            if self._is_new or memo.kind in self._notes:
                self._notes.setdefault(memo.kind, {})[key] = memo
        self._newest = max(self._newest, *found, 0)
        self.is_fresh = True
