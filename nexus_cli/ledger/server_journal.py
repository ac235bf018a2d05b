"""The journal of a session in the ledger of a server.

While a turn runs, what is recorded waits in memory until `save`, which commits all of it in one transaction, in a
thread. If the server is away, `save` waits for it, and what could not be committed is in a file (`unsaved_entries`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.config.file_lock import FileLock
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import LedgerAwayError, NexusError, reason_of
from nexus_cli.core.shared_types import T
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_journal import SessionJournal, is_for_screen
from nexus_cli.ledger.lane_log import LaneLog, Write
from nexus_cli.ledger.unsaved_entries import UnsavedCall, create_file, format_line, record_calls

RETRY_SECONDS = 1.0
"""Seconds between two attempts to reach a server that is away."""
_FRESH_SECONDS = 1.0
"""Seconds for which the notes that were read are taken for all there are, outside of a turn and as the first begins."""
_LONG_WAIT, _SHORT_WAIT, _END_WAIT = 40.0, 3.0, 1.5
"""Seconds to wait for an answer of the server: longer than its own limit of a statement; until the person is told; and
until a turn ends without the answer."""
_NOW = "waiting for the server (Ctrl+C to stop)"
_LATER = "unsaved entries are kept on this machine until the server responds"


@dataclass(eq=False)
class ServerJournal(SessionJournal):
    """A journal that commits the calls of a turn together, and waits for a server that is away."""

    url: str
    """The address of the server."""
    wait: float
    """Seconds for which the server is waited for."""
    _figures: dict[Any, Any] = field(default_factory=dict)
    """By what `figure` is called with for a status line: what the opening or the last commit found."""
    waiting: list[UnsavedCall] = field(default_factory=list)
    """What the server has not committed yet, in order."""
    _saving: threading.RLock = field(default_factory=threading.RLock)
    """Held while what waits is committed."""

    _was_tried = False
    """True if a commit of `waiting` failed: a part of it may have been recorded."""
    _turns = 0
    """The number of turns and acts that began."""
    _file: FileLock | None = None
    """The file with what waits for the server; `close` leaves it to the next command."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last_asked = time.monotonic()

    @property
    def is_saving(self) -> bool:
        """False if the server is away, and what waits for it cannot be kept in a file either."""
        return super().is_saving and not (self.is_away and self.waiting and not self._file)

    def current_db(self) -> Database:
        if self.waiting:
            self.commit_waiting()
        return self.db

    def record(self, log: LaneLog, name: str, values: tuple[Any, ...], write: Write) -> None:
        """Let a call wait for `save`; outside of a turn commit it at once, or keep it if the server is away."""
        call = UnsavedCall(log.lane, name, values)
        with self._lock:
            self.waiting.append(call)
            if self._file:
                self._write_file([call])
        self.db.unsaved[self.session] = self.commit_waiting  # of the log in use: an opening may fail behind its log
        try:
            if not self.defers:
                self.commit_waiting()
        except NexusError as error:
            if self.require_save or not isinstance(error, LedgerAwayError):
                self.waiting.remove(call)
                raise
            self._keep(error, _LATER)

    def defer(self, log: LaneLog, defers: bool) -> None:
        """See `Journal`. Meanwhile each kind of note is read once, and notes of other processes are read with each
        commit."""
        super().defer(log, defers)
        self._turns += defers
        is_first = self._turns == 1 and not self._is_old
        self.known_notes.is_fresh = is_first or not log.last_id()

    @property
    def _is_old(self) -> bool:
        """True if what was read may not be all there is any more; before its first turn nobody knows a new session."""
        is_known = self._turns > 0 or not self.lane_state.is_new
        return is_known and time.monotonic() - self._last_asked > _FRESH_SECONDS

    def files_version(self) -> object:
        """See `SessionJournal`; notes of other processes are read in each turn after the first."""
        return self._turns or 1, self.db.files_noted

    def notes(self, kind: str) -> list[Memo]:
        is_due = (self._is_old and not self.defers) or not self.known_notes.is_fresh
        if is_due and not (self.defers and is_for_screen.get() and self.known_notes.has(kind)):
            self.commit_waiting(is_asked=True)
        if not self.known_notes.has(kind):
            with self._holding_commits():  # of what waits a part may be committed
                self.commit_waiting()
                super().notes(kind)
        with self._lock:
            memos = super().notes(kind)
            waiting = (memo for call in self.waiting if call.lane == self.main_lane for memo in call.memos)
            return [*memos, *(memo for memo in waiting if memo.kind == kind)]

    def figure(self, begin: Callable[[Database, str], Callable[[], T]]) -> T:
        """See `SessionJournal`. Figures that a status line has shown are read again with each commit; while a turn
        runs, only then."""
        is_shown = is_for_screen.get()
        if not (is_shown and begin in self._figures):
            if self.waiting:
                self.commit_waiting()
            result = super().figure(begin)
            if is_shown:
                self._figures[begin] = result
            return result
        if self._is_old and not self.defers:
            self.commit_waiting(is_asked=True)
        value: T = self._figures[begin]
        return value

    def close(self) -> None:
        """Commit what waits, or leave it in a file."""
        try:
            self.commit_waiting()
        except NexusError as error:
            self._keep(error, _LATER)
        if self.db.unsaved.get(self.session) == self.commit_waiting:
            del self.db.unsaved[self.session]
        if self._file:
            self._file.release()

    # One transaction

    @contextmanager
    def _holding_commits(self) -> Iterator[None]:
        """Let no other thread commit what waits in the block; `LedgerAwayError` if one waits for the server."""
        if not self._saving.acquire(timeout=_SHORT_WAIT):
            raise LedgerAwayError("the ledger could not be written", "the server does not respond")
        try:
            yield
        finally:
            self._saving.release()

    def commit_waiting(self, *, is_asked: bool = False) -> None:
        """Commit what waits, or ask the server if it answers; raise `NexusError("ledger", ...)`.

        After a failed commit, which may have taken place, what was recorded is left out.
        """
        with self._holding_commits():
            batch = tuple(self.waiting)
            if not batch and not is_asked:
                return
            was_tried, self._was_tried = self._was_tried, True
            with self.db.write():
                record_calls(self.db, self.session, batch, was_tried=was_tried)
                read_notes = self.known_notes.begin_later(self.db)
                figures = {begin: begin(self.db, self.session) for begin in tuple(self._figures)}
            with self._lock:
                self._was_tried = self.is_away = False
                self._last_asked = time.monotonic()
                self.known_notes.add(read_notes())
                self._figures |= {begin: read() for begin, read in figures.items()}
                self.waiting[:] = [call for call in self.waiting if call not in batch]
                if not self.waiting:
                    self._remove_file()

    # A server that is away

    async def save(self, log: LaneLog, error: NexusError | None, *, waits: bool) -> bool:
        """See `Log`: commit what waits, and wait for a server that is away at most `wait` seconds. At the beginning of
        a turn also read what other processes noted."""
        if error is not None and not isinstance(error, LedgerAwayError):
            raise error
        deadline = time.monotonic() + self.wait
        is_asked = error is not None or (self.defers and not self.known_notes.is_fresh)
        has_waited = False
        try:
            while (self.waiting or is_asked) and (waits or not self.is_away):
                try:
                    await self._try_to_save(is_asked=is_asked, waits=waits)
                    return has_waited
                except LedgerAwayError as away:
                    self._keep(away, _NOW if waits else _LATER)
                    if not waits:
                        return True
                    if time.monotonic() >= deadline:
                        hint = "Resume the session when the server responds"
                        why = f"{away.why}; nexus retried for {self.wait:,.0f} s"
                        raise NexusError("ledger", away.what, why, hint) from away
                has_waited = True
                await asyncio.sleep(RETRY_SECONDS)
        except (asyncio.CancelledError, NexusError):
            self._take_back_starts(log)
            raise
        return has_waited

    async def _try_to_save(self, *, is_asked: bool, waits: bool) -> None:
        """Commit in a thread; raise `LedgerAwayError` if the server does not answer in time."""
        attempt = asyncio.ensure_future(asyncio.to_thread(self.commit_waiting, is_asked=is_asked))
        attempt.add_done_callback(
            lambda finished: finished.cancelled() or finished.exception()
        )  # perhaps nobody waits any more
        error = LedgerAwayError("the ledger could not be written", "the server does not respond")
        finished, _ = await asyncio.wait({attempt}, timeout=_SHORT_WAIT if waits else _END_WAIT)
        if waits and not finished:
            self._keep(error, _NOW)
            finished, _ = await asyncio.wait({attempt}, timeout=_LONG_WAIT)
        if not finished:
            self.db.abandon()
            raise error
        attempt.result()

    def _take_back_starts(self, log: LaneLog) -> None:
        """Forget calls whose start could not be saved: they do not run."""
        with self._lock:
            for call in tuple(self.waiting):
                if call.name == "record_start" and call.lane == log.lane:
                    self.waiting.remove(call)
                    (log.started or set()).discard(call.values[0])

    def _keep(self, error: NexusError, consequence: str) -> None:
        """Write what waits into its file, and tell the person once that the server is away."""
        if self.is_away:
            return
        with self._lock:
            self.is_away = True
            if not self._file:
                self._write_file(self.waiting)
        self.warn(f"{error.message}; {consequence}")

    def _write_file(self, calls: Iterable[UnsavedCall]) -> None:
        """Append calls to the file, which is created if there is none. If it cannot be written, the person is told, and
        it is removed."""
        try:
            self._file = self._file or create_file(self.url, self.session)
            for call in calls:
                self._file.append(format_line(call))
        except OSError as error:
            self._remove_file()
            why = reason_of(error)
            self.warn(f"unsaved entries cannot be kept on this machine ({why}): they will be lost if nexus exits")

    def _remove_file(self) -> None:
        file, self._file = self._file, None
        if file:
            with suppress(OSError):  # what it has and the server too is not recorded again
                file.release(remove=True)
