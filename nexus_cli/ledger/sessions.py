"""Sessions: created, listed, found, renamed. Listings read columns of the session table, not entries.

Forks are in `forking`, deletion in `purge`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import AmbiguousError, NexusError, UsageError
from nexus_cli.core.front_ends import RUN
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.usage import Usage, round_dollars
from nexus_cli.ledger import blobs
from nexus_cli.ledger.database import Database, Row

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits of base 32."""
FIRST_TEXT = 200
"""Characters of the first message that a listing keeps."""
MAIN = "main"
"""Agent of a session's main lane."""
SIDE_WORK = ("sleep_consolidate",)
"""Recipes of nexus's own work, which runs in a session of its own, in lanes beside an empty main lane."""
_ID_LENGTH = 26
SHOWN_ID = 6
"""Characters at the end of an id that people are shown: its beginning is the time, the same for a quarter of an hour.
"""
_NEAREST_AMONG = 500

_COLUMNS = (
    "id, name, folder, project, model, recipe, created, updated, entries, turns, parent, first_text,"
    " unpriced, front, main, cost, spawner, worktree, saved"
)

LAST_USED = "used DESC, updated DESC, key DESC"
"""The session used last comes first, in the order of writing: a clock may have been set back."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Facts about a session that need no entry."""

    json_fields: ClassVar = """
        id name folder project model recipe created updated turns parent first_text cost_usd front known_usd spawner
        worktree saved_usd entry_count:entries
    """
    id: str
    """A ULID: sorts by its creation time."""
    name: str
    folder: str
    project: str
    model: str
    recipe: str
    created: str
    """ISO 8601, UTC."""
    updated: str
    entries: int
    """Number of entries in the main lane, including those that a fork shares."""
    turns: int
    """Number of these entries that are messages of the person."""
    parent: str | None
    """The session that this one was forked from."""
    first_text: str
    """The beginning of the person's first message, at most 200 characters."""
    cost_usd: float | None
    """Dollars of its requests in all lanes and of its workers; null if a price is unknown."""
    front: str
    """Its front end: `ask` for a run of `nexus ask`, `serve` for an agent of a server, `chat` once the REPL created it
    or opened it."""
    main_lane: int
    known_usd: float
    """Dollars of the requests with a known price."""
    spawner: str | None = None
    """The session that this one works for as a worker; lists do not show such a session by itself."""
    worktree: str = ""
    """Name of its worktree, "" without one."""
    saved_usd: float = 0.0
    """Dollars that the cache saved in the requests whose cost components are known."""


