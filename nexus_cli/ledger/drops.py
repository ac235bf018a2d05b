"""Drops: content left out of requests, and the ways to read it back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from nexus_cli.core.entry import Drop, format_transcript
from nexus_cli.core.memo_kinds import LEFT_OUT_SECTION
from nexus_cli.core.message import replace_surrogates
from nexus_cli.ledger import blobs, entries, lanes
from nexus_cli.ledger.database import Database, Query, Row

LEARNED = 200
"""Newest sessions of the project that count for learned multipliers, so that old ones are forgotten."""
_ID = re.compile(r"d([1-9][0-9]{0,17})")
_COLUMNS = "seq, what, tokens, cause, at, first_entry, last_entry, uncounted, recalls, after"


def next_id(db: Database, session: int) -> str:
    """Return a new id, unique in the session over processes and lanes; inside a transaction.

    A forked session continues its parent's ids.
    """
    db.run("UPDATE sessions SET drops = drops + 1 WHERE key = ?", session)
    return f"d{last(db, session)}"


def last(db: Database, session: int) -> int:
    """Return the number in the newest id, 0 before the first."""
    return db.number("SELECT drops FROM sessions WHERE key = ?", session)


def record(db: Database, lane: int, drop: Drop) -> None:
    """Record `drop`; inside a transaction. Raises `NexusError("ledger", ...)` if its id is taken."""
    session, seq = lanes.session_of(db, lane), _seq(drop.id)
    db.run(f"UPDATE sessions SET drops = {db.greatest}(drops, ?) WHERE key = ?", seq, session)
    first, last = drop.entries or (None, None)
    stored = () if drop.text is None else blobs.put(db, session, replace_surrogates(drop.text).encode())
    db.run(
        f"INSERT INTO drops VALUES (?, ?, ?, ({lanes.LAST_ID}), ?, ?, ?, ?, ?, ?,"
        f" {db.blob_id if stored else 'NULL'}, ?, ?)",
        session,
        seq,
        lane,
        lane,
        replace_surrogates(drop.what),
        drop.tokens,
        str(drop.cause),
        drop.at,
        first,
        last,
        *stored,
        drop.uncounted,
        drop.recalls,
    )


def begin_list(db: Database, session: str) -> Callable[[], list[Drop]]:
    """Begin to read every drop of a session, by its whole id, and of those it was forked from (`Database.begin_query`).
    The function that is returned returns them, oldest first, without texts."""
    which = "session = (SELECT key FROM sessions WHERE id = ?)"
    rows = db.begin_query(f"SELECT {_COLUMNS} FROM drops WHERE {which} ORDER BY seq", session)
    return lambda: [_drop(row) for row in rows()]


def original(db: Database, session: int, drop_id: str) -> str | None:
    """Return the whole original, None if the session has no such drop.

    For a range of entries the original is their transcript; for a drop without stored text it is "".
    """
    seq = _seq(drop_id)
    row = db.one(
        "SELECT blob, lane, first_entry, last_entry FROM drops WHERE session = ? AND seq = ?", session, seq or 0
    )
    if row is None:
        return None
    if row[0] is not None:
        return blobs.get(db, row[0]).decode()
    return "" if row[2] is None else format_transcript(entries.read(db, row[1], row[2], row[3]))


def count_recall(db: Database, session: int, drop_id: str) -> None:
    """Count a recall of the drop; inside a transaction."""
    db.run("UPDATE drops SET recalls = recalls + 1 WHERE session = ? AND seq = ?", session, _seq(drop_id) or 0)


def misses_queries(project: str) -> tuple[Query, Query]:
    """Return the queries, with their values, of the memos of left-out sections in the newest sessions of a project,
    which have `section` and `drop`, and of the drops there that were recalled."""
    newest = "(SELECT key FROM sessions WHERE project = ? ORDER BY key DESC LIMIT ?)"
    values = replace_surrogates(project), LEARNED
    missed = (
        "SELECT lanes.session, b.hash, b.codec, b.data FROM lanes JOIN memos ON memos.lane = lanes.id"
        f" LEFT JOIN blobs b ON b.id = memos.blob WHERE lanes.session IN {newest} AND memos.kind = ?"
    )
    recalled = f"SELECT session, seq FROM drops WHERE session IN {newest} AND recalls > 0"
    return (missed, *values, LEFT_OUT_SECTION), (recalled, *values)


def count_misses(db: Database, project: str) -> dict[str, tuple[int, int]]:
    """Return for each section that a memo names how often it was left out, and how often of these its drop was
    recalled."""
    queries = misses_queries(project)
    rows = db.recent(*queries)
    recalled = {(session, f"d{seq}") for session, seq in (db.recent(queries[1]) if rows else ())}
    counts: dict[str, tuple[int, int]] = {}
    for session, *text in rows:
        value = json.loads(blobs.unpack(*text))
        missed, recall_count = counts.get(value["section"], (0, 0))
        counts[value["section"]] = missed + 1, recall_count + ((session, value["drop"]) in recalled)
    return counts


def _drop(row: Row) -> Drop:
    seq, what, tokens, cause, at, first, last, *counts = row
    return Drop(f"d{seq}", what, tokens, cause, at, None if first is None else (first, last), None, *counts)


def _seq(drop_id: str) -> int | None:
    """Return the number in a drop's id, None for anything else."""
    match = _ID.fullmatch(drop_id.strip())
    return int(match[1]) if match else None
