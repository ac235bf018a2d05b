"""The committed notes of a session's main lane in memory: each kind is read once, later notes as they may be there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nexus_cli.core.entry import Memo
from nexus_cli.core.memo_kinds import OPENING_KINDS
from nexus_cli.ledger import lanes
from nexus_cli.ledger.database import Database

_OVERLAP, _OVERLAP_OF_TURN = 32, 10_000
"""Notes of the whole ledger before the newest that are read again, with a commit and as a turn begins: a transaction
may commit after a later one."""


class KnownNotes:
    """The committed notes of one lane, by kind, as far as they were asked for."""

    def __init__(self, lane: int, *, is_new: bool) -> None:
        """Initialize; nothing is asked if the lane `is_new`, which has no notes."""
        self._lane = lane
        self.is_fresh = True
        """True if the notes of other processes were read in this turn, or there is none that they could add to."""
        self._newest = 0
        """Key of a note up to which none of another process can be missing, in any kind that is known."""
        self._is_new = is_new
        self._notes: dict[str, dict[int, Memo]] = {}
        """By kind: of a new lane all of them, else those that were asked for."""

    def has(self, kind: str) -> bool:
        """True if the notes of a kind are known."""
        return self._is_new or kind in self._notes

    def of_kind(self, db: Database, kind: str) -> list[Memo]:
        """Return the notes of a kind, also later ones; read those that were not read yet."""
        if not self.has(kind):
            kinds = OPENING_KINDS if kind in OPENING_KINDS else (kind,)
            notes = lanes.notes(db, self._lane, kinds)
            if not self._notes:
                self._newest = max(notes, default=0)
            self._notes.update({memo_kind: {} for memo_kind in kinds})
            for key, memo in notes.items():
                self._notes[memo.kind][key] = memo
        return [*self._notes.get(kind, {}).values()]

    def begin_later(self, db: Database) -> Callable[[], dict[int, Memo]]:
        """Begin to read the notes that others may have made; on a server inside a transaction."""
        if not self._notes and not self._is_new:
            return dict
        overlap = _OVERLAP if self.is_fresh else _OVERLAP_OF_TURN
        behind = max(0, self._newest - overlap * db.is_shared)
        return lanes.begin_later_notes(db, self._lane, behind, () if self._is_new else tuple(self._notes))

    def add(self, notes: Mapping[int, Memo]) -> None:
        """Add the notes that `begin_later` has read, by key."""
        self.add_own(notes)
        self._newest = max(self._newest, *notes, 0)
        self.is_fresh = True

    def add_own(self, notes: Mapping[int, Memo]) -> None:
        """Add notes that were committed here, by key. Older ones of other processes may be read only later, and these
        again with them: that puts all in order."""
        for key, memo in notes.items():
            if self.has(memo.kind):
                by_key = self._notes.setdefault(memo.kind, {})
                by_key.pop(key, None)
                by_key[key] = memo