def ulid(at: str) -> str:
    """Return a new id that sorts by its time `at` (ISO 8601, by default now): 48 bits of milliseconds and 80 random
    bits."""
    try:
        milliseconds = int(datetime.fromisoformat(at).timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = time.time_ns() // 1_000_000
    milliseconds = min(max(milliseconds, 0), (1 << 48) - 1)
    number = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def create(
    db: Database,
    *,
    folder: str,
    project: str,
    model: str,
    recipe: str,
    name: str,
    at: str,
    front: str,
    parent: str | None = None,
    spawner: str | None = None,
    worktree: str = "",
) -> SessionInfo:
    """Create a session without lanes, inside a transaction, and return it.

    Raises `UsageError` if the name is taken.
    """
    folder, project, title = replace_surrogates(folder), replace_surrogates(project), check_name(db, name)
    text = (ulid(at), title, folder, project, model, recipe, at, at)
    db.run(
        "INSERT INTO sessions (id, name, folder, project, model, recipe, created, updated, front, parent, spawner,"
        f" worktree, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {db.next_use})",
        *text,
        front,
        parent,
        spawner,
        worktree,
    )
    return SessionInfo(*text, 0, 0, parent, "", 0.0, front, 0, 0.0, spawner, worktree)


def open_main(db: Database, session: SessionInfo) -> Callable[[], list[Row]]:
    """Create the main lane of a new session, inside a transaction; the function that is returned returns a row with the
    keys of session and lane."""
    insert = "INSERT INTO lanes (session, agent, recipe) SELECT key, ?, ? FROM sessions WHERE id = ?"
    db.run(insert, MAIN, session.recipe, session.id)
    newest = "(SELECT max(id) FROM lanes WHERE session = sessions.key)"
    db.run(f"UPDATE sessions SET main = {newest} WHERE id = ?", session.id)
    return db.begin_query("SELECT key, main FROM sessions WHERE id = ?", session.id)


FIND_KEY = "SELECT key FROM sessions WHERE id = ?"
"""Query of the key of a session by its whole id."""


def key_of(db: Database, session: str) -> int:
    """Return the key of a session by its whole id; raise `UsageError` if it does not exist."""
    key = db.number(FIND_KEY, session)
    if not key:
        raise _unknown_session(db, session)
    return key


def info(db: Database, session: str) -> SessionInfo:
    """Return a session by its whole id; raise `UsageError` if it does not exist."""
    if (session_info := begin_info(db, session)()) is None:
        raise _unknown_session(db, session)
    return session_info


def begin_info(db: Database, session: str) -> Callable[[], SessionInfo | None]:
    """Begin to read a session by its whole id (`Database.begin_query`); the function that is returned returns it, or
    None if it does not exist."""
    rows = db.begin_query(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", session)
    return lambda: next(map(_info, rows()), None)


def _info(row: Row) -> SessionInfo:
    """Convert a row of `_COLUMNS` to a session."""
    cost = round_dollars(row[15])
    values = (*row[:12], None if row[12] else cost, *row[13:15], cost, *row[16:18], round_dollars(row[18]))
    return SessionInfo(*values)


def select(db: Database, where: str, *values: Any) -> list[SessionInfo]:
    """Return the sessions that fulfil a condition, which may end with an order."""
    return [_info(row) for row in db.all(f"SELECT {_COLUMNS} FROM sessions WHERE {where}", *values)]


def is_part_of_id(session_id: str, word: str) -> bool:
    """True if `word` may mean the id `session_id`: the id begins with it, or its shown part does.

    For the shown part, one or two letters are not enough.
    """
    return session_id.startswith(word) or (len(word) > 2 and session_id[-SHOWN_ID:].startswith(word))


def of_front(folder: str | None, repository: str, runs: bool) -> tuple[str, tuple[str, ...]]:
    """Return a condition on sessions and its values, as `in_folder`; without `runs`, those of `nexus ask` are
    excluded."""
    where, values = in_folder(folder, repository)
    return where + f" AND front <> '{RUN}'" * (not runs), values


def in_folder(folder: str | None, repository: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on sessions and its values. Workers are excluded: they are found through their parent
    session."""
    if folder is None:
        return "spawner IS NULL", ()
    side_work = ", ".join(map(repr, SIDE_WORK))
    place, values = of_place(folder, repository)
    return f"spawner IS NULL AND {place} AND NOT (recipe IN ({side_work}) AND entries=0)", values


def of_place(folder: str, repository: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the sessions of a folder, of the worktrees of the project that it is the root of, and of
    the project `repository` if there is one; and its values."""
    in_worktree = " AND worktree <> ''" * (not repository)
    return f"(folder = ? OR project = ?{in_worktree})", (
        replace_surrogates(folder),
        replace_surrogates(repository or folder),
    )


def is_empty(db: Database, key: int) -> bool:
    """True if no lane of a session has an entry or a note."""
    tables = ("entries", "memos")
    lanes_of = "SELECT id FROM lanes WHERE session = ?"
    return not any(db.one(f"SELECT 1 FROM {table} WHERE lane IN ({lanes_of}) LIMIT 1", key) for table in tables)


def find(db: Database, key: str) -> SessionInfo:
    """Return the session that `key` names: a whole id, a prefix of one, its last characters (six or more), or a name.

    Raises `UsageError` if none matches, with the nearest name, or if several match, with a list.
    """
    key = _one_line(key)
    if not key:
        raise UsageError("no session was specified", "the id is empty", "See `nexus sessions list`")
    start = key.upper()
    where, values = _named(key)
    rows = db.all(f"SELECT {_COLUMNS} FROM sessions WHERE {where} ORDER BY {LAST_USED}", *values)
    exact = [row for row in rows if row[0] == start]
    if len(exact or rows) == 1:
        return _info((exact or rows)[0])
    if not rows:
        raise _unknown_session(db, key)
    names = name_first([f"{row[0]} ({row[1]})" if row[1] else str(row[0]) for row in rows], 5)
    raise AmbiguousError(f'"{key}" matches {len(rows)} sessions', names, "Use the full id")


def count_entry(db: Database, key: int, lane: int, entry: int, at: str, typed: str | None) -> None:
    """Count an entry of the main lane for listings, with what the person `typed` if it begins a turn; inside a
    transaction."""
    begins = typed is not None
    db.run(
        f"UPDATE sessions SET updated = {db.greatest}(updated, ?), used = {db.next_use}, entries = ?,"
        " turns = turns + ?, first_text = CASE WHEN turns = 0 AND ? THEN ? ELSE first_text END"
        " WHERE key = ? AND main = ?",
        at,
        entry,
        int(begins),
        begins,
        (typed or "")[:FIRST_TEXT],
        key,
        lane,
    )


def set_first_text(db: Database, lane: int, text: str) -> None:
    """Replace the first message in listings by `text` if it is the newest one; inside a transaction."""
    db.run("UPDATE sessions SET first_text = ? WHERE main = ? AND turns = 1", text[:FIRST_TEXT], lane)


def list_memos(db: Database, kind: str) -> list[tuple[str, JsonObject]]:
    """Return session and value of every memo of a kind in main lanes, oldest first."""
    rows = db.all(
        "SELECT s.id, b.hash, b.codec, b.data FROM sessions s JOIN memos m ON m.lane = s.main AND m.kind = ?"
        " LEFT JOIN blobs b ON b.id = m.blob ORDER BY m.key",
        kind,
    )
    return [(str(session), dict(json.loads(blobs.unpack(*text)))) for session, *text in rows]


def sort_behind_used(db: Database, session: str) -> None:
    """List a session behind those that were used here, by its time; inside a transaction."""
    db.run("UPDATE sessions SET used = 0 WHERE id = ?", session)


def owners_of(db: Database, session_ids: Sequence[str]) -> dict[str, str]:
    """Return the role that owns each session, by the session's id, on a server."""
    places = ", ".join("?" * len(session_ids))
    return dict(db.all(f"SELECT id, made_by FROM sessions WHERE id IN ({places})", *session_ids)) if session_ids else {}


def add_cost(db: Database, key: int, usage: Usage, condition: str = "1 = 1", *values: int) -> None:
    """Add the cost of a request to its session and the sessions that it works for, if the SQL `condition` with its
    `values` holds; inside a transaction."""
    db.run(
        f"""WITH RECURSIVE paying (key, spawner) AS (
            SELECT key, spawner FROM sessions WHERE key = ?
            UNION SELECT s.key, s.spawner FROM paying p JOIN sessions s ON s.id = p.spawner)
        UPDATE sessions SET cost = cost + ?, unpriced = unpriced + ?, saved = saved + ?
        WHERE key IN (SELECT key FROM paying) AND {condition}""",
        key,
        usage.cost_usd or 0.0,
        int(usage.cost_usd is None),
        usage.cost.saved,
        *values,
    )


def _one_line(name: str) -> str:
    return " ".join(replace_surrogates(name).split())


def _named(word: str) -> tuple[str, tuple[Any, ...]]:
    """Return a condition on the sessions that `word` names, as `find` says, and its values."""
    start = word.upper()
    where, values = "(id >= ? AND id < ?) OR name = ?", (start, start + "~", word)
    if not SHOWN_ID <= len(start) < _ID_LENGTH:
        return where, values
    return f"{where} OR substr(id, ?) = ?", (*values, _ID_LENGTH + 1 - len(start), start)


def check_name(db: Database, name: str, own_key: int = 0) -> str:
    """Return `name` as it is stored; raise `UsageError` if `find` would find a session other than
    `own_key` by it."""
    title = _one_line(name)
    if title:
        db.lock("names")
    where, values = _named(title)
    conflict = title and db.one(f"SELECT id, name FROM sessions WHERE key <> ? AND ({where}) LIMIT 1", own_key, *values)
    if conflict:
        part = "begins" if conflict[0].startswith(title.upper()) else "ends"
        why = (
            f"session {conflict[0]} has this name"
            if conflict[1] == title
            else f"the id of session {conflict[0]} {part} with this name"
        )
        raise UsageError(f'the name "{title}" is taken', why, "Choose another name")
    return title


def _unknown_session(db: Database, key: str) -> NexusError:
    import difflib  # noqa: PLC0415  (only to help with a mistake)

    rows = db.all(f"SELECT name, id FROM sessions ORDER BY {LAST_USED} LIMIT ?", _NEAREST_AMONG)
    near = difflib.get_close_matches(key, [row[0] for row in rows if row[0]], 1)
    near = near or difflib.get_close_matches(key.upper(), [row[1] for row in rows], 1)
    hint = f"Did you mean `{near[0]}`? See `nexus sessions list`" if near else "See `nexus sessions list`"
    return UsageError(f'session "{key}"', "there is no such session", hint)
