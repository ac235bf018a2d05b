"""A ledger on a PostgreSQL server: a process's connection to it, with the interface of `Database`.

Imported only if `ledger.url` names a server. The table modules send the same SQL to both; `?` becomes `$1`.

What keeps the invariants where several processes write at once:
- Transactions are READ COMMITTED. Counters (drop ids, costs) are single UPDATEs, so the row's lock orders them. An
  entry, a request, a started call and an epoch are rows with a unique key: of two processes that record the same one
  the later fails whole, with nothing written.
- Every transaction holds one advisory lock, shared. A deletion holds it alone (`write(alone=True)`): what it finds
  unused cannot come into use while it deletes. Names and facts, which are looked up before they are written, have an
  advisory lock of their own (`lock`).
- A session is held by an advisory lock of the connection: it ends with the process, however that ends.

A lost connection is reopened once, between transactions, and its locks are taken again first. The server rolls back the
interrupted transaction; if COMMIT was interrupted, its outcome is unknown.

A transaction is a pipeline: only a statement whose rows are read waits for the server, and the COMMIT at its end.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

import psycopg

from nexus_cli.config.database_url import hide_password
from nexus_cli.core.errors import FORK, LedgerAwayError, NexusError
from nexus_cli.ledger import database
from nexus_cli.ledger.database import Database, Query, Row
from nexus_cli.ledger.postgres_connection import KEYS, open_connection, server_error, translate

PATIENCE = 10.0
"""Seconds to wait for the server to release what a lost connection left."""
_HOLD_PAUSES = (0.0, 0.05, 0.2)
"""Seconds before each attempt to lock a session: a server needs a moment to notice that a process was killed."""
_CHANNEL = "nexus"
_CLOSING_SECONDS = 1.0
"""Seconds in which a server closes a connection after it has said that it will."""
_MAX_QUEUED = 100
"""Rows after which the server's answers are awaited, so that they do not pile up."""


def _lock_key(name: str) -> int:
    return int.from_bytes(sha256(f"nexus {name}".encode()).digest()[:8], "big", signed=True)


_LEDGER = _lock_key("ledger")
_LOCK = "SELECT pg_try_advisory_lock(?)"


class PostgresDatabase(Database):
    """One connection with explicit transactions; several threads may use it."""

    is_shared = True
    least, greatest = "least", "greatest"
    next_use = "nextval('session_uses')"
    blob_id = (
        "(SELECT id FROM blobs WHERE hash = ? AND (project, made_by) ="
        " (SELECT project, made_by FROM sessions WHERE key = ?))"
    )
    own_key = "made_by, "
    principal = "principal"
    own_run = "principal IN ('', current_user)"
    now_sql = "(extract(epoch from clock_timestamp())::double precision)"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, url: str) -> None:
        """Connect; `NexusError("ledger", ...)` if that fails."""
        self._url = url
        self.place = hide_password(url)
        """The address without its password."""
        self._initialize()
        self._held_locks: dict[int, str] = {}
        self._in_transaction = False
        self._ended: NexusError | None = None
        """The error that ended all use of this connection."""
        self._listener: psycopg.Connection[Any] | None = None
        self._pipeline = ExitStack()
        """The pipeline of the open transaction."""
        self._zone = ""
        self._connect()

    # The connection

    def _connect(self) -> None:
        self._server, self.writes, self.steps, self._backend = open_connection(self._url)

    def _reconnect(self) -> None:
        """Replace a lost connection, with the locks that it held; `NexusError("ledger", ...)` if that fails."""
        lost = self._backend
        with suppress(psycopg.Error):
            self._server.close()
        self._connect()
        try:
            self._server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s",
                lost,
            )
            for key, session in self._held_locks.items():
                self._take_again(key, session)
        except psycopg.Error as error:
            raise server_error(error, "the connection to the ledger was lost", self._url) from error

    def _take_again(self, key: int, session: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._try_lock(key):
            if time.monotonic() > deadline:
                why = f"another process has taken over session {session}"
                self._ended = NexusError("ledger", "the connection to the ledger was lost", why, FORK)
                raise self._ended
            time.sleep(0.1)

    @property
    def _is_lost(self) -> bool:
        return self._server.closed or self._server.broken

    def _require_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def is_administrator(self) -> bool:
        """True if row-level security hides nothing from this role: it owns the tables or has a higher role."""
        query = (
            "SELECT rolsuper OR rolbypassrls OR EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('sessions')"
            " AND pg_has_role(relowner, 'USAGE')) FROM pg_roles WHERE rolname = current_user"
        )
        return bool(self.value(query))

    # Statements

    def _execute(self, sql: str, values: Row) -> psycopg.RawCursor[Any]:
        cursor: psycopg.RawCursor[Any] = psycopg.RawCursor(self._server)
        return cursor.execute(translate(sql), values, binary=True)

    def _read(self, sql: str, values: Row) -> psycopg.RawCursor[Any]:
        """Run a query; outside of a transaction, repeat it once if the connection was lost."""
        what = "the ledger could not be read"
        self._require_open()
        try:
            return self._execute(sql, values)
        except psycopg.Error as error:
            if self._in_transaction or not self._is_lost:
                raise server_error(error, what, self._url) from error
        self._reconnect()
        try:
            return self._execute(sql, values)
        except psycopg.Error as error:
            raise server_error(error, what, self._url) from error

    def _ask(self, sql: str, values: Row) -> list[Row]:
        with self._lock:
            return self._read(sql, values).fetchall()

    def _pipeline_queries(self, queries: Sequence[Query]) -> dict[Query, list[Row]]:
        with self._lock, suppress(psycopg.Error):  # else each is asked by itself
            with self._server.pipeline():
                cursors = [self._execute(sql, tuple(values)) for sql, *values in queries]
            return {query: cursor.fetchall() for query, cursor in zip(queries, cursors, strict=True)}
        return {}

    def begin_query(self, sql: str, *values: Any) -> Callable[[], list[Row]]:
        with self._lock:
            return self._execute(sql, values).fetchall if self._in_transaction else super().begin_query(sql, *values)

    def run(self, sql: str, *values: Any) -> None:
        self._execute(sql, values)

    def insert(self, sql: str, *values: Any) -> int:
        table = sql.split(maxsplit=3)[2]
        ((key,),) = self._execute(f"{sql} RETURNING {KEYS[table]}", values).fetchall()
        return int(key)

    def many(self, sql: str, rows: list[Row]) -> None:
        """See `Database`; the rows are sent together."""
        cursor: psycopg.RawCursor[Any] = psycopg.RawCursor(self._server)
        cursor.executemany(translate(sql), rows)
        if len(rows) > _MAX_QUEUED:
            self._execute("SELECT 1", ()).fetchall()

    def _count_changed(self, sql: str, values: Row) -> int:
        return len(self._execute(f"{sql} RETURNING 1", values).fetchall())

    # Transactions

    @contextmanager
    def write(self, *, alone: bool = False, is_new: bool = False) -> Iterator[None]:
        """See `Database`. If the connection is lost in the commit, an error says that its outcome is unknown."""
        what, is_ending = "the ledger could not be written", False
        with self._lock:
            self._forget_answers(is_new=is_new)
            self._require_open()
            try:
                self._reconnect_if_lost()
                with self._in_pipeline():
                    self._begin(alone)
                    self._check_guard()
                    yield
                    for query in self.pending:
                        self.run(*query)
                    is_ending = True
                    database.commit(self)
                self.pending.clear()
            except psycopg.Error as error:
                self._rollback()
                is_unknown = is_ending and self._is_lost
                if error.sqlstate == "25006":  # it only reads: a new connection may write again
                    self._server.close()
                if is_unknown:
                    what, why = (
                        "it is unknown whether the ledger was written",
                        "the connection was lost during the commit",
                    )
                    raise LedgerAwayError(what, why, "Check what was recorded before you repeat the change") from error
                raise server_error(error, what, self._url) from error
            except BaseException:
                self._rollback()
                raise
            finally:
                self._in_transaction = False

    @contextmanager
    def _in_pipeline(self) -> Iterator[None]:
        """Queue what is sent in the block, until `execute`, which ends the pipeline and waits for everything."""
        with ExitStack() as self._pipeline:
            if psycopg.Pipeline.is_supported():
                self._pipeline.enter_context(self._server.pipeline())
            yield

    def _reconnect_if_lost(self) -> None:
        """Notice, without asking the server, that it has closed the connection, and open it again. A server that
        speaks unasked mostly says why it ends the connection, and closes it a moment later."""
        pause = 0.0
        with suppress(psycopg.Error, OSError, ValueError):
            while not self._is_lost and select.select([self._server.fileno()], [], [], pause)[0]:
                self._server.pgconn.consume_input()
                pause = _CLOSING_SECONDS
        if self._is_lost:
            self._reconnect()

    def _begin(self, alone: bool) -> None:
        """Begin a transaction and take the ledger's lock."""
        self._in_transaction, shared = True, "" if alone else "_shared"
        self._server.execute("BEGIN")
        self._server.execute(f"SELECT pg_advisory_xact_lock{shared}({_LEDGER})")

    def execute(self, sql: str) -> None:
        """Run a statement and wait for its outcome, for `database.commit`."""
        self._server.execute(sql)
        self._pipeline.close()

    def abandon(self) -> None:
        """See `Database`: end the connection."""
        with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(self._server.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

    def _rollback(self) -> None:
        self._constants.clear()  # keys of rows that are gone
        with suppress(psycopg.Error):
            if not self._is_lost and self._server.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._server.execute("ROLLBACK")

    def data_version(self) -> object:
        return object()  # unknown

    def lock(self, name: str) -> None:
        self.run("SELECT pg_advisory_xact_lock(?)", _lock_key(name))

    def defer_statement(self, sql: str, *values: Any) -> None:
        if self.writes:
            super().defer_statement(sql, *values)

    # Locks of sessions

    def lock_session(self, session: str) -> bool:
        """Lock a session until `unlock_session` or the end of the connection; False if another process has it."""
        key = _lock_key(f"session {session}")
        with self._lock:
            for pause in _HOLD_PAUSES:
                time.sleep(pause)
                if self._ask(_LOCK, (key,))[0][0]:
                    self._held_locks[key] = session
                    return True
            return False

    def lock_new_session(self, session: str) -> None:
        key = _lock_key(f"session {session}")
        self.run(_LOCK, key)
        self._held_locks[key] = session

    def locked_sessions(self, sessions: Sequence[str]) -> list[str]:
        rows = self.all(
            "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        keys = {row[0] for row in rows}
        return [session for session in sessions if _lock_key(f"session {session}") in keys]

    def unlock_session(self, session: str) -> None:
        key = _lock_key(f"session {session}")
        with self._lock, suppress(NexusError):
            if self._held_locks.pop(key, None) is not None and self._ended is None:
                self._ask("SELECT pg_advisory_unlock(?)", (key,))

    def _try_lock(self, key: int) -> bool:
        row = self._server.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        return bool(row and row[0])

    # Copying a ledger

    @contextmanager
    def read_consistently(self) -> Iterator[None]:
        with self._lock:
            try:
                self._server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._in_transaction = True
                yield
            except psycopg.Error as error:
                raise server_error(error, "the ledger could not be read", self._url) from error
            finally:
                self._rollback()
                self._in_transaction = False

    def last_numbers(self) -> dict[str, int]:
        numbers = {}
        for table, key in KEYS.items():
            row = self.one(f"SELECT last_value, is_called FROM {table}_{key}_seq")
            if row and row[1]:
                numbers[table] = int(row[0])
        return numbers

    def set_last_number(self, table: str, number: int) -> None:
        if number and table in KEYS:
            self.run("SELECT setval(CAST(? AS regclass), ?)", f"{table}_{KEYS[table]}_seq", number)
        self.run("SELECT setval('session_uses', (SELECT coalesce(max(used), 0) + 1 FROM sessions))")

    # The rest

    def day_of_request(self, *, local: bool) -> str:
        if not local:
            return "substr(r.at, 1, 10)"
        local_time = f"CAST(r.at AS timestamptz) AT TIME ZONE {self._local_zone()}"
        return f"CASE WHEN r.at ~ '^[0-9]{{4}}-[0-9-]*T[0-9]' THEN to_char({local_time}, 'YYYY-MM-DD') END"

    def _local_zone(self) -> str:
        """Return this machine's time zone as SQL: its name, or its current offset if the server does not know the
        name."""
        if not self._zone:
            name = os.environ.get("TZ", "").lstrip(":")
            with suppress(OSError):
                name = name or os.readlink("/etc/localtime").partition("zoneinfo/")[2]
            try:
                self.one("SELECT now() AT TIME ZONE CAST(? AS TEXT)", name)
                self._zone = "'" + name.replace("'", "''") + "'"
            except NexusError:
                self._zone = f"INTERVAL '{datetime.now().astimezone():%z}'"
        return self._zone

    def notify(self) -> None:
        self._execute(f"NOTIFY {_CHANNEL}", ())

    def wait_for_change(self, seconds: float) -> bool:
        """See `Database`; also True at the first call and after a lost connection, since changes may have been
        missed."""
        self._require_open()
        try:
            if self._listener is None or self._listener.closed:
                with self._lock:
                    self._listener = open_connection(self._url)[0]
                self._listener.execute(f"LISTEN {_CHANNEL}")
                return True
            return any(True for _ in self._listener.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error:
            self._listener = None
            time.sleep(min(1.0, seconds))
            return True

    def size(self) -> int:
        """Return the bytes of the texts that this role can see."""
        return self.number("SELECT coalesce(sum(octet_length(data)), 0) FROM blobs")

    def shrink(self) -> None:
        """Do nothing: the server's autovacuum releases deleted rows."""

    def close(self) -> None:
        with self._lock:
            if self._ended is not None:
                return
            with suppress(NexusError, psycopg.Error):
                if self.pending and not self._is_lost:
                    with self.write():
                        pass
            self._ended = NexusError("ledger", "the ledger cannot be used", "it has been closed")
            for connection in (self._server, self._listener):
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
