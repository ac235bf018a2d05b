"""The one connection to a ledger file: transactions, waiting, and SQLite's errors as messages for people.

Knows no table; opening a file is `opening`.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.core.errors import FORK, NexusError
from nexus_cli.core.shared_types import T

Row = tuple[Any, ...]
"""A row of an answer, or the values of a statement."""
Query = tuple[Any, ...]
"""A statement and its values."""
BUSY_SECONDS = 30.0
"""Seconds to wait for other processes before giving up, if none of them commits meanwhile."""
POLL_SECONDS = 0.25
"""SQLite's own timeout. Within it the pauses between two tries grow: the longer a process has waited, the less it would
get, so that the wait is begun anew."""
_POLL_SECONDS = 0.1
"""Seconds between two checks for a change."""
_RECENT_SECONDS = 1.0
"""Seconds for which an answer is recent."""

_FULL_DISK_BYTES = 1 << 16
"""Bytes of free space below which an error of the disk is a full one."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DUPLICATE_KEY = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
_WHY = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space"),
    sqlite3.SQLITE_READONLY: ("the file cannot be written", "Check its permissions"),
    sqlite3.SQLITE_CANTOPEN: ("the file could not be opened", "Check the permissions of its folder"),
    sqlite3.SQLITE_IOERR: ("the disk reported an error", "Check the disk"),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "Move it away, or restore it from a backup"),
    sqlite3.SQLITE_NOTADB: ("the file is not a database", "Move it away, or restore it from a backup"),
    sqlite3.SQLITE_CONSTRAINT: ("another process deleted or changed the session", "Start a new session"),
}


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; -1 for errors that the Python module raised itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def _is_disk_full() -> bool:
    try:
        return shutil.disk_usage(places().data).free < _FULL_DISK_BYTES
    except OSError:
        return False


def ledger_error(error: sqlite3.Error, what: str = "the ledger failed") -> NexusError:
    """Return `error` as a `NexusError("ledger", ...)` with a hint for the person."""
    code = primary_code(error)
    if code in _BUSY:
        return NexusError(
            "ledger", what, f"another process kept the ledger locked for {BUSY_SECONDS:.0f} s", "Try again"
        )
    if getattr(error, "sqlite_errorcode", None) in _DUPLICATE_KEY:
        return NexusError("ledger", what, "another process continued the session", FORK)
    if code == sqlite3.SQLITE_IOERR and _is_disk_full():
        code = sqlite3.SQLITE_FULL  # SQLite cannot grow a file beside the ledger
    why, hint = _WHY.get(code, (str(error), ""))
    return NexusError("ledger", what, why, hint)


def retry_while_busy(action: Callable[[], T], version: Callable[[], object] = lambda: None) -> T:
    """Call `action` and return its result; retry while SQLite reports that another process is busy.

    The wait of `BUSY_SECONDS` begins again whenever `version` (None: unknown) has changed: then others are using the
    ledger in turn.
    """
    deadline, last_version = time.monotonic() + BUSY_SECONDS, None
    pause = 0.005
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if primary_code(error) not in _BUSY:
                raise
            if (now := version()) not in (None, last_version):
                deadline, last_version = time.monotonic() + BUSY_SECONDS, now
            elif time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(0.05, pause * 2)


def commit(connection: Any) -> None:
    """Commit the transaction of a connection, SQLite's or a server's. Tests replace this to end the process around
    it."""
    connection.execute("COMMIT")


class Database:
    """One connection with explicit transactions; several threads may use it."""

    writes = True
    """False if it only reads."""
    now_sql = "((julianday('now') - 2440587.5) * 86400.0)"
    """SQL for the current time in seconds since the epoch, by the clock of the database."""
    skip_locked = ""
    """Ends a query of rows that the transaction claims, where several transactions may do so at once."""

    # The differences between SQLite's SQL and a server's; all other statements are the same.

    is_shared = False
    """True if each role has its own rows: sessions, lanes, epochs, blobs and facts have columns `project` and
    `made_by`."""
    least, greatest = "min", "max"
    """SQL functions for the least and the greatest of several values of one row."""
    blob_id = "(SELECT id FROM blobs WHERE hash = ? AND ? > 0)"
    """SQL for the row of a text by its hash and the key of its session, which matters on a server alone."""
    own_key = ""
    """Leading columns of a key that each role has for itself."""
    next_use = "(SELECT coalesce(max(used), 0) + 1 FROM sessions)"
    """SQL for the number of the next use of a session."""
    principal = "''"
    """SQL for the role whose rights a run has."""
    own_run = "1 = 1"
    """The condition for runs with the rights of this role, or of none."""
    most_pending = 256
    """The number of pending statements that are run without waiting for the next transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._initialize()

    def _initialize(self) -> None:
        """Initialize what a connection to a server has, too."""
        self._lock = threading.RLock()
        self._once = threading.local()
        """By thread: the `answers` in `reading_once`, by statement and values."""
        self.pending: list[Query] = []
        """The statements that run with the next transaction, with their values."""
        self._guard: tuple[str, Row, str] | None = None
        self._constants: dict[Query, list[Row]] = {}
        self._recent: dict[Query, tuple[float, list[Row]]] = {}
        """By statement and values, when it was asked in `recent` or ahead, and the answer."""
        self.unsaved: dict[str, Callable[[], None]] = {}
        """By id of a session that is open here: commits what its log has not saved yet."""
        self._version: Row | None = None
        """SQLite's data version at the last wait for a change."""
        self.noted = self.files_noted = 0
        """The numbers of notes and of notes about files that were recorded by this connection."""
        self.new_notes: list[Row] = []
        """The notes that the present transaction has recorded in a file, as `lanes` has them."""

    def guard(self, sql: str, *values: Any, why: str) -> None:
        """Begin every later transaction with a statement that must change one row; otherwise it fails with the reason
        `why`."""
        self._guard = (sql, values, why)

    def all(self, sql: str, *values: Any) -> list[Row]:
        """Return all rows of a query; `NexusError("ledger", ...)` if it fails."""
        answers: dict[Query, list[Row]] | None = getattr(self._once, "answers", None)
        if answers is None:
            return self._ask(sql, values)
        if (sql, *values) not in answers:
            answers[sql, *values] = self._ask(sql, values)
        return answers[sql, *values]

    @contextmanager
    def reading_once(self, *ahead: Query) -> Iterator[None]:
        """Give a query that this thread repeats in the block its first answer, until something is written. A server is
        asked the queries `ahead`, statement and values of each, in one round trip."""
        with self._lock:  # nothing is written between the question and its answer
            self._once.answers = self._add_recent(self._pipeline_queries(ahead))
        try:
            yield
        finally:
            self._once.answers = None

    def recent(self, query: Query, *along: Query) -> list[Row]:
        """Return the rows of a query that are at most a second old, unless something was written here since. A server
        that has to be asked is asked the queries `along` in the same round trip."""
        with self._lock:  # several threads ask at the same time
            queried, rows = self._recent.get(query, (0.0, list[Row]()))
            if time.monotonic() - queried > _RECENT_SECONDS:
                rows = self._add_recent(self._pipeline_queries((query, *along)) or {query: self.all(*query)})[query]
            return rows

    def _pipeline_queries(self, queries: Sequence[Query]) -> dict[Query, list[Row]]:
        """Ask a server several queries in one round trip; return nothing for a file, which is asked each by itself."""
        return {}

    def _add_recent(self, answers: dict[Query, list[Row]]) -> dict[Query, list[Row]]:
        now = time.monotonic()
        self._recent |= {query: (now, rows) for query, rows in answers.items()}
        return answers

    def _forget_answers(self, *, is_new: bool) -> None:
        """Forget what may be written now, unless nobody knows the rows that are new."""
        if not is_new:
            self._once.answers = None
            self._recent.clear()

    def _ask(self, sql: str, values: Row) -> list[Row]:
        with self._lock:
            try:
                return retry_while_busy(lambda: self.connection.execute(sql, values).fetchall())
            except sqlite3.DatabaseError as error:
                raise self._error(error, "could not be read") from error

    def _error(self, error: sqlite3.Error, what: str) -> NexusError:
        """Return the error of this ledger, which names a damaged file."""
        is_damaged = primary_code(error) in DAMAGED
        path = self.connection.execute("PRAGMA database_list").fetchone()[2] if is_damaged else ""
        return ledger_error(error, f"the ledger {path} {what}" if path else f"the ledger {what}")

    def one(self, sql: str, *values: Any) -> Row | None:
        """Return the first row of a query, or None; `NexusError("ledger", ...)` if it fails."""
        return next(iter(self.all(sql, *values)), None)

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first value in the first row of a query, None without a row; errors as in `one`."""
        row = self.one(sql, *values)
        return row[0] if row else None

    def number(self, sql: str, *values: Any) -> int:
        """Return the number that is the `value` of a query, 0 for None."""
        return int(self.value(sql, *values) or 0)

    def begin_query(self, sql: str, *values: Any) -> Callable[[], list[Row]]:
        """Send a query, also in `reading_once`, and return a function that returns its rows. Inside `write()` a server
        answers several queries that were sent before the first of their functions is called in one round trip."""
        rows = self._ask(sql, values)
        return lambda: rows

    def constants(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a query that never change once there are any: each is read once."""
        if not (rows := self._constants.get((sql, *values), [])) and (rows := self.all(sql, *values)):
            self._constants[sql, *values] = rows
        return rows

    def know(self, rows: list[Row], sql: str, *values: Any) -> None:
        """Let `constants` return these rows without a query."""
        self._constants[sql, *values] = rows

    def run(self, sql: str, *values: Any) -> None:
        """Run one statement inside `write()`. A server's error may be raised only by the next query or the commit."""
        self.connection.execute(sql, values)

    def insert(self, sql: str, *values: Any) -> int:
        """Insert one row inside `write()` and return the key that it got; a server is waited for."""
        return self.connection.execute(sql, values).lastrowid or 0

    def many(self, sql: str, rows: list[Row]) -> None:
        """Run one statement for many rows, inside `write()`."""
        self.connection.executemany(sql, rows)

    def day_of_request(self, *, local: bool) -> str:
        """Return SQL for the day of a request `r` in UTC, or in the system's time zone."""
        return "date(r.at, 'localtime')" if local else "date(r.at)"

    def size(self) -> int:
        """Return the bytes that the ledger takes."""
        return self.number("PRAGMA page_count") * self.number("PRAGMA page_size")

    def find_damage(self) -> str:
        """Return the first damage that SQLite finds in the file, "" if there is none."""
        try:
            report = str(self.connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            report = str(error)
        return "" if report == "ok" else " ".join(report.split())

    def abandon(self) -> None:
        """Let whoever waits for a server that does not answer fail; any thread may call it."""

    def is_administrator(self) -> bool:
        """True if this connection may see every row of the ledger."""
        return True

    @contextmanager
    def read_consistently(self) -> Iterator[None]:
        """Give all queries inside the block the same snapshot of the ledger."""
        with self._lock:
            try:
                self.connection.execute("BEGIN")
                yield
            finally:
                self._rollback()

    def last_numbers(self) -> dict[str, int]:
        """Return the last key assigned in each table; it is never reused."""
        return dict(self.all("SELECT name, seq FROM sqlite_sequence"))

    def set_last_number(self, table: str, number: int) -> None:
        """Continue the keys of a table after `number`; inside a transaction."""
        self.run("DELETE FROM sqlite_sequence WHERE name = ?", table)
        self.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, number)

    def locked_sessions(self, sessions: Sequence[str]) -> list[str]:
        """Return those of `sessions` that another process has locked on a server; for a file, `Ledger` does."""
        return []

    def lock_session(self, session: str) -> bool:
        """Lock a session for this connection, on a server. For a file, `Ledger.lock` does."""
        return True

    def lock_new_session(self, session: str) -> None:
        """Lock a session that nobody else knows in its transaction on a server, as `lock_session`."""

    def unlock_session(self, session: str) -> None:
        """Unlock a session."""

    def lock(self, name: str) -> None:
        """Keep other transactions from locking `name` until this one ends. SQLite has only one writer at a time
        anyway."""

    @contextmanager
    def write(self, *, alone: bool = False, is_new: bool = False) -> Iterator[None]:
        """Open a transaction: committed to the disk when the block ends, rolled back if it raises.

        With `alone` no other transaction writes meanwhile; on SQLite none ever does. With `is_new` it adds rows that
        no answer of `reading_once` and `recent` can have.

        Raises `NexusError("ledger", ...)` if SQLite refuses; then nothing of the block was written.
        """
        with self._lock:
            self._forget_answers(is_new=is_new)
            try:
                retry_while_busy(lambda: self.connection.execute("BEGIN IMMEDIATE"), self.data_version)
                self._check_guard()
                self.new_notes.clear()
                yield
                for query in self.pending:
                    self.run(*query)
                commit(self.connection)
                self.pending.clear()
            except sqlite3.DatabaseError as error:
                self._rollback()
                raise self._error(error, "could not be written") from error
            except BaseException:
                self._rollback()
                raise

    def data_version(self) -> object:
        """Return a number that changes whenever another connection commits, None if SQLite cannot say it, for example
        because it is too busy."""
        try:
            return self.connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.DatabaseError:
            return None

    def _check_guard(self) -> None:
        if self._guard is not None:
            sql, values, why = self._guard
            if self._count_changed(sql, values) != 1:
                raise NexusError("ledger", "nothing more can be recorded", why, "See `nexus runs list`")

    def _count_changed(self, sql: str, values: Row) -> int:
        """Run a statement and return how many rows it changed."""
        return self.connection.execute(sql, values).rowcount

    def _rollback(self) -> None:
        self._constants.clear()  # SQLite gives the keys of a transaction that was rolled back again
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.ProgrammingError:
            pass  # closed: nothing to roll back

    def is_busy(self) -> bool:
        """True if another process is writing now."""
        with self._lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                self.connection.execute("ROLLBACK")
            except sqlite3.OperationalError as error:
                return primary_code(error) in _BUSY
            return False

    def defer_statement(self, sql: str, *values: Any) -> None:
        """Run a statement with the next transaction; it may be lost."""
        with self._lock:
            self.pending.append((sql, *values))
            full = len(self.pending) >= self.most_pending
        if full:
            with self.write():
                pass

    def notify(self) -> None:
        """Wake the processes that wait for a change when this transaction commits. SQLite needs no notification."""

    def wait_for_change(self, seconds: float) -> bool:
        """Block for at most `seconds` until another connection commits; True if one did."""
        deadline = time.monotonic() + seconds
        while (now := self.one("PRAGMA data_version")) == self._version:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(_POLL_SECONDS, seconds))
        self._version = now
        return True

    def shrink(self) -> None:
        """Release freed pages and empty the write-ahead log; another reading process may delay the latter."""
        with self._lock:
            self._constants.clear()  # of what was deleted
            try:
                # The pragma returns no row and frees a page per step. Of the module's calls, only this one takes every
                # step.
                retry_while_busy(lambda: self.connection.executescript("PRAGMA incremental_vacuum"))
                self._empty_log()
            except sqlite3.DatabaseError as error:
                raise ledger_error(error, "the data was deleted, but the file could not be compacted") from error

    def _empty_log(self) -> None:
        """Empty the write-ahead log, so that nothing deleted is left in it; wait for processes that read."""
        deadline = time.monotonic() + BUSY_SECONDS
        while retry_while_busy(lambda: self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())[0]:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def close(self) -> None:
        """Write pending statements and close. Never raises for statements that may be lost; may be called twice."""
        with self._lock:
            try:
                if self.pending:
                    with self.write():
                        pass
            except (NexusError, sqlite3.ProgrammingError):
                self.pending.clear()
            self.connection.close()
