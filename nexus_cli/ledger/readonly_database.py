"""Read a ledger without creating, locking, upgrading or writing anything, not even beside it.

SQLite reads a database in write-ahead mode only with its -wal and -shm files, or as immutable. We treat it as immutable
as long as its log is empty or missing. No lock guarantees that, so each query checks afterwards that the file is
unchanged.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.ledger import schema
from nexus_cli.ledger.database import Database, Row, ledger_error, primary_code, retry_while_busy
from nexus_cli.ledger.open_database import check_version

UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
"""SQLite's codes for a place that is read-only or full."""
_NOTHING_IN_IT = (
    "the file is empty and cannot be initialized",
    "Free some space on its disk, or make its folder writable",
)
_WRITABLE = "Make its folder writable, or copy the folder to a writable place and set NEXUS_HOME"


def is_unwritable(error: NexusError) -> bool:
    """True if a ledger could not be opened because its place is not writable."""
    cause = error.__cause__
    return isinstance(cause, OSError) or (isinstance(cause, sqlite3.Error) and primary_code(cause) in UNWRITABLE)


def connect_readonly(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Return a connection that leaves no trace, and True if it relies on nobody writing. Raises `sqlite3.Error`."""
    log = path.with_name(f"{path.name}-wal")
    alone = not (log.exists() and log.stat().st_size)
    how = "immutable=1" if alone else "readonly_shm=1"
    uri = f"{path.absolute().as_uri()}?mode=ro&{how}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False), alone


class ReadOnlyDatabase(Database):
    """One connection that only reads."""

    writes = False

    def __init__(self, path: Path) -> None:
        """Raise `NexusError("ledger", ...)` if the file cannot be read; the caller checks its version."""
        self._path = path
        try:
            self._state = _state(path)
            connection, self._alone = connect_readonly(path)
            super().__init__(connection)
            try:
                connection.execute("PRAGMA temp_store = MEMORY")
                retry_while_busy(lambda: connection.execute("SELECT count(*) FROM sqlite_master").fetchone())
            except sqlite3.Error:
                connection.close()
                raise
        except OSError as error:
            raise NexusError("ledger", self._error_subject, reason_of(error), "Check its permissions") from error
        except sqlite3.OperationalError as error:
            if primary_code(error) not in UNWRITABLE:
                raise ledger_error(error, self._error_subject) from error
            why = "SQLite could not open the file; it can read a write-ahead log only in a writable folder"
            raise NexusError("ledger", self._error_subject, why, _WRITABLE) from error
        except sqlite3.DatabaseError as error:
            raise ledger_error(error, self._error_subject) from error

    @property
    def _error_subject(self) -> str:
        return f"the ledger {self._path} cannot be read"

    def _ask(self, sql: str, values: Row) -> list[Row]:
        """See `Database`; also `NexusError("ledger", ...)` if another program has written meanwhile."""
        try:
            return super()._ask(sql, values)
        finally:
            self._require_unchanged()

    def defer_statement(self, sql: str, *values: Any) -> None:
        """Do nothing: the statement may be lost."""

    def _require_unchanged(self) -> None:
        if self._alone and _state(self._path) != self._state:
            raise NexusError("ledger", self._error_subject, "another process changed the file meanwhile", "Try again")


def open_readonly(path: Path) -> ReadOnlyDatabase:
    """Open the ledger at `path` unchanged; raise `NexusError("ledger", ...)` if it is unreadable or needs an
    upgrade."""
    database = ReadOnlyDatabase(path)
    try:
        if (steps := check_version(database.connection, path)) != len(schema.STEPS):
            old = f"the schema is too old ({steps}, required: {len(schema.STEPS)})"
            why = f"{old}, and an upgrade requires a writable folder", _WRITABLE
            problem = why if steps else _NOTHING_IN_IT
            raise NexusError("ledger", f"the ledger {path} cannot be read", *problem)
    except BaseException:
        database.close()
        raise
    return database


def require_ledger(path: Path) -> None:
    """Raise `NexusError("ledger", ...)` if the file at `path` is not a ledger, or is newer or damaged; leave it as it
    is."""
    with closing(ReadOnlyDatabase(path)) as database:
        row = database.one("SELECT * FROM pragma_application_id, pragma_quick_check(1)")
        if row != (schema.APPLICATION, "ok"):
            why, hint = "the file is damaged or not a ledger", "Specify a ledger, or a new path, as TO"
            raise NexusError("ledger", f"the file {path} was left unchanged", why, hint)
        check_version(database.connection, path)


def _state(path: Path) -> tuple[int, int, int]:
    """Return the parts of a file's status that change when it is written; raise `OSError` if it cannot be read."""
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns
