"""Lanes: their ancestry, which determines the entries that a lane shows, and their notes (memos).

A lane shows its own entries and, up to the entry it was forked at, those of its parent; its ids continue the parent's.
Nothing is copied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.ledger import blobs
from nexus_cli.ledger.database import Database, Query
from nexus_cli.ledger.stored_levels import read_memo

END = (1 << 63) - 1
"""Larger than any entry id."""
SESSION_OF = "SELECT session FROM lanes WHERE id = ? AND session IS NOT NULL"
"""Query of the key of the session that owns a lane."""
_PARENT_QUERY = """WITH RECURSIVE up (depth, lane, session, parent, parent_entry, last, sent) AS (
    SELECT 0, id, session, parent, parent_entry, ?, sent FROM lanes WHERE id = ?
    UNION ALL
    SELECT depth + 1, l.id, l.session, l.parent, l.parent_entry, {least}(up.last, up.parent_entry), l.sent
    FROM up JOIN lanes l ON l.id = up.parent)"""
_ANCESTRY = f"{_PARENT_QUERY} SELECT lane, session, parent_entry + 1, last, sent FROM up ORDER BY depth"


@dataclass(frozen=True, slots=True)
class Segment:
    """The entries `first` to `last` of one lane in the ancestry; empty if `last < first`."""

    lane: int
    session: int | None
    """Key of its session; None if that was deleted and only forks need the lane."""
    first: int
    last: int
    sent: int
    """First cursor of the lane: an ancestor had sent the entries up to here."""


def ancestry(db: Database, lane: int) -> Sequence[Segment]:
    """Return the segments that `lane` shows, its own first; `NexusError("ledger", ...)` if there is no such lane."""
    rows = db.constants(*ancestry_query(db, lane))
    if not rows:
        raise missing_session()
    return [Segment(*row) for row in rows]


def missing_session() -> NexusError:
    """Return the error for a session that was deleted."""
    return NexusError(
        "ledger", "the saved session no longer exists", "another process has deleted it", "Start a new session"
    )


def ancestry_query(db: Database, lane: int) -> Query:
    """Return the query of `ancestry`, with its values."""
    return _ANCESTRY.format(least=db.least), END, lane


def cache_new_lane(db: Database, lane: int, session: int) -> None:
    """Cache the facts about a new lane without a parent, so that no query reads them."""
    db.know([(lane, session, 1, END, 0)], *ancestry_query(db, lane))
    db.know([(session,)], SESSION_OF, lane)


def session_of(db: Database, lane: int) -> int:
    """Return the key of the session that owns `lane`; `NexusError("ledger", ...)` if it was deleted."""
    rows = db.constants(SESSION_OF, lane)
    if not rows:
        raise missing_session()
    return int(rows[0][0])


def open_lane(db: Database, session: int, agent: str, recipe: str, parent: int | None, entry: int) -> int:
    """Create a lane, inside a transaction: empty, or a fork of `parent` after `entry` with its epoch."""
    if parent is None:
        statement = "INSERT INTO lanes (session, agent, recipe) VALUES (?, ?, ?)"
        return db.insert(statement, session, agent, recipe)
    if not 0 <= entry <= last_id(db, parent):
        raise ValueError(f"lane {parent} has no entry {entry}")
    # At `entry` the newest epoch in the line of parents that had begun and covers no later entry was current.
    query = f"{EPOCHS_OF_LANE.format('e.key')} WHERE e.base <= ? AND e.after <= ? ORDER BY depth LIMIT 1"
    epoch = db.value(query, parent, entry, entry)
    sent_end = min(cursor(db, parent), entry)
    return db.insert(
        "INSERT INTO lanes (session, agent, recipe, parent, parent_entry, epoch, origin, cursor, sent)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        session,
        agent,
        recipe,
        parent,
        entry,
        epoch,
        epoch,
        sent_end,
        sent_end,
    )


def of_session(db: Database, session: int) -> list[int]:
    """Return the lanes of a session in order of creation."""
    return [lane for (lane,) in db.all("SELECT id FROM lanes WHERE session = ? ORDER BY id", session)]


LAST_ID = "SELECT coalesce((SELECT max(id) FROM entries WHERE lane = lanes.id), parent_entry) FROM lanes WHERE id = ?"
"""Query of the newest entry of a lane."""


def last_id(db: Database, lane: int) -> int:
    """Return the id of the newest entry that `lane` shows, 0 if there is none."""
    return db.number(LAST_ID, lane)


def cursor(db: Database, lane: int) -> int:
    """Return the id of the last entry that was sent to the lane's model."""
    return db.number("SELECT cursor FROM lanes WHERE id = ?", lane)


