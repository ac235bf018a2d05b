"""The journal of a session in a ledger file. When a commit fails, the session continues in memory.

The first failure in any lane is reported once. The session is then copied into a database in memory with the same keys
and ids, and all its lanes continue there. What is committed in memory waits for the file: a later commit and `close`
try to commit all of it there in one transaction, and the session continues in the file. With `require_save` the failure
is raised instead. Over a ledger that is only read everything is recorded in memory, without a warning.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.shared_types import T
from nexus_cli.ledger import lanes, sessions
from nexus_cli.ledger.database import Database, Query
from nexus_cli.ledger.known_notes import KnownNotes
from nexus_cli.ledger.lane_journal import SessionJournal
from nexus_cli.ledger.open_database import connect_memory

RETRY_SECONDS = 5.0
"""Least seconds between two attempts to return to the file. After a slow attempt they are ten times its own."""


@dataclass(eq=False)
class FileJournal(SessionJournal):
    """A journal that continues in memory while commits to a file fail."""

    _file: Database | None = None
    """The file, while it may still take what waits."""
    _retry_at = 0.0
    """The time from which a commit tries to return to the file."""
    _waiting: list[tuple[Callable[[Database], object], object]] = field(default_factory=list)
    """What was committed in memory and is not in the file: each call, and the id of the lane that it opened, if it did.
    """
    _deferred_statements: list[Query] = field(default_factory=list)
    """The statements that ran in memory with these commits."""

    _version: object = None
    """The version of the ledger whose notes are known."""
    _own_notes = 0
    """The number of notes that are known because they were committed here."""

    in_memory = False
    """True while `db` is in memory."""
    # The lock is held while something is committed: nothing is committed between a failure and the copy, which ends
    # each lane at the entry that its log has counted last.

    def recording(self) -> AbstractContextManager[object]:
        return self._lock

    @property
    def is_saving(self) -> bool:
        """False while the ledger fails, and if it is only read."""
        return not self.in_memory and self.db.writes

    def commit(self, write: Callable[[Database], T]) -> T:
        with self._lock:
            if time.monotonic() >= self._retry_at:
                self._return_to_file()
            if self.is_saving:
                try:
                    return self._commit(write)
                except NexusError as error:
                    self._fail_over(error)
            elif not self.in_memory:
                self._continue_in_memory()
            put_off = tuple(self.db.pending)
            result = self._commit(write)
            if self._file:
                self._waiting.append((write, result))
                self._deferred_statements += put_off
            return result

    def _commit(self, write: Callable[[Database], T]) -> T:
        """Run `write` in one transaction. Its notes of the main lane are known then, and not read back."""
        with self.db.write():
            result = write(self.db)
            notes = lanes.new_notes(self.db, self.main_lane)
        self.known_notes.add_own(notes)
        self._own_notes += len(notes)
        return result

    def notes(self, kind: str) -> list[Memo]:
        with self._lock:
            version = self.db.data_version() or object(), self.db.noted - self._own_notes
            if version != self._version:
                self.known_notes.add(self.known_notes.begin_later(self.db)())
                self._version = version
            return self.known_notes.of_kind(self.db, kind)

    def close(self) -> None:
        self._return_to_file(waits=True)
        if self._file:
            self._file.unsaved.pop(self.session, None)
        if self.in_memory:
            self.db.close()

    def _fail_over(self, error: NexusError) -> None:
        """Continue in memory, and tell the person; raise with `require_save`, or if the error is none of the ledger."""
        problem, subject = error, "the session"
        try:
            sessions.info(self.db, self.session)
        except NexusError as missing:
            if missing.kind == "usage":  # it was deleted, which shows in many ways
                problem, subject = lanes.missing_session(), "later work"
        if self.require_save or problem.kind != "ledger":
            raise problem from error
        file = self.db
        self._continue_in_memory()
        if self.has_past:  # nothing is added to a file that cannot be read
            self._file = file
            file.unsaved[self.session] = self._return_to_file
        self._retry_at = time.monotonic() + RETRY_SECONDS
        unless = ", unless the ledger can be written by then" if self._file else ""
        lost = f"is kept in memory only and will be lost on exit{unless}"
        self.warn(f"{problem.message}; {subject} {lost}; /export FILE saves a copy of an open chat")

    def _continue_in_memory(self) -> None:
        from nexus_cli.ledger import memory_copy  # noqa: PLC0415  (the ledger failed)

        memory = Database(connect_memory())
        try:
            memory_copy.copy_session(self.db, memory, self.session)
        except NexusError:
            memory_copy.make_empty_session(memory, self.session, self.lane_state.drops, self.lane_state.epochs)
            self.has_past = False
        with memory.write():
            for log in self.logs:
                memory_copy.cut_lane(memory, self.session, log.lane, log.last_id())
            # Other sessions may open lanes, in the file and in memory, before these are in the file.
            memory.set_last_number("lanes", time.time_ns() // 1000)
        memory.most_pending = sys.maxsize  # a commit keeps them for the file
        self.in_memory = True
        self._use(memory)

    def _return_to_file(self, *, waits: bool = False) -> None:
        """Try to commit in the file what waits for it, and continue there; do nothing while another process writes
        unless it `waits`. The file refuses numbers that another process has used, and then all of it."""
        with self._lock:
            file, began = self._file, time.monotonic()
            if not file or (file.is_busy() and not waits):
                return
            try:
                with file.write():
                    for write, lane in self._waiting:
                        opened = write(file)
                        if lane is not None:
                            file.run("UPDATE lanes SET id = ? WHERE id = ?", lane, opened)
                    for query in self._deferred_statements:
                        file.run(*query)
            except Exception:  # whatever another process did to the session meanwhile leads to
                ended = time.monotonic()
                self._retry_at = ended + max(RETRY_SECONDS, 10 * (ended - began))
                return
            file.unsaved.pop(self.session, None)
            self._file, self.in_memory = None, False
            self._waiting.clear()
            self._deferred_statements.clear()
            self._use(file)
            self.warn("the ledger can be written again, and the entire session is saved")

    def _use(self, db: Database) -> None:
        db.pending += self.db.pending
        self.db.pending.clear()
        self.db, self._version = db, None
        self.known_notes = KnownNotes(self.main_lane, is_new=False)
