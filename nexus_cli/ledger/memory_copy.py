"""Copy a session into a database in memory, with the same keys and ids, when its ledger file has failed."""

from __future__ import annotations

from nexus_cli.ledger import sessions
from nexus_cli.ledger.blobs import select_blobs
from nexus_cli.ledger.database import Database

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
_ROWS = {
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
}
_ROWS["blobs"] = f"id IN ({select_blobs(_ROWS)})"
"""By table: the rows of the session with the key `?1`."""


def copy_session(source: Database, target: Database, session: str) -> None:
    """Copy everything that `session` can reach into the empty `target`; raise `NexusError("ledger", ...)` if some of it
    is unreadable."""
    key = sessions.key_of(source, session)
    rows = {
        table: source.all(f"{_REACHED}SELECT {_columns(target, table)} FROM {table} WHERE {of}", key)
        for table, of in _ROWS.items()
    }
    target.connection.execute("PRAGMA foreign_keys = OFF")  # the sessions that it was forked from are not copied
    with target.write():
        for table, row in rows.items():
            if row:
                target.many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row[0]))})", row)


def _columns(memory: Database, table: str) -> str:
    """Return the columns of a table; on a server it has more."""
    return ", ".join(f'"{row[1]}"' for row in memory.all(f"PRAGMA table_info({table})"))


def make_empty_session(target: Database, session: str, drops: int, epochs: int) -> None:
    """Make a session whose drop and epoch ids continue after the given numbers.

    Its former epochs have no texts: reading one raises the `NexusError` of a damaged text.
    """
    with target.write():
        key = target.insert(
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


def cut_lane(target: Database, session: str, lane: int, last: int) -> None:
    """End `lane` at the entry `last`, because another process may have continued it; create the lane if it is missing;
    inside a transaction.

    Notes stay: a note about the next message is recorded before that message.
    """
    insert = "INSERT INTO lanes (id, session, agent, recipe, parent_entry) VALUES (?, ?, '', '', ?)"
    target.run(f"{insert} ON CONFLICT DO NOTHING", lane, sessions.key_of(target, session), last)
    for table, column in (("entries", "id"), ("started", "entry"), ("requests", "last_entry")):
        target.run(f"DELETE FROM {table} WHERE lane = ? AND {column} > ?", lane, last)