def started_query(db: Database, lane: int) -> Query:
    """Return the query of the ids of the calls that were started, in `lane` or in an ancestor before the fork."""
    select = "SELECT call FROM up JOIN started s ON s.lane = up.lane AND s.entry <= up.last"
    return f"{_PARENT_QUERY.format(least=db.least)} {select}", END, lane


EPOCHS_OF_LANE = """WITH RECURSIVE line (depth, key) AS (
    SELECT 0, epoch FROM lanes WHERE id = ? AND epoch IS NOT NULL
    UNION ALL SELECT depth + 1, e.parent FROM line JOIN epochs e ON e.key = line.key WHERE e.parent IS NOT NULL)
SELECT {} FROM line JOIN epochs e ON e.key = line.key"""
"""Query of columns of the epochs `e` that led to the current one of a lane, with their `depth` below it."""


def record_note(db: Database, lane: int, memo: Memo) -> None:
    """Record a note about `lane`; inside a transaction."""
    text = replace_surrogates(json.dumps(dict(memo.value), ensure_ascii=False)).encode()
    stored = blobs.put(db, session_of(db, lane), text)
    db.noted += 1
    insert = f"INSERT INTO memos (lane, entry, kind, at, blob) VALUES (?, ?, ?, ?, {db.blob_id})"
    values = lane, memo.entry, memo.kind, memo.at, *stored
    if db.is_shared:
        db.run(insert, *values)
    else:
        db.new_notes.append((db.insert(insert, *values), lane, memo, text))


def new_notes(db: Database, lane: int) -> dict[int, Memo]:
    """Return the notes of `lane` that the present transaction has recorded in a file, by key, as they will be read."""
    mine = ((key, memo, text) for key, noted_lane, memo, text in db.new_notes if noted_lane == lane)
    return {key: replace(memo, value=read_memo(memo.kind, text)) for key, memo, text in mine}


_NOTES = """SELECT m.key, m.kind, m.at, m.entry, b.hash, b.codec, b.data
    FROM {} LEFT JOIN blobs b ON b.id = m.blob WHERE"""


def notes(
    db: Database, lane: int, kinds: Collection[str] = (), *, own: bool = False, first: int = 0
) -> dict[int, Memo]:
    """Return the notes of `lane` of some kinds, or of all kinds, oldest first, by their keys.

    A fork also has those of its ancestors up to the fork; `own` leaves these out. `first` leaves out notes before that
    entry.
    """
    return _read_notes(db.all(*notes_query(db, lane, kinds, own=own, first=first)))


def notes_query(db: Database, lane: int, kinds: Collection[str], *, own: bool = False, first: int = 0) -> Query:
    """Return the query of `notes`, with its values."""
    which = f"m.kind IN ({', '.join('?' * len(kinds))}) AND " if kinds else ""
    source = "up JOIN memos m ON m.lane = up.lane AND m.entry <= up.last"
    where = f"{which}m.entry >= ? AND up.depth <= ? ORDER BY up.depth DESC, m.key"
    query = f"{_PARENT_QUERY.format(least=db.least)} {_NOTES.format(source)} {where}"
    return query, END, lane, *kinds, first, 0 if own else END


def begin_later_notes(db: Database, lane: int, key: int, kinds: Collection[str]) -> Callable[[], dict[int, Memo]]:
    """Begin to read the notes of `lane` itself of some kinds, or of all kinds, behind the one with `key`; the function
    that is returned returns them by key."""
    # An index has the keys of a lane in order by kind only: for all kinds the keys of the ledger are the shorter way.
    which = f"lane = ? AND kind IN ({', '.join('?' * len(kinds))})" if kinds else "+lane = ?"
    rows = db.begin_query(f"{_NOTES.format('memos m')} {which} AND key > ? ORDER BY key", lane, *kinds, key)
    return lambda: _read_notes(rows())


def _read_notes(rows: Iterable[Sequence[Any]]) -> dict[int, Memo]:
    return {key: Memo(kind, at, entry, read_memo(kind, blobs.unpack(*text))) for key, kind, at, entry, *text in rows}
