"""A lane's log that continues in memory when the ledger fails (`nexus docs exit-status`).

The first commit that fails in any lane is reported once. The session is then copied into a database in memory with the
same keys and ids, and all its lanes continue there. With `require_save` the failure is raised instead.

If a server cannot be reached, what is recorded in memory also goes into a journal (`spool`), which is written back when
the server can be reached again: by a later commit, at the end, or by the next command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.entry import Drop, Epoch, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_log import LaneLog
from nexus_cli.ledger.open_database import connect_memory
from nexus_cli.ledger.sessions import SessionInfo

if TYPE_CHECKING:
    from nexus_cli.ledger.spool import Spool

T = TypeVar("T")

LOCAL = 1 << 40
"""Lanes that are opened in memory have higher ids than any lane of the ledger."""
RETRY_SECONDS = 5.0
"""Seconds after an attempt to write a journal back before the next one."""
_PATIENCE = 10
"""Factor of the time that an attempt took: a server that does not answer may not slow the session down."""

_REACHED = """WITH RECURSIVE reached (id) AS (
    SELECT id FROM lanes WHERE session = ?1
    UNION SELECT l.parent FROM reached r JOIN lanes l ON l.id = r.id WHERE l.parent IS NOT NULL),
line (key) AS (
    SELECT key FROM epochs WHERE session = ?1
    UNION SELECT epoch FROM lanes WHERE id IN (SELECT id FROM reached) AND epoch IS NOT NULL
    UNION SELECT origin FROM lanes WHERE id IN (SELECT id FROM reached) AND origin IS NOT NULL
    UNION SELECT epoch FROM requests WHERE lane IN (SELECT id FROM reached)
    UNION SELECT e.parent FROM line JOIN epochs e ON e.key = line.key WHERE e.parent IS NOT NULL)
"""
"""The lanes that a session shows, with their ancestors, and the epochs that they came from."""

_OF_LANES = "lane IN (SELECT id FROM reached)"
_OF_EPOCHS = "epoch IN (SELECT key FROM line)"
_OF_SESSION = "session = ?1"
_ROWS: Mapping[str, str] = {
    "sessions": "key = ?1",
    "lanes": "id IN (SELECT id FROM reached)",
    "epochs": "key IN (SELECT key FROM line)",
    "entries": _OF_LANES,
    "fixes": _OF_LANES,
    "started": _OF_LANES,
    "requests": _OF_LANES,
    "memos": _OF_LANES,
    "schemas": _OF_EPOCHS,
    "slots": _OF_EPOCHS,
    "drops": _OF_SESSION,
    "files": _OF_SESSION,
    "calibrations": "1 = 1",
    "blobs": f"""id IN (
        SELECT blob FROM entries WHERE {_OF_LANES} UNION ALL SELECT blob FROM memos WHERE {_OF_LANES}
        UNION ALL SELECT arguments FROM requests WHERE {_OF_LANES}
        UNION ALL SELECT blob FROM schemas WHERE {_OF_EPOCHS} UNION ALL SELECT blob FROM slots WHERE {_OF_EPOCHS}
        UNION ALL SELECT system FROM epochs WHERE key IN (SELECT key FROM line)
        UNION ALL SELECT rules FROM epochs WHERE key IN (SELECT key FROM line)
        UNION ALL SELECT sections FROM epochs WHERE key IN (SELECT key FROM line)
        UNION ALL SELECT blob FROM drops WHERE {_OF_SESSION})""",
}
"""By table: the rows of the session with the key `?1`."""


@dataclass
class _Failover:
    """State that the lanes of a session share."""

    drops: int
    """Number of the newest drop id."""
    epochs: int
    """Id of the next epoch."""
    memory: Database | None = None
    """The database in use after a failed commit."""
    has_past: bool = True
    """False if `memory` has no copy of the session's past."""
    info: SessionInfo | None = None
    """The session as it was opened, if there may be a journal."""
    spool: Spool | None = None
    """The journal, while the server cannot be reached."""
    is_failing: bool = False
    """True if the journal could not be written, or was refused by the server; the person was told."""
    lanes: dict[int, int] = field(default_factory=dict)
    """Lanes on the server of those that were opened in memory."""
    next_try: float = 0.0
    """Time of the monotonic clock before which the journal is not written back."""
    lock: threading.RLock = field(default_factory=threading.RLock)


