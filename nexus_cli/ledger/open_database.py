"""Open a ledger file: folders and modes, WAL, schema upgrades, a broken file set aside.

Owns every failure before the first statement. The tables are in `schema`.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import private_dir
from nexus_cli.core.clock import local_now
from nexus_cli.core.errors import NexusError, reason_of, write_failure_hint
from nexus_cli.core.real_files import NEW
from nexus_cli.ledger import schema
from nexus_cli.ledger.database import DAMAGED, POLL_SECONDS, ledger_error, primary_code, retry_while_busy

_EVERY_CONNECTION = (
    "foreign_keys = ON",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "journal_size_limit = 8388608",
)
_EMPTY_FILE = ("page_size = 8192", "auto_vacuum = INCREMENTAL")
"""Set before the first table: set later, the second one would write at every opening."""
REPLACED = ".broken-"
"""Between the names of a ledger and of the damaged file that it replaced, and the time."""
_RECOVERY_HINTS = "Check its permissions, or set NEXUS_HOME to another folder"


def connect_memory() -> sqlite3.Connection:
    """Return a connection to an empty ledger in memory."""
    connection = _connect(":memory:")
    _set_page_layout(connection)
    schema.upgrade(connection)
    return connection


def connect(path: Path, notices: list[str]) -> sqlite3.Connection:
    """Return a connection to the ledger at `path`, created or upgraded as needed.

    A file that is not a database, or is damaged, is renamed and reported in `notices`. Raises `NexusError("ledger",
    ...)` for a place that is not writable, a newer schema, or another program's database.
    """
    what = f"the ledger {path} cannot be opened"
    lock_path = lock_folder(path) / "opening.lock"
    try:
        with FileLock.wait(lock_path, shared=True):
            connection = _connect_unless_damaged(path, _connect_if_current)
        if connection is not None:
            return connection
        with FileLock.wait(lock_path):  # no other process opens it now, so that it can be created, altered or renamed
            return _connect_exclusively(path, notices)
    except OSError as error:
        why = reason_of(error)
        why = f"{error.filename}: {why}" if error.filename == str(lock_path) else why
        raise NexusError("ledger", what, why, write_failure_hint(error, _RECOVERY_HINTS)) from error
    except sqlite3.DatabaseError as error:
        raise ledger_error(error, what) from error


def lock_folder(path: Path) -> Path:
    """Return the folder of lock files of the ledger at `path`."""
    return path.parent / "locks"


def _make_private_file(path: Path) -> None:
    """Create the folder and an empty file, both private; SQLite gives -wal and -shm the mode of the file."""
    private_dir(path.parent)
    # Do not open an existing file here: closing it would release the POSIX locks of this process's connections.
    try:
        os.close(os.open(path, NEW, 0o600))
    except FileExistsError:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "the path is not a regular file") from None
        if not os.access(path, os.R_OK | os.W_OK):
            raise OSError(0, "the file cannot be written") from None
        if stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(0o600)


def _connect(target: str) -> sqlite3.Connection:
    connection = sqlite3.connect(target, timeout=POLL_SECONDS, isolation_level=None, check_same_thread=False)
    for pragma in _EVERY_CONNECTION:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _connect_if_current(path: Path) -> sqlite3.Connection | None:
    """Return a connection if the file is a ledger with the current schema, else None."""
    connection = _connect(str(path))
    try:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if check_version(connection, path) == len(schema.STEPS) and mode == "wal":
            for table, key in (("sessions", "key"), ("blobs", "id"), ("lanes", "id"), ("epochs", "key")):
                connection.execute(f"SELECT max({key}) FROM {table}").fetchone()
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _set_page_layout(connection: sqlite3.Connection) -> None:
    for pragma in _EMPTY_FILE:
        connection.execute(f"PRAGMA {pragma}")


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a file; raise `NexusError("ledger", ...)` if this program cannot use it."""
    connection.execute("BEGIN")  # one snapshot for all three: another program may be creating its tables
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version_read = schema.version(connection)
    connection.execute("COMMIT")
    if owner != schema.APPLICATION and tables:
        why = "the database belongs to another program"
        raise NexusError("ledger", f"the ledger {path} cannot be opened", why, "Set NEXUS_HOME to another folder")
    if version_read > len(schema.STEPS):
        why = f"a newer nexus wrote the ledger (schema {version_read}, supported: {len(schema.STEPS)})"
        hint = "Upgrade nexus, or set NEXUS_HOME to another folder"
        raise NexusError("ledger", f"the ledger {path} cannot be opened", why, hint)
    return version_read


def _connect_unless_damaged(
    path: Path, connect_file: Callable[[Path], sqlite3.Connection | None]
) -> sqlite3.Connection | None:
    """Return the connection that `connect_file` returns, None if the file is damaged."""
    _make_private_file(path)
    try:
        return retry_while_busy(lambda: connect_file(path))
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in DAMAGED:
            raise
    except UnicodeDecodeError:  # the error of SQLite quotes the bytes of a damaged schema
        pass
    return None


def _connect_exclusively(path: Path, notices: list[str]) -> sqlite3.Connection:
    """Create or upgrade the ledger, or set a broken one aside; return a connection."""
    if connection := _connect_unless_damaged(path, _create_or_upgrade):
        return connection
    aside = _set_aside(path)
    notices.append(f"the ledger was damaged: nexus moved it to {aside} and created a new ledger")
    _make_private_file(path)
    return retry_while_busy(lambda: _create_or_upgrade(path))


def _create_or_upgrade(path: Path) -> sqlite3.Connection:
    connection = _connect(str(path))
    try:
        if check_version(connection, path) == 0:
            _set_page_layout(connection)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        schema.upgrade(connection)
    finally:
        connection.close()
    ready = _connect_if_current(path)
    if ready is None:
        why = "SQLite could not enable its write-ahead log, perhaps because of the file system"
        raise NexusError(
            "ledger", f"the ledger {path} cannot be opened", why, "Set NEXUS_HOME to a folder on another file system"
        )
    return ready


def _set_aside(path: Path) -> Path:
    """Rename the file, with its -wal and -shm, to an unused name."""
    base = f"{path.name}{REPLACED}{local_now():%Y%m%d-%H%M%S}"
    aside, count = path.with_name(base), 1
    while aside.exists():
        count += 1
        aside = path.with_name(f"{base}-{count}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside
