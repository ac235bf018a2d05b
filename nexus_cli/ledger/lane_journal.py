"""The commits of the records of a live session's lanes.

`file_journal` and `server_journal` commit, and handle a failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from weakref import WeakSet

from nexus_cli.core.entry import Memo
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.known_notes import KnownNotes
from nexus_cli.ledger.lane_log import Journal, LaneLog
from nexus_cli.ledger.lane_state import LaneState

is_for_screen: ContextVar[bool] = ContextVar("is_for_screen", default=False)
"""True while the figures of a status line are read: in a turn, nothing may wait for a server then."""


@dataclass(eq=False)
class SessionJournal(Journal):
    """Commits what the lanes of a live session record."""

    session: str
    lane_state: LaneState
    require_save: bool
    """True if a failed commit is to be raised."""
    warn: TakeText
    main_lane: int
    logs: WeakSet[LaneLog] = field(default_factory=WeakSet, init=False)
    """The logs of the lanes, while they are in use."""
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    """Held while what is known or waits to be committed changes."""

    defers = False
    """True while a turn or an act runs, which calls `save` where something has to be committed."""

    is_away = False
    """True once the person was told that the ledger's server is away, until it answers."""

    def __post_init__(self) -> None:
        self.known_notes = KnownNotes(self.main_lane, is_new=self.lane_state.is_new)

    def files_version(self) -> object:
        """Return a value that changes whenever somebody may have noted a file."""
        return self.db.data_version() or object(), self.db.files_noted

    @property
    def is_saving(self) -> bool:
        """False if another process cannot resume the session."""
        return self.db.writes

    def defer(self, log: LaneLog, defers: bool) -> None:
        """Begin or end a turn or an act."""
        self.defers = defers

    def notes(self, kind: str) -> list[Memo]:
        """Return the notes of the main lane of one kind; what others have noted since was read before."""
        with self._lock:
            return self.known_notes.of_kind(self.db, kind)

    def figure(self, begin: Callable[[Database, str], Callable[[], T]]) -> T:
        """Return a figure of the session: what the function that `begin` returns reads."""
        return begin(self.db, self.session)()

    def close(self) -> None:
        """Commit what was put off, and close what the journal has opened."""