class FailoverLog(LaneLog):
    """A `LaneLog` that swaps its database for one in memory when a commit fails.

    Over a ledger that is only read the swap happens at the first commit, without a warning.
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
        is_offline: bool = False,
        shared: _Failover | None = None,
    ) -> None:
        """Initialize; a session of `server` has a journal during an outage, at once if `is_offline`: `db` is in memory
        because the server could not be reached. `shared` is the state of the main lane, for a side lane."""
        self._shared = shared or _Failover(0, 0)
        super().__init__(db, session, lane, clock)
        self._require_save = require_save
        self._warn = warn
        self._server = server
        self._memory = self._shared.memory
        """The database in memory in which this lane ends at its own last entry."""
        self._last = super().last_id()
        if shared is None:
            self._shared.drops, self._shared.epochs = self.last_drop(), super().next_epoch()
            if server and not require_save:
                self._shared.info = self.session
                if is_offline and (failure := self._begin_spool()):
                    warn(f"it cannot be kept there ({failure}): this session is kept in memory and lost when it ends")

    @property
    def lane(self) -> int:
        """The lane in the current database."""
        return self._shared.lanes.get(self._lane, self._lane)

    @lane.setter
    def lane(self, lane: int) -> None:
        self._lane = lane

    @property
    def db(self) -> Database:
        """The ledger's database, after a failure the one in memory."""
        memory = self._shared.memory
        if memory is None:
            return self._database
        if self._memory is not memory:
            _cut_lane(memory, self.session_id, self.lane, self._last)
            self._memory = memory
        return memory

    @property
    def is_saving(self) -> bool:
        """False once the ledger has failed, and if it is only read."""
        return self._shared.memory is None and self._database.writes

    @property
    def is_spooling(self) -> bool:
        """True while the journal has what the server lacks and can be written back, as far as is known."""
        return self._shared.spool is not None and not self._shared.is_failing

    def close(self) -> None:
        """Write the journal back if the server answers, and close the database in memory, if there is one."""
        shared = self._shared
        with shared.lock:
            self._return_to_server()
            if shared.memory is not None:
                shared.memory.close()
            if shared.spool is not None:
                shared.spool.close()
                shared.spool = None

    def open_lane(self, agent: str, at_entry: int | None = None) -> LaneLog:
        """See `LaneLog`; both lanes swap their database together."""
        with self._shared.lock:
            lane = self._insert_lane(agent, at_entry)
            self._spool("open_lane", (agent, at_entry), lane)
        made = FailoverLog(
            self._database,
            self.session_id,
            lane,
            self._clock,
            require_save=self._require_save,
            warn=self._warn,
            server=self._server,
            shared=self._shared,
        )
        made.noted = self.noted
        return made

    # Numbers that continue after a failure

    def last_id(self) -> int:
        """Return the id of the newest entry, without a query."""
        return self._last

    # Records

    def begin_epoch(self, epoch: Epoch, left_out: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        super().begin_epoch(epoch, left_out, memos)
        self._shared.epochs = epoch.id + 1

    def next_epoch(self) -> int:
        """Return the id of the session's next epoch, without a query."""
        return self._shared.epochs

    def next_drop(self) -> str:
        name = super().next_drop()
        self._shared.drops = int(name[1:])
        return name

    def note(self, path: str, digest: str, how: str) -> None:
        """See `LaneLog`. With `require_save` a failure is raised by the next commit that matters."""
        with suppress(NexusError):
            super().note(path, digest, how)

    def record_call(self, method: Callable[..., T], *values: Any) -> T:
        """Make the call; if it wrote into memory because the server is gone, also write it into the journal."""
        with self._shared.lock:
            made = method(self, *values)
            self._spool(method.__name__, values, made)
        return made

    def _spool(self, name: str, values: tuple[Any, ...], made: Any) -> None:
        shared = self._shared
        if shared.spool is None:
            return
        try:
            shared.spool.add(self.lane, name, values, made)
        except OSError as error:
            lost = "when it ends" if shared.memory is None else "if it ends before the server answers"
            self._warn_of_spool(f"{error.strerror or error}; what follows continues in memory and is lost {lost}")

    def _warn_of_spool(self, line: str) -> None:
        if not self._shared.is_failing:
            self._shared.is_failing = True
            self._warn(line)

    # The failure

    @property
    def _has_past(self) -> bool:
        return self._shared.has_past

    def _commit(self, write: Callable[[Database], T]) -> T:
        if self._shared.spool is not None and time.monotonic() >= self._shared.next_try:
            self._return_to_server()
        if self.is_saving:
            try:
                with self._database.write():
                    return write(self._database)
            except NexusError as error:
                self._fail_over(error)
        elif self._shared.memory is None:
            self._swap()
        return super()._commit(write)

    def _commit_optional(self, write: Callable[[Database], None]) -> None:
        if self.is_saving or self._shared.memory is not None:
            with suppress(NexusError):
                super()._commit(write)

    def _query(self, read: Callable[[Database], T], default: T) -> T:
        try:
            return super()._query(read, default)
        except NexusError:
            return default

    def _fail_over(self, error: NexusError) -> None:
        is_outage = self._database.is_outage(error)  # a diagnosis may reconnect
        problem = self._diagnose(error)
        if self._require_save or problem.kind != "ledger":
            raise problem from error
        if self._swap():
            what = "what follows" if problem is not error else "the session"
            if problem is error and is_outage:
                self._begin_spool()
            kept = self._shared.spool
            where = "in memory and is lost when it ends" if kept is None else f"in {kept.path} until the server answers"
            self._warn(f"{problem.message}; {what} continues {where}")

    def _begin_spool(self) -> str:
        """Begin the journal if the session can have one; return why it cannot be made, or ""."""
        shared = self._shared
        if shared.info is not None:
            from nexus_cli.ledger.spool import Spool  # noqa: PLC0415  (a file needs none)

            try:
                shared.spool = Spool.create(self._server, shared.info)
            except OSError as error:
                return error.strerror or str(error)
            shared.next_try = time.monotonic() + RETRY_SECONDS
        return ""

    def _return_to_server(self) -> None:
        """Write the journal back and continue on the server; if that fails, continue, and warn of a refusal."""
        shared = self._shared
        with shared.lock:
            if shared.spool is None or shared.memory is None:
                return
            begun = time.monotonic()
            try:
                found = shared.spool.write_back(self._database)
            except (NexusError, ValueError, OSError) as error:
                took = time.monotonic() - begun
                if not isinstance(error, NexusError) or not self._database.is_outage(error):
                    why, path = getattr(error, "message", str(error)), shared.spool.path
                    self._warn_of_spool(f"{why}; what follows continues in {path} and cannot be written back")
                shared.next_try = time.monotonic() + max(RETRY_SECONDS, _PATIENCE * took)
                return
            shared.spool, shared.is_failing = None, False
            shared.lanes |= found
            shared.memory.close()
            shared.memory, shared.has_past = None, True

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
                _copy_session(self._database, memory, self.session_id)
            except NexusError:
                memory.close()
                memory = Database(connect_memory())
                _make_empty_session(memory, self.session_id, shared.drops, shared.epochs)
                shared.has_past = False
            with memory.write():
                memory.set_last_number("lanes", LOCAL)
            shared.memory = memory
        return True


def _copy_session(source: Database, target: Database, session: str) -> None:
    """Copy everything that `session` can reach into the empty `target`; raise `NexusError("ledger", ...)` if some of it
    is unreadable."""
    key = sessions.key_of(source, session)
    rows = {
        table: source.all(f"{_REACHED}SELECT {_columns(target, table)} FROM {table} WHERE {of}", key)
        for table, of in _ROWS.items()
    }
    target.connection.execute("PRAGMA foreign_keys = OFF")  # the sessions that it was forked from are not copied
    with target.write():
        for table, found in rows.items():
            if found:
                target.many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)


def _columns(memory: Database, table: str) -> str:
    """Return the columns of a table; on a server it has more."""
    return ", ".join(f'"{row[1]}"' for row in memory.all(f"PRAGMA table_info({table})"))


def _make_empty_session(target: Database, session: str, drops: int, epochs: int) -> None:
    """Make a session whose drop and epoch ids continue after the given numbers.

    Its former epochs have no texts: reading one raises the `NexusError` of a damaged text.
    """
    with target.write():
        key = target.run(
            "INSERT INTO sessions (id, name, folder, project, model, recipe, created, updated, drops)"
            " VALUES (?, '', '', '', '', '', '', '', ?)",
            session,
            drops,
        )
        target.many(
            "INSERT INTO epochs (session, id, cause, model, system, rules, base, after, system_tokens, tools_tokens,"
            " tool_choice, effort, sections) VALUES (?, ?, '', '', 0, 0, 0, 0, 0, 0, '', '', 0)",
            [(key, number) for number in range(epochs)],
        )


def _cut_lane(target: Database, session: str, lane: int, last: int) -> None:
    """End `lane` at the entry `last`, since another process may have continued it; create the lane if it is missing.

    Notes stay: a note about the next message is recorded before that message.
    """
    key = sessions.key_of(target, session)
    with target.write():
        target.run(
            "INSERT INTO lanes (id, session, agent, recipe, parent_entry) VALUES (?, ?, '', '', ?)"
            " ON CONFLICT DO NOTHING",
            lane,
            key,
            last,
        )
        for table, column in (("entries", "id"), ("started", "entry"), ("requests", "last_entry")):
            target.run(f"DELETE FROM {table} WHERE lane = ? AND {column} > ?", lane, last)
