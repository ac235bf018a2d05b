"""The log of a lane in a live session: its numbers, notes and seen files are known here; entries are in the database.

Its journal commits: `file_journal` for a file, `server_journal` for a server (`nexus docs exit-status`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Memo
from nexus_cli.core.errors import LedgerAwayError, NexusError
from nexus_cli.core.services import SeenFile
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.ledger import drops, entries, epochs, lanes, sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.file_journal import FileJournal
from nexus_cli.ledger.lane_journal import SessionJournal, is_for_screen
from nexus_cli.ledger.lane_log import MAX_SEEN, LaneLog
from nexus_cli.ledger.lane_state import LaneState, read_state
from nexus_cli.ledger.sessions import SessionInfo
from nexus_cli.ledger.store import Ledger


class SessionLog(LaneLog):
    """A `LaneLog` that knows the numbers of its session; the journal of the session commits. Use `for_session`."""

    _journal: SessionJournal

    def __init__(self, journal: SessionJournal, lane: int, clock: Clock, last: int) -> None:
        """Initialize the log of a lane with the newest entry `last`; the lanes of a session share `journal`."""
        super().__init__(journal.db, journal.session, lane, clock, journal)
        self.lane_state = journal.lane_state
        self._last = last
        with journal.recording():
            journal.logs.add(self)

    @classmethod
    def for_session(
        cls,
        ledger: Ledger,
        session: str,
        info: SessionInfo | None = None,
        *,
        require_save: bool,
        warn: TakeText,
        wait: float = 0.0,
        is_new: bool = False,
    ) -> SessionLog:
        """Return the log of the main lane; `info` is the session if it was just read. The ledger's server is waited for
        at most `wait` seconds; `is_new`: nothing of the session was recorded, so that nothing is asked."""
        saved = LaneLog(ledger.db, session, info.main_lane if info else None)
        state = LaneState(is_new=True)
        if not is_new:
            lanes.session_of(ledger.db, saved.lane)  # known from now on
            state = read_state(ledger.db, saved.lane)
        values = ledger.db, session, state, require_save, warn, saved.lane
        journal: SessionJournal
        if ledger.server and ledger.db.writes:
            from nexus_cli.ledger.server_journal import ServerJournal  # noqa: PLC0415  (most use a file)

            journal = ServerJournal(*values, ledger.server, wait, {sessions.begin_info: info} if info else {})
        else:
            journal = FileJournal(*values)
        state.seen_files = journal.files_version(), () if is_new else saved.seen_files()
        log = cls(journal, saved.lane, local_now, state.last)
        log.started = set() if is_new else None
        if ledger.server:
            log.was_started("")  # known from now on
        log._counts = {} if is_new and ledger.db.is_shared else None
        return log

    def _log_of(self, lane: int) -> LaneLog:
        return SessionLog(self._journal, lane, self._clock, lanes.last_id(self.db, lane))

    # Numbers that continue without a query

    def last_id(self) -> int:
        """Return the id of the newest entry."""
        return self._last

    def begin_epoch(self, epoch: Epoch, left_out: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        super().begin_epoch(epoch, left_out, memos)
        self.lane_state.epochs = epoch.id + 1

    def next_epoch(self) -> int:
        """Return the id of the session's next epoch."""
        return self.lane_state.epochs

    def last_drop(self) -> int:
        """Return the number in the session's newest drop id."""
        return self.lane_state.drops

    def next_drop(self) -> str:
        with self.lane_state.lock:
            self.lane_state.drops += 1
            return f"d{self.lane_state.drops}"

    def _count_turn(self) -> None:
        self.lane_state.turns += self.lane == self._journal.main_lane

    def count_turns(self) -> int:
        """Return the number of the turns that the person began in the session."""
        return self.lane_state.turns

    def read_window(self, epoch: Epoch) -> tuple[list[bytes], list[tuple[Entry, bytes | None]]]:
        """Return the line hashes of the slots of the current `epoch`, and its later entries, those that were sent with
        their line hash."""
        window = entries.read_window(self.db, self.lane, epoch.base)
        return epochs.current_head_lines(self.db, self.lane), window

    # What was not recorded is not asked for

    @property
    def session(self) -> SessionInfo:
        return self._journal.figure(sessions.begin_info) or super().session

    def drops(self) -> list[Drop]:
        if not self.lane_state.drops:
            return []
        return self._without_failure(lambda: self._journal.figure(drops.begin_list), list[Drop]())

    def digest(self, path: str) -> str | None:
        return None if self.lane_state.is_new and path not in self.noted else super().digest(path)

    def seen_files(self, most: int = MAX_SEEN) -> list[SeenFile]:
        if self.noted:
            return super().seen_files(most)
        version = self._journal.files_version()
        if version != self.lane_state.seen_files[0]:
            log = LaneLog(self._journal.db, self.session_id, self.lane)  # commits nothing: none of them waits here
            self.lane_state.seen_files = version, log.seen_files()
        return [*self.lane_state.seen_files[1][:most]]

    def note(self, path: str, digest: str, how: str, at: str = "") -> None:
        """See `LaneLog`. With `require_save` a failure is raised by the next commit that matters."""
        with suppress(NexusError):
            super().note(path, digest, how, at)

    def memos(self, *kinds: str, own: bool = False, first: int = 0) -> list[Memo]:
        if len(kinds) != 1 or own or first or self.lane != self._journal.main_lane:
            return super().memos(*kinds, own=own, first=first)
        return self._without_failure(lambda: self._journal.notes(*kinds), list[Memo]())

    # What the journal does

    @property
    def is_saving(self) -> bool:
        """False if another process cannot resume the session."""
        return self._journal.is_saving

    @property
    def is_away(self) -> bool:
        """True if the ledger's server does not answer."""
        return self._journal.is_away

    @property
    def defers(self) -> bool:
        """True from `defer(True)` to `defer(False)`."""
        return self._journal.defers

    def defer(self, defers: bool) -> None:
        """Begin or end to let what is recorded wait for `save`, on a server only."""
        self._journal.defer(self, defers)

    @staticmethod
    @contextmanager
    def for_screen() -> Iterator[None]:
        """Read the figures of a status line within the block: while a turn runs on a server, those already known, so
        that nothing waits and nothing fails."""
        token = is_for_screen.set(True)
        try:
            yield
        finally:
            is_for_screen.reset(token)

    def close(self) -> None:
        """Commit what waits, or leave it in a file, and close the database in memory, if there is one."""
        self._journal.close()

    def count_recall(self, drop_id: str) -> None:
        """See `LaneLog`; a failure does not stop the session."""
        with suppress(NexusError):
            if self.db.writes:
                super().count_recall(drop_id)

    def _query(self, read: Callable[[Database], T], default: T) -> T:
        return self._without_failure(lambda: read(self.db), default)

    def _without_failure(self, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except NexusError as error:
            if self._journal.defers and not is_for_screen.get() and isinstance(error, LedgerAwayError):
                raise  # the step is taken again when the server answers
            return default
