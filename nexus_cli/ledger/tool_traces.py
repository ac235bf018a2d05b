"""Traces of work outside the conversation: files that a session saw, and tool calls that were started."""

from __future__ import annotations

from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import SeenFile
from nexus_cli.ledger import lanes
from nexus_cli.ledger.database import Database


def file_digest(db: Database, session: int, path: str) -> str | None:
    """Return the hash of the file at `path` when this session last read or wrote it, or None."""
    row = db.one("SELECT digest FROM files WHERE session = ? AND path = ?", session, _bytes(path))
    return str(row[0]) if row else None


def note_file(db: Database, lane: int, path: str, digest: str, how: str, at: str) -> None:
    """Record the hash of the file at `path`, and its strongest use; inside a transaction."""
    session = lanes.session_of(db, lane)
    newest = "coalesce((SELECT max(id) FROM entries WHERE lane = lanes.id), parent_entry)"
    strongest = "CASE WHEN files.how = 'created' OR excluded.how = 'read' THEN files.how ELSE excluded.how END"
    db.run(
        f"INSERT INTO files SELECT ?, ?, ?, ?, ?, {newest} FROM lanes"
        " WHERE id = coalesce((SELECT main FROM sessions WHERE key = ?), ?) ON CONFLICT (session, path)"
        f" DO UPDATE SET digest = excluded.digest, how = {strongest}, at = excluded.at, entry = excluded.entry",
        session,
        _bytes(path),
        digest,
        how,
        at,
        session,
        lane,
    )


def files(db: Database, session: int) -> list[tuple[str, str]]:
    """Return path and use (`read`, `changed`, `created`) of every file that the session saw, by path."""
    rows = db.all("SELECT path, how FROM files WHERE session = ? ORDER BY path", session)
    return [(row[0].decode("utf-8", "surrogatepass"), row[1]) for row in rows]


def seen_files(db: Database, session: int, most: int) -> list[SeenFile]:
    """Return the files that the session saw last, newest first."""
    rows = db.all(
        "SELECT path, how, digest, at, entry FROM files WHERE session = ? ORDER BY at DESC, path LIMIT ?", session, most
    )
    return [SeenFile(row[0].decode("utf-8", "surrogatepass"), *row[1:]) for row in rows]


def _bytes(path: str) -> bytes:
    """Return a file name as bytes, so that names that are not UTF-8 stay distinct."""
    return path.encode("utf-8", "surrogatepass")


def record_start(db: Database, lane: int, call: str, name: str, at: str) -> None:
    """Record that a tool is about to run for `call`; inside a transaction.

    Raises `NexusError("ledger", ...)` if it was started before: it must not run again.
    """
    lanes.session_of(db, lane)
    if was_started(db, lane, call):
        raise NexusError("ledger", f"the call {call} cannot start", "it was started before and may have run")
    insert = f"INSERT INTO started (lane, call, name, at, entry) SELECT ?, ?, ?, ?, ({lanes.LAST_ID})"
    db.run(insert, lane, call, name, at, lane)


def was_started(db: Database, lane: int, call: str) -> bool:
    """True if the tool of `call` was started in this lane, or in an ancestor before the fork.

    Later calls of an ancestor have the same ids, because both lanes continue counting from the fork.
    """
    shown, values = lanes.select_shown(db, lane)
    return db.one(f"SELECT 1 FROM started WHERE call = ? AND ({shown})", call, *values) is not None
