"""The log of a lane in a live session: what it does when its ledger fails (`nexus docs exit-status`).

A file: the first commit that fails in any lane is reported once. The session is then copied into a database in memory
with the same keys and ids, and all its lanes continue there. With `require_save` the failure is raised instead.

A server: while a turn runs, what is recorded waits in memory until `save`, which commits all of it in one transaction.
If the server is away, `save` waits for it, and what could not be committed stands in a file (`unsaved_calls`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.errors import LedgerAwayError, NexusError
from nexus_cli.core.services import FixedValues, SeenFile
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import lanes
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_log import MOST_SEEN, LaneLog
from nexus_cli.ledger.memory_copy import copy_session, cut_lane, make_empty_session
from nexus_cli.ledger.open_database import connect_memory

if TYPE_CHECKING:
    from nexus_cli.ledger.unsaved_calls import UnsavedCalls

T = TypeVar("T")

LOCAL = 1 << 40
"""Lanes that are opened in memory have higher ids than any lane of the ledger."""
RETRY_SECONDS = 1.0
"""Seconds between two attempts to reach a server that is away."""
_OVERLAP, _OVERLAP_OF_TURN = 32, 10_000
"""Notes of the whole ledger before the newest that are read again, with a commit and as a turn begins: a transaction
may commit after a later one."""
_LONG_WAIT, _SHORT_WAIT = 40.0, 3.0
"""Seconds to wait for an answer of the server: longer than its own limit of a statement; and until the person is told,
or a turn ends without the answer."""
_NOW = "waiting for the server, Ctrl+C stops"
_LATER = "what is not saved yet is kept on this machine until the server answers"


@dataclass(frozen=True, slots=True, eq=False)
class UnsavedCall:
    """A call of a method of `LaneLog` that is not committed yet."""

    lane: int
    name: str
    values: tuple[Any, ...]
    write: Callable[[Database], object]

    @property
    def memos(self) -> Iterable[Memo]:
        """The notes among its values."""
        for value in self.values:
            yield from (one for one in (value if isinstance(value, list | tuple) else [value]) if isinstance(one, Memo))


@dataclass
class _SessionRecord:
    """State that the lanes of a session share."""

    drops: int
    """Number of the newest drop id."""
    epochs: int
    """Id of the next epoch."""
    memory: Database | None = None
    """The database in use after a failed commit to a file."""
    has_past: bool = True
    """False if `memory` has no copy of the session's past."""
    defers: bool = False
    """True while a turn or an act runs, which calls `save` where something has to be committed."""
    waiting: list[UnsavedCall] = field(default_factory=list)
    """What a server has not committed yet, in order."""
    was_tried: bool = False
    """True if a commit of `waiting` failed: a part of it may have been recorded."""
    is_away: bool = False
    """True once the person was told that the server is away, until it answers."""
    kept: UnsavedCalls | None = None
    """The file with the calls of `waiting` while the server is away."""
    main_lane: int = 0
    is_new: bool = False
    """True if this process began the session, and nobody else knows it."""
    notes: dict[str, dict[int, Memo]] = field(default_factory=lambda: defaultdict(dict))
    """The committed notes of the main lane on a server, by kind and key."""
    read_kinds: set[str] | None = None
    """The kinds in `notes`; None for all of them."""
    newest_note: int = 0
    """Key of the newest note that was read."""
    is_fresh: bool = False
    """True if the notes of other processes were read in this turn."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    saving: threading.RLock = field(default_factory=threading.RLock)
    """Held while what waits is committed."""


class FailoverLog(LaneLog):
    """A `LaneLog` that continues in memory when a commit to a file fails, and waits for a server that is away.

    Over a ledger that is only read everything is recorded in memory, without a warning.
    """

    def __init__(
        self,
        db: Database,
        session: str,
        lane: int | None = None,
        clock: Clock = local_now,
        *,
        require_save: bool,
        warn: Callable[[str], None],
        server: str = "",
        wait: float = 0.0,
        is_new: bool = False,
        shared: _SessionRecord | None = None,
    ) -> None:
        """Initialize; `server` is the address of the ledger's server, which is waited for at most `wait` seconds.
        `is_new`: nothing of the session was recorded, so that nothing is asked. `shared` is the state of the main lane,
        for a side lane."""
        self._shared = shared or _SessionRecord(0, 0)
        self._call: tuple[str, tuple[Any, ...]] | None = None
        super().__init__(db, session, lane, clock)
        self._require_save = require_save
        self._warn = warn
        self._server = server if db.writes else ""
        self._wait = wait
        self._memory = self._shared.memory
        """The database in memory in which this lane ends at its own last entry."""
        self._started = set[str]() if is_new else None
        """Calls that were started, once they were asked for."""
        if shared is None:
            self._shared.main_lane, self._shared.is_new = self.lane, is_new
            if self._server:
                db.unsaved[session] = self._write_waiting
        if is_new:
            self._counts = {} if db.is_shared else None
            return
        self._last = super().last_id()
        if shared is None:
            self._shared.drops, self._shared.epochs = super().last_drop(), super().next_epoch()
            self._shared.read_kinds = set()
            if self._server:
                self._shared.newest_note = lanes.newest_note(db, self.lane)

    @property
    def db(self) -> Database:
        """The ledger's database, with all that was recorded; after a failure the one in memory."""
        memory = self._shared.memory
        if memory is None:
            if self._shared.waiting:
                self._write_waiting()
            return self._database
        if self._memory is not memory:
            cut_lane(memory, self.session_id, self.lane, self._last)
            self._memory = memory
        return memory

    @property
    def is_saving(self) -> bool:
        """False once the ledger has failed, and if it is only read: another process cannot resume the session."""
        shared = self._shared
        is_lost = shared.is_away and bool(shared.waiting) and shared.kept is None
        return shared.memory is None and self._database.writes and not is_lost

    def close(self) -> None:
        """Commit what waits, or leave it in a file, and close the database in memory, if there is one."""
        try:
            self._write_waiting()
        except NexusError as error:
            self._keep(error, _LATER)
        if self._database.unsaved.get(self.session_id) == self._write_waiting:
            del self._database.unsaved[self.session_id]
        if self._shared.kept is not None:
            self._shared.kept.close()
        if self._shared.memory is not None:
            self._shared.memory.close()

    def open_lane(self, agent: str, at_entry: int | None = None) -> LaneLog:
        """See `LaneLog`; both lanes swap their database together."""
        made = FailoverLog(
            self._database,
            self.session_id,
            self._insert_lane(agent, at_entry),
            self._clock,
            require_save=self._require_save,
            warn=self._warn,
            server=self._server,
            wait=self._wait,
            shared=self._shared,
        )
        made.noted = self.noted
        return made

    # Numbers that continue without a query

    def last_id(self) -> int:
        """Return the id of the newest entry."""
        return self._last

    def begin_epoch(self, epoch: Epoch, left_out: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        super().begin_epoch(epoch, left_out, memos)
        self._shared.epochs = epoch.id + 1

    def next_epoch(self) -> int:
        """Return the id of the session's next epoch."""
        return self._shared.epochs

    def last_drop(self) -> int:
        """Return the number in the session's newest drop id."""
        return self._shared.drops

    def next_drop(self) -> str:
        with self._shared.lock:
            self._shared.drops += 1
            return f"d{self._shared.drops}"

    # What this process alone records

    def append(self, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        super().append(entry, memos)
        self._known.add([entry])

    def record_request(
        self,
        manifest: Manifest,
        fixed: Sequence[FixedValues],
        head_lines: Sequence[bytes],
        with_preambles: Sequence[FixedValues] = (),
    ) -> None:
        super().record_request(manifest, fixed, head_lines, with_preambles)
        self._known.settle(fixed)

    def record_reply(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent: str = ""
    ) -> None:
        super().record_reply(entry, step, usage, finish, reported, sent)
        self._known.add([entry] if entry else ())

    def _last_settled(self) -> int:
        return self._last

    def count_entries(self, last: int) -> list[tuple[Kind, str, int]]:
        known = self._known.prefix(1, last)
        return [(one.kind, one.actor, 1) for one in known] if len(known) == last else super().count_entries(last)

    def count_turns(self) -> int:
        known = self._known.prefix(1, self._last)
        return sum(one.kind is Kind.USER for one in known) if len(known) == self._last else super().count_turns()

    def record_start(self, call_id: str, name: str) -> None:
        super().record_start(call_id, name)
        if self._started is not None:
            self._started.add(call_id)

    def was_started(self, call_id: str) -> bool:
        if self._started is None:
            self._started = self._query(lambda db: lanes.started_calls(db, self.lane), set[str]())
        return call_id in self._started

    def drops(self) -> list[Drop]:
        return super().drops() if self._shared.drops else []

    def digest(self, path: str) -> str | None:
        return None if self._shared.is_new and path not in self.noted else super().digest(path)

    def seen_files(self, most: int = MOST_SEEN) -> list[SeenFile]:
        return [] if self._shared.is_new and not self.noted else super().seen_files(most)

    def note(self, path: str, digest: str, how: str) -> None:
        """See `LaneLog`. With `require_save` a failure is raised by the next commit that matters."""
        with suppress(NexusError):
            super().note(path, digest, how)

    # What a server has not committed yet

    def defer(self, defers: bool) -> None:
        """Begin or end to let what is recorded wait for `save`, on a server only. Meanwhile each kind of note is read
        once, and what other processes note is read with each commit."""
        self._shared.defers, self._shared.is_fresh = defers, self._last == 0

    @property
    def defers(self) -> bool:
        """True from `defer(True)` to `defer(False)`."""
        return self._shared.defers

    def memos(self, kind: str = "", *, own: bool = False, first: int = 0) -> list[Memo]:
        shared = self._shared
        if not (self._server and shared.defers and kind and self.lane == shared.main_lane) or own or first:
            return super().memos(kind, own=own, first=first)
        if not shared.is_fresh:
            self._write_waiting(is_asked=True)
        if shared.read_kinds is not None and kind not in shared.read_kinds:
            shared.notes[kind] |= self._read_notes(kind)
            shared.read_kinds.add(kind)
        with shared.lock:
            waiting = (memo for call in shared.waiting if call.lane == self.lane for memo in call.memos)
            return [*shared.notes[kind].values(), *(memo for memo in waiting if memo.kind == kind)]

    def _begin_notes(self) -> Callable[[], dict[int, Memo]]:
        """Begin to read the notes of the main lane that other processes may have made; inside a transaction."""
        overlap = _OVERLAP if self._shared.is_fresh else _OVERLAP_OF_TURN
        after = max(0, self._shared.newest_note - overlap)
        return lanes.begin_later_notes(self._database, self._shared.main_lane, after)

    def _add_notes(self, found: Mapping[int, Memo]) -> None:
        shared = self._shared
        for key, memo in found.items():
            if shared.read_kinds is None or memo.kind in shared.read_kinds:
                shared.notes[memo.kind][key] = memo
        shared.newest_note = max(shared.newest_note, *found, 0)
        shared.is_fresh = True

    async def save(self, error: NexusError | None = None, *, waits: bool = True) -> bool:
        """See `Log`: commit what waits, and wait for a server that is away at most `ledger.wait` seconds. At the
        beginning of a turn also read what other processes noted."""
        if error is not None and not (self._server and isinstance(error, LedgerAwayError)):
            raise error
        deadline = time.monotonic() + self._wait
        is_asked = error is not None or (bool(self._server) and self._shared.defers and not self._shared.is_fresh)
        has_waited = False
        while self._shared.waiting or is_asked:
            try:
                await self._try_to_save(is_asked=is_asked, waits=waits)
                return has_waited
            except LedgerAwayError as away:
                self._keep(away, _NOW if waits else _LATER)
                if not waits:
                    return True
                if time.monotonic() >= deadline:
                    self._take_back_starts()
                    hint = "Resume the session when it answers"
                    raise NexusError("ledger", away.what, f"{away.why}, for {self._wait:,.0f} s", hint) from away
                has_waited = True
                await asyncio.sleep(RETRY_SECONDS)
            except asyncio.CancelledError:
                self._take_back_starts()
                raise
        return has_waited

    async def _try_to_save(self, *, is_asked: bool, waits: bool) -> None:
        """Commit in a thread; raise `LedgerAwayError` if the server does not answer in time."""
        attempt = asyncio.ensure_future(asyncio.to_thread(self._write_waiting, is_asked=is_asked))
        attempt.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits any more
        error = LedgerAwayError("the ledger could not be written", "its server does not answer")
        done, _ = await asyncio.wait({attempt}, timeout=_SHORT_WAIT)
        if waits and not done:
            self._keep(error, _NOW)
            done, _ = await asyncio.wait({attempt}, timeout=_LONG_WAIT)
        if not done:
            self._database.abandon()
            raise error
        attempt.result()

    def _take_back_starts(self) -> None:
        """Forget calls whose start could not be saved: they do not run."""
        shared = self._shared
        with shared.lock:
            starts = [call for call in shared.waiting if call.name == "record_start" and call.lane == self.lane]
            shared.waiting[:] = [call for call in shared.waiting if call not in starts]
            if self._started is not None:
                self._started -= {call.values[0] for call in starts}

    def record_call(self, method: Callable[..., T], *values: Any) -> T:
        """Make the call, and remember it until it is committed."""
        with self._shared.lock:
            self._call = method.__name__, values
            try:
                return method(self, *values)
            finally:
                self._call = None

    def _write_waiting(self, *, is_asked: bool = False) -> None:
        """Commit what waits, or ask the server if it answers; raise `NexusError("ledger", ...)`.

        After a failed commit, which may have taken place, what was recorded is left out.
        """
        shared = self._shared
        if not shared.saving.acquire(timeout=_SHORT_WAIT):
            raise LedgerAwayError("the ledger could not be written", "its server does not answer")
        try:
            batch = tuple(shared.waiting)
            if not batch and not is_asked:
                return
            was_tried, shared.was_tried = shared.was_tried, True
            with self._database.write():
                for call in batch:
                    if not (was_tried and self._was_recorded(call)):
                        call.write(self._database)
                found = self._begin_notes() if shared.defers else dict
            with shared.lock:
                shared.was_tried = shared.is_away = False
                self._add_notes(found())
                shared.waiting[:] = [call for call in shared.waiting if call not in batch]
                if shared.kept is not None and not shared.waiting:
                    shared.kept.remove()
                    shared.kept = None
        finally:
            shared.saving.release()

    def _was_recorded(self, call: UnsavedCall) -> bool:
        from nexus_cli.ledger.unsaved_calls import was_recorded  # noqa: PLC0415  (after a failed commit)

        return was_recorded(self._database, self.session_id, call.lane, call.name, call.values)

    def _keep(self, error: NexusError, what: str) -> None:
        """Write what waits into its file, and tell the person once that the server is away."""
        shared = self._shared
        if shared.is_away:
            return
        from nexus_cli.ledger.unsaved_calls import UnsavedCalls  # noqa: PLC0415  (the server is away)

        with shared.lock:
            shared.is_away = True
            try:
                if shared.kept is None:
                    shared.kept = UnsavedCalls.create(self._server, self.session_id)
                    for call in shared.waiting:
                        self._add_to_file(call)
            except OSError as failure:
                self._warn_of_file(failure)
        self._warn(f"{error.message}; {what}")

    def _add_to_file(self, call: UnsavedCall) -> None:
        """Append a call to the file, if there is one; tell the person if that fails."""
        if self._shared.kept is not None and call.name != "record_start":  # what is not saved does not run
            try:
                self._shared.kept.add(call.lane, call.name, call.values)
            except OSError as failure:
                self._shared.kept.remove()
                self._shared.kept = None
                self._warn_of_file(failure)

    def _warn_of_file(self, failure: OSError) -> None:
        why = failure.strerror or failure
        self._warn(f"what is not saved yet cannot be kept on this machine ({why}): it is lost if nexus ends")

    # Database access

    @property
    def _has_past(self) -> bool:
        return self._shared.has_past

    def _commit(self, write: Callable[[Database], T]) -> T:
        if self._server:
            return cast(T, self._commit_on_server(write))
        if self.is_saving:
            try:
                with self._database.write():
                    return write(self._database)
            except NexusError as error:
                self._fail_over(error)
        elif self._shared.memory is None:
            self._swap()
        return super()._commit(write)

    def _commit_on_server(self, write: Callable[[Database], Any]) -> Any:
        """Let a recorded call wait for `save`; outside of a turn commit it at once, or keep it if the server is
        away. Other writes, whose result is needed, are committed behind what waits."""
        shared = self._shared
        if (call := self._call) is None:
            self._write_waiting()
            with self._database.write():
                return write(self._database)
        made = UnsavedCall(self.lane, *call, write)
        try:
            with shared.lock:
                shared.waiting.append(made)
                self._add_to_file(made)
            if not shared.defers:
                self._write_waiting()
        except LedgerAwayError as error:
            if self._require_save:
                shared.waiting.remove(made)
                raise
            self._keep(error, _LATER)
        except NexusError:
            shared.waiting.remove(made)
            raise
        return None

    def _commit_optional(self, write: Callable[[Database], None]) -> None:
        if self.is_saving or self._shared.memory is not None:
            with suppress(NexusError):
                super()._commit(write)

    @property
    def _later(self) -> Database:
        return self._database if self._shared.memory is None else self.db

    def _query(self, read: Callable[[Database], T], default: T) -> T:
        try:
            return super()._query(read, default)
        except NexusError as error:
            if self._shared.defers and isinstance(error, LedgerAwayError):
                raise  # the step is taken again when the server answers
            return default

    # The failure of a file

    def _fail_over(self, error: NexusError) -> None:
        problem = self._diagnose(error)
        if self._require_save or problem.kind != "ledger":
            raise problem from error
        if self._swap():
            what = "what follows" if problem is not error else "the session"
            self._warn(f"{problem.message}; {what} continues in memory and is lost when it ends")

    def _diagnose(self, error: NexusError) -> NexusError:
        """Return `error`, or a clearer one if the session was deleted, which shows in many ways."""
        try:
            gone = not LaneLog(self._database, self.session_id, self.lane).session
        except NexusError as missing:
            gone = missing.kind == "usage"
        if not gone:
            return error
        return NexusError("ledger", "the saved session is gone", "it was deleted by another process", "Start a new one")

    def _swap(self) -> bool:
        """Continue in memory; False if another lane has swapped meanwhile."""
        shared = self._shared
        with shared.lock:
            if shared.memory is not None:
                return False
            memory = Database(connect_memory())
            try:
                copy_session(self._database, memory, self.session_id)
            except NexusError:
                memory.close()
                memory = Database(connect_memory())
                make_empty_session(memory, self.session_id, shared.drops, shared.epochs)
                shared.has_past = False
            with memory.write():
                memory.set_last_number("lanes", LOCAL)
            shared.memory = memory
        return True
