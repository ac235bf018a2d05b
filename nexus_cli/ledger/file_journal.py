"""The journal of a session in a ledger file. When a commit fails, the session continues in memory.

The first failure in any lane is reported once. The session is then copied into a database in memory with the same keys
and ids, and all its lanes continue there. With `require_save` the failure is raised instead. Over a ledger that is only
read everything is recorded in memory, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.shared_types import T
from nexus_cli.ledger import sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.known_notes import KnownNotes
from nexus_cli.ledger.lane_journal import SessionJournal
from nexus_cli.ledger.lane_log import LaneLog
from nexus_cli.ledger.open_database import connect_memory

LOCAL = 1 << 40
"""Lanes that are opened in memory have higher ids than any lane of the ledger."""


@dataclass(eq=False)
class FileJournal(SessionJournal):
    """A journal that continues in memory when a commit to a file fails."""

    _cut: set[int] = field(default_factory=set)
    """The lanes that end in memory at their own last entry."""
    _version: object = None
    """The version of the ledger whose notes are known."""

    in_memory = False
    """True once `db` is in memory."""
    # The lock is held while something is committed or a lane is cut: nothing is committed between a failure and the
    # copy, and what is committed in memory is not cut off.

    @property
    def is_saving(self) -> bool:
        """False once the ledger has failed, and if it is only read."""
        return not self.in_memory and super().is_saving

    def database_of(self, log: LaneLog) -> Database:
        if self.in_memory:
            with self._lock:
                if log.lane < LOCAL and log.lane not in self._cut:
                    from nexus_cli.ledger.memory_copy import cut_lane  # noqa: PLC0415  (as below)

                    cut_lane(self.db, self.session, log.lane, log.last_id())
                    self._cut.add(log.lane)
        return self.db

    def commit(self, log: LaneLog, write: Callable[[Database], T]) -> T:
        with self._lock:
            if self.is_saving:
                try:
                    return super().commit(log, write)
                except NexusError as error:
                    self._fail_over(error)
            elif not self.in_memory:
                self._copy_to_memory()
            return super().commit(log, write)

    def notes(self, log: LaneLog, kind: str) -> list[Memo]:
        with self._lock:
            db = self.database_of(log)
            version = db.data_version() or object(), db.noted
            if version != self._version:
                self.known_notes.add(self.known_notes.begin_later(db)())
                self._version = version
            return super().notes(log, kind)

    def close(self) -> None:
        if self.in_memory:
            self.db.close()

    def _fail_over(self, error: NexusError) -> None:
        """Continue in memory, and tell the person; raise with `require_save`, or if the error is none of the ledger."""
        problem = self._diagnose(error)
        if self.require_save or problem.kind != "ledger":
            raise problem from error
        self._copy_to_memory()
        what = "later work" if problem is not error else "the session"
        lost = "is kept in memory only and will be lost on exit; in a chat, /export FILE saves a copy"
        self.warn(f"{problem.message}; {what} {lost}")

    def _diagnose(self, error: NexusError) -> NexusError:
        """Return `error`, or a clearer one if the session was deleted, which shows in many ways."""
        try:
            sessions.info(self.db, self.session)
        except NexusError as missing:
            if missing.kind == "usage":
                return NexusError(
                    "ledger",
                    "the saved session does not exist",
                    "it was deleted by another process",
                    "Start a new session",
                )
        return error

    def _copy_to_memory(self) -> None:
        from nexus_cli.ledger.memory_copy import copy_session, make_empty_session  # noqa: PLC0415  (the ledger failed)

        memory = Database(connect_memory())
        try:
            copy_session(self.db, memory, self.session)
        except NexusError:
            memory.close()
            memory = Database(connect_memory())
            make_empty_session(memory, self.session, self.known.drops, self.known.epochs)
            self.has_past = False
        with memory.write():
            memory.set_last_number("lanes", LOCAL)
        self.db, self.in_memory = memory, True
        self.known_notes = KnownNotes(self.main_lane, is_new=False)
