"""The tables of the ledger, and the steps that upgrade an older file.

`user_version` counts the steps taken. A step is a tuple of statements; an upgrade takes all of them or none. The first
step makes a new ledger, with all that the later ones add to an older file. A change of the tables is a change of the
first step and a new step at the end, with a stored ledger of its own in tests/ledger; a later step is never edited.

Text is in `blobs` alone, once per content; the other tables refer to it. Rows that no fork needs are deleted with their
session (`purge`); a lane or epoch that a fork still needs stays, with `session` NULL.
"""

from __future__ import annotations

import sqlite3
from itertools import chain

from nexus_cli.ledger import database

APPLICATION = 0x6E657875
"""SQLite's application_id of a ledger: "nexu"."""

_BY_USE = "CREATE INDEX sessions_used ON sessions (used)"
_BY_SPAWNER = "CREATE INDEX sessions_spawner ON sessions (spawner) WHERE spawner IS NOT NULL"

_SESSIONS = (
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        folder TEXT NOT NULL, project TEXT NOT NULL, model TEXT NOT NULL, recipe TEXT NOT NULL,
        created TEXT NOT NULL, updated TEXT NOT NULL, parent TEXT, main INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0, first_text TEXT NOT NULL DEFAULT '',
        cost REAL NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, drops INTEGER NOT NULL DEFAULT 0,
        used INTEGER NOT NULL DEFAULT 0, front TEXT NOT NULL DEFAULT '', spawner TEXT,
        worktree TEXT NOT NULL DEFAULT '', saved REAL NOT NULL DEFAULT 0
    ) STRICT""",
    "CREATE INDEX sessions_folder ON sessions (folder)",
    _BY_USE,
    _BY_SPAWNER,
    """CREATE TABLE blobs (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, codec INTEGER NOT NULL, data BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE lanes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER REFERENCES sessions ON DELETE SET NULL,
        agent TEXT NOT NULL, recipe TEXT NOT NULL, parent INTEGER, parent_entry INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER, origin INTEGER, cursor INTEGER NOT NULL DEFAULT 0, sent INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    "CREATE INDEX lanes_session ON lanes (session)",
)

_RECORD = (
    """CREATE TABLE entries (
        lane INTEGER NOT NULL REFERENCES lanes ON DELETE CASCADE, id INTEGER NOT NULL, at TEXT NOT NULL,
        actor TEXT NOT NULL, kind TEXT NOT NULL, blob INTEGER NOT NULL, preamble TEXT NOT NULL,
        tokens INTEGER NOT NULL, line BLOB, PRIMARY KEY (lane, id)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE fixes (
        lane INTEGER NOT NULL REFERENCES lanes ON DELETE CASCADE, entry INTEGER NOT NULL, preamble TEXT NOT NULL,
        tokens INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (lane, entry)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE started (
        lane INTEGER NOT NULL REFERENCES lanes ON DELETE CASCADE, call TEXT NOT NULL, name TEXT NOT NULL,
        at TEXT NOT NULL, entry INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (lane, call)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE epochs (
        key INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER REFERENCES sessions ON DELETE SET NULL,
        id INTEGER NOT NULL, parent INTEGER, cause TEXT NOT NULL, model TEXT NOT NULL, system INTEGER NOT NULL,
        rules INTEGER NOT NULL, base INTEGER NOT NULL, after INTEGER NOT NULL, system_tokens INTEGER NOT NULL,
        tools_tokens INTEGER NOT NULL, tool_choice TEXT NOT NULL, effort TEXT NOT NULL,
        sections INTEGER NOT NULL, UNIQUE (session, id)
    ) STRICT""",
    """CREATE TABLE schemas (
        epoch INTEGER NOT NULL REFERENCES epochs ON DELETE CASCADE, position INTEGER NOT NULL, blob INTEGER NOT NULL,
        PRIMARY KEY (epoch, position)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE slots (
        epoch INTEGER NOT NULL REFERENCES epochs ON DELETE CASCADE, position INTEGER NOT NULL,
        entry INTEGER NOT NULL, form TEXT NOT NULL, blob INTEGER NOT NULL, preamble TEXT NOT NULL,
        tokens INTEGER NOT NULL, line BLOB, PRIMARY KEY (epoch, position)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE requests (
        lane INTEGER NOT NULL REFERENCES lanes ON DELETE CASCADE, step INTEGER NOT NULL, epoch INTEGER NOT NULL,
        last_entry INTEGER NOT NULL, arguments INTEGER NOT NULL, sha256 BLOB NOT NULL, estimate INTEGER NOT NULL,
        at TEXT NOT NULL, finish TEXT, reported INTEGER, input INTEGER, output INTEGER, cache_read INTEGER,
        cache_write INTEGER, reasoning INTEGER, cost REAL, cached INTEGER NOT NULL DEFAULT 0,
        sent TEXT NOT NULL DEFAULT '', cost_input REAL NOT NULL DEFAULT 0, cost_cached REAL NOT NULL DEFAULT 0,
        cost_written REAL NOT NULL DEFAULT 0, cost_output REAL NOT NULL DEFAULT 0, saved REAL NOT NULL DEFAULT 0,
        PRIMARY KEY (lane, step)
    ) STRICT, WITHOUT ROWID""",
)

