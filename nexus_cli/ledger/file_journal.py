"""The journal of a session in a ledger file. When a commit fails, the session continues in memory.

The first failure in any lane is reported once. The session is then copied into a database in memory with the same keys
and ids, and all its lanes continue there, until the file takes what was recorded meanwhile: that is tried when a turn
begins or ends, and when the session is closed. With `require_save` the failure is raised instead. Over a ledger that is
only read everything is recorded in memory, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.shared_types import T
from nexus_cli.ledger import lanes, sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.known_notes import KnownNotes
from nexus_cli.ledger.lane_journal import SessionJournal, UnsavedCall
from nexus_cli.ledger.lane_log import LaneLog, Write
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
    _file: Database | None = None
    """The database of the file while the session continues in memory because the file failed."""
    _lanes: dict[int, int] = field(default_factory=dict)
    """By id of a lane that was opened in memory: its id in the file, which took it later."""

    in_memory = False
    """True once `db` is in memory."""
    # The lock is held while something is committed or a lane is cut: nothing is committed between a failure and the
    # copy, and what is committed in memory is not cut off.

    @property
    def is_saving(self) -> bool:
        """False once the ledger has failed, and if it is only read."""
        return not self.in_memory and super().is_saving

    def database_of(self, log: LaneLog) -> Database:
        if self.in_memory or self._lanes:
            with self._lock:
                log.lane = self._lanes.get(log.lane, log.lane)
                if self.in_memory and log.lane < LOCAL and log.lane not in self._cut:
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

    def record(self, log: LaneLog, name: str, values: tuple[Any, ...], write: Write) -> None:
        with self._lock:
            super().record(log, name, values, write)
            if self._file:
                self.unsaved.append(UnsavedCall(log.lane, name, values))

    def defer(self, log: LaneLog, defers: bool) -> None:
        super().defer(log, defers)
        self._return_to_file()

    def notes(self, log: LaneLog, kind: str) -> list[Memo]:
        with self._lock:
            db = self.database_of(log)
            version = db.data_version() or object(), db.noted
            if version != self._version:
                self.known_notes.add(self.known_notes.begin_later(db)())
                self._version = version
            return super().notes(log, kind)

    def close(self) -> None:
        self._return_to_file()
        if self.in_memory:
            self.db.close()

    def _fail_over(self, error: NexusError) -> None:
        """Continue in memory, and tell the person; raise with `require_save`, or if the error is none of the ledger."""
        problem = self._diagnose(error)
        if self.require_save or problem.kind != "ledger":
            raise problem from error
        self._file = self.db
        self._copy_to_memory()
        what = "later work" if problem is not error else "the session"
        lost = "is kept in memory only and will be lost on exit; in a chat, /export FILE saves a copy"
        again = "" if problem is not error else "; each turn tries to save it again"
        self.warn(f"{problem.message}; {what} {lost}{again}")

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
            memory.set_last_number("lanes", LOCAL + len(self._lanes))
        self.db, self.in_memory = memory, True
        self.known_notes = KnownNotes(self.main_lane, is_new=False)

    def _return_to_file(self) -> None:
        """Record in the file what was recorded in memory, and continue there; stay in memory if the file refuses it."""
        with self._lock, suppress(NexusError):
            if not (self._file and self._file.can_write()):
                return
            lanes_of_file = dict(self._lanes)
            with self._file.write():
                for call in self.unsaved:
                    lane = self._find_lane(call.lane, self._file, lanes_of_file)
                    replace(call, lane=lane).record(self._file, self.session, was_tried=True)
                for (lane,) in self.db.all("SELECT id FROM lanes WHERE id > ? ORDER BY id", LOCAL + len(self._lanes)):
                    self._find_lane(lane, self._file, lanes_of_file)
            self._lanes, self.db, self._file = lanes_of_file, self._file, None
            self.in_memory, self.has_past, self._version = False, True, None
            self.known_notes = KnownNotes(self.main_lane, is_new=False)
            self._cut.clear()
            self.unsaved.clear()
            self.warn("the ledger can be written again: the whole session is saved")

    def _find_lane(self, lane: int, file: Database, known: dict[int, int]) -> int:
        """Return the id of a lane in the file; open it there if it was opened in memory and is not `known`."""
        if lane > LOCAL and lane not in known:
            row = self.db.all("SELECT agent, recipe, parent, parent_entry FROM lanes WHERE id = ?", lane)[0]
            agent, recipe, parent, entry = row
            parent = parent and self._find_lane(parent, file, known)
            key = sessions.key_of(file, self.session)
            known[lane] = lanes.open_lane(file, key, agent, recipe, parent, entry)
        return known.get(lane, lane)