_KNOWLEDGE = (
    """CREATE TABLE drops (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, seq INTEGER NOT NULL, lane INTEGER NOT NULL,
        after INTEGER NOT NULL, what TEXT NOT NULL, tokens INTEGER NOT NULL, cause TEXT NOT NULL, at TEXT NOT NULL,
        first_entry INTEGER, last_entry INTEGER, blob INTEGER, uncounted INTEGER NOT NULL,
        recalls INTEGER NOT NULL, PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE files (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, path BLOB NOT NULL, digest TEXT NOT NULL,
        how TEXT NOT NULL, at TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (session, path)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE calibrations (
        model TEXT PRIMARY KEY, factor REAL NOT NULL, reports INTEGER NOT NULL, worst REAL NOT NULL,
        window INTEGER NOT NULL, kinds TEXT NOT NULL DEFAULT '[]'
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE counts (
        digest BLOB NOT NULL, encoding TEXT NOT NULL, tokens INTEGER NOT NULL, session INTEGER NOT NULL,
        PRIMARY KEY (digest, encoding)
    ) STRICT, WITHOUT ROWID""",
)

_MEMOS = (
    """CREATE TABLE memos (
        key INTEGER PRIMARY KEY AUTOINCREMENT, lane INTEGER NOT NULL REFERENCES lanes ON DELETE CASCADE,
        entry INTEGER NOT NULL, kind TEXT NOT NULL, at TEXT NOT NULL, blob INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX memos_lane ON memos (lane, kind)",
    """CREATE TABLE facts (
        key INTEGER PRIMARY KEY AUTOINCREMENT, slot TEXT NOT NULL, project TEXT NOT NULL, text TEXT NOT NULL,
        state TEXT NOT NULL, at TEXT NOT NULL, changed TEXT NOT NULL, actor TEXT NOT NULL, session TEXT NOT NULL,
        entry INTEGER NOT NULL, quote TEXT NOT NULL, accepted TEXT NOT NULL DEFAULT '',
        replaces TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    "CREATE INDEX facts_slot ON facts (slot, project, state)",
)

_RUNS = (
    """CREATE TABLE entities (
        key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folded TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
        options TEXT NOT NULL DEFAULT '{}'
    ) STRICT""",
    """CREATE TABLE spaces (
        key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folded TEXT NOT NULL UNIQUE, project TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE members (
        space INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entities ON DELETE CASCADE, seen INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (space, entity)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX members_entity ON members (entity)",
    """CREATE TABLE messages (
        key INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
        sender INTEGER NOT NULL REFERENCES entities, at TEXT NOT NULL, text TEXT NOT NULL, reply_to INTEGER,
        waits INTEGER NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '{}', hops INTEGER NOT NULL DEFAULT 0,
        session TEXT NOT NULL DEFAULT '', call TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    "CREATE INDEX messages_space ON messages (space, key)",
    # A call that an earlier process began has posted its message, or has not.
    "CREATE UNIQUE INDEX messages_call ON messages (session, call) WHERE call <> ''",
    """CREATE TABLE runs (
        key INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, type TEXT NOT NULL, title TEXT NOT NULL,
        run_trigger TEXT NOT NULL, options TEXT NOT NULL, cause TEXT NOT NULL DEFAULT '',
        session TEXT NOT NULL DEFAULT '', entity INTEGER, space INTEGER, message INTEGER, plan INTEGER,
        waits TEXT NOT NULL DEFAULT '', wake_at REAL, owner TEXT NOT NULL DEFAULT '', lease REAL,
        fence INTEGER NOT NULL DEFAULT 0, resumes INTEGER NOT NULL DEFAULT 0, report TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '', cost REAL, created TEXT NOT NULL, updated TEXT NOT NULL
    ) STRICT""",
    # A firing of a plan, a message to an agent: whoever sees it first queues its run, and nobody a second one.
    "CREATE UNIQUE INDEX runs_cause ON runs (cause) WHERE cause <> ''",
    "CREATE INDEX runs_open ON runs (state) WHERE state IN ('queued', 'running', 'waiting_reply')",
    "CREATE INDEX runs_session ON runs (session) WHERE session <> ''",
    """CREATE TABLE signals (
        key INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        at TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    "CREATE INDEX signals_run ON signals (run, taken)",
    """CREATE TABLE plans (
        key INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL, name TEXT NOT NULL DEFAULT '',
        options TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT NULL, missed TEXT NOT NULL, next_at REAL, last_at REAL,
        paused INTEGER NOT NULL DEFAULT 0, created TEXT NOT NULL
    ) STRICT""",
)

STEPS: tuple[tuple[str, ...], ...] = (
    (*_SESSIONS, *_RECORD, *_KNOWLEDGE, *_MEMOS, *_RUNS),
    (
        "ALTER TABLE started ADD COLUMN entry INTEGER NOT NULL DEFAULT 0",
        "UPDATE started SET entry = CAST(substr(call, 2) AS INTEGER)",  # call ids begin with a letter and their entry
    ),
    (
        *_MEMOS,
        "ALTER TABLE requests ADD COLUMN cached INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE requests ADD COLUMN sent TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE calibrations ADD COLUMN kinds TEXT NOT NULL DEFAULT '[]'",
    ),
    ("ALTER TABLE sessions ADD COLUMN used INTEGER NOT NULL DEFAULT 0", _BY_USE),
    (
        "ALTER TABLE sessions ADD COLUMN front TEXT NOT NULL DEFAULT ''",
        # It was not recorded before. A session kept the recipe of the front end that began it, unless another was
        # named.
        "UPDATE sessions SET front = CASE WHEN recipe IN ('ask', 'sleep_consolidate') THEN 'ask' ELSE 'chat' END",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN spawner TEXT",
        "ALTER TABLE sessions ADD COLUMN worktree TEXT NOT NULL DEFAULT ''",
        _BY_SPAWNER,
    ),
    _RUNS,
    (),  # Only a server tells roles apart: see `postgres_rights`, and `_SHARES` of `postgres_schema`.
    (
        # Zeros in older requests: what is missing to the cost has no known component.
        *(
            f"ALTER TABLE requests ADD COLUMN {name} REAL NOT NULL DEFAULT 0"
            for name in ("cost_input", "cost_cached", "cost_written", "cost_output", "saved")
        ),
        "ALTER TABLE sessions ADD COLUMN saved REAL NOT NULL DEFAULT 0",
    ),
)
"""Statements that upgrade version n to n + 1; the first ones make a new ledger of the newest version. A step that makes
a table which a later step alters makes it in its former form."""


def version(connection: sqlite3.Connection) -> int:
    """Return the number of steps that this file has taken."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def upgrade(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty ledger, or take every step that an older one lacks, in one transaction. Safe if
    several processes do so at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        taken_steps = version(connection)
        if missing := STEPS[taken_steps:] if taken_steps else STEPS[:1]:
            for statement in chain.from_iterable(missing):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(STEPS)}")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        database.commit(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
