"""Entries: appended once, read by range, settled when they are first sent.

The first request that holds an entry settles how it is sent (preamble, tokens, line hash); that never changes. If a
forked session sends an unsent entry of its parent first, the parent may still settle it differently for itself. The
fork keeps its own values in `fixes`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nexus_cli.core.entry import Entry, Kind, is_person
from nexus_cli.core.message import from_record, replace_surrogates, to_record
from nexus_cli.core.services import FixedValues
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import blobs, lanes, sessions
from nexus_cli.ledger.database import Database, Row
from nexus_cli.ledger.lanes import Segment

_SORTED = 4000
"""Most entries that are counted at once, so that SQLite sorts them in memory."""
_Settled = tuple[str, int, bytes | None]
_ENTRY = "e.id, e.at, e.actor, e.kind, e.preamble, e.tokens, e.line, b.hash, b.codec, b.data"
_WITH_TEXT = "entries e LEFT JOIN blobs b ON b.id = e.blob"
WINDOW_QUERY = (
    f"SELECT {_ENTRY} FROM {_WITH_TEXT} WHERE e.lane = ?1 AND e.id >"
    " (SELECT base FROM epochs WHERE key = (SELECT epoch FROM lanes WHERE id = ?1)) ORDER BY e.id"
)
"""Query of the entries of a lane itself after its current epoch."""


def append(db: Database, lane: int, entry: Entry) -> None:
    """Record `entry` as the next of `lane`, and update the listing columns; inside a transaction.

    Its number is the lane's alone: the ledger refuses one that another process has recorded.
    """
    session = lanes.session_of(db, lane)
    stored = blobs.put(db, session, canonical(to_record(entry.message)))
    db.run(
        f"INSERT INTO entries VALUES (?, ?, ?, ?, ?, {db.blob_id}, ?, ?, NULL)",
        lane,
        entry.id,
        entry.at,
        entry.actor,
        str(entry.kind),
        *stored,
        replace_surrogates(entry.preamble),
        entry.tokens,
    )
    first_text = entry.message.content if entry.kind is Kind.USER else None
    sessions.count_entry(db, session, lane, entry.id, entry.at, first_text)


def read(db: Database, lane: int, first: int, last: int) -> list[Entry]:
    """Return the entries `first` to `last` of `lane`; time and memory depend on the length of the range alone."""
    chain = lanes.ancestry(db, lane)
    rows = _rows(db, chain, first, last, _ENTRY)
    return [entry for entry, _ in _make_entries(rows, _overrides(db, chain, first, last))]


def read_window(db: Database, lane: int, base: int) -> list[tuple[Entry, bytes | None]]:
    """Return the entries after the lane's current epoch, which covers those up to `base`; those that were sent with
    their line hash."""
    newest, *ancestors = chain = lanes.ancestry(db, lane)
    rows = [*_rows(db, ancestors, base + 1, newest.first - 1, _ENTRY), *db.all(WINDOW_QUERY, lane)]
    return _make_entries(rows, _overrides(db, chain, base + 1, lanes.END))


def _make_entries(rows: Iterable[Row], settled: Mapping[int, _Settled]) -> list[tuple[Entry, bytes | None]]:
    """Return entries with the line hashes of those that were sent, from rows of `_ENTRY`."""
    entries = []
    for row in rows:
        preamble, tokens, line = settled.get(row[0], row[4:7])
        message = from_record(json.loads(blobs.unpack(*row[7:])))
        entries.append((Entry(row[0], row[1], row[2], Kind(row[3]), message, preamble, tokens), line))
    return entries


def count_by_kind(db: Database, lane: int, last: int) -> list[tuple[Kind, str, int]]:
    """Return kind, actor and number of the entries of `lane` up to `last`, without reading one."""
    counts, chain = Counter[tuple[str, str]](), lanes.ancestry(db, lane)
    for first in range(1, last + 1, _SORTED):
        end = min(last, first + _SORTED - 1)
        for row in _rows(db, chain, first, end, "e.kind, e.actor, count(*)", "GROUP BY e.kind, e.actor"):
            counts[row[0], row[1]] += row[2]
    return [(Kind(kind), actor, count) for (kind, actor), count in counts.items()]


def messages_of_people(db: Database, lane: int, last: int, *, members: bool) -> Iterator[tuple[int, str]]:
    """Yield id and text of the messages of people in the entries up to `last` that `lane` shows, newest first, each
    read on demand. With `members`, messages of the people of a space are included."""
    for segment in lanes.ancestry(db, lane):
        rows = db.all(
            "SELECT id, actor, blob FROM entries WHERE lane = ? AND id BETWEEN ? AND ?"
            " AND (actor = 'person' OR actor LIKE ?) ORDER BY id DESC",
            segment.lane,
            segment.first,
            min(segment.last, last),
            "%)" if members else "person",
        )
        for entry, actor, blob in rows:
            if is_person(actor):
                yield int(entry), from_record(json.loads(blobs.get(db, blob))).content


def line_hashes(db: Database, lane: int, first: int, last: int) -> list[tuple[int, bytes]]:
    """Return id and line hash of the entries `first` to `last` that were sent."""
    chain = lanes.ancestry(db, lane)
    settled = _overrides(db, chain, first, last)
    hashes = []
    for entry, line in _rows(db, chain, first, last, "e.id, e.line"):
        line = settled[entry][2] if entry in settled else line
        if line is not None:
            hashes.append((entry, line))
    return hashes


def count_turns(db: Database, lane: int, last: int) -> int:
    """Count the turns that the person began in `lane` up to entry `last`."""
    rows = _rows(db, lanes.ancestry(db, lane), 1, last, "count(*)", f"AND e.kind = '{Kind.USER}'")
    return sum(int(row[0]) for row in rows)


def settle(db: Database, lane: int, fixed: Sequence[FixedValues]) -> None:
    """Settle entries that are about to be sent; inside a transaction. What is settled does not change.

    Raises `ValueError` for an inherited entry that was settled with other values.
    """
    if not fixed:
        return
    chain = lanes.ancestry(db, lane)
    ours = [segment for segment in chain if segment.session == chain[0].session]
    for item in fixed:
        home = next(part for part in chain if part.first <= item.entry <= part.last)
        value = (replace_surrogates(item.preamble), item.tokens, item.line)
        if home in ours:
            update = "UPDATE entries SET preamble = ?, tokens = ?, line = ? WHERE lane = ? AND id = ? AND line IS NULL"
            db.run(update, *value, home.lane, item.entry)
            continue
        row = db.one("SELECT preamble, tokens, line FROM entries WHERE lane = ? AND id = ?", home.lane, item.entry)
        if row is not None:
            _settle_inherited(db, chain, ours[-1], item.entry, row, value)


def _settle_inherited(
    db: Database, chain: Sequence[Segment], root: Segment, entry: int, row: Row, value: _Settled
) -> None:
    """Settle an inherited entry, for the session of lane `root` only."""
    settled = db.one("SELECT preamble, tokens, line FROM fixes WHERE lane = ? AND entry = ?", root.lane, entry)
    if settled is not None:
        if settled != value:
            raise _conflict(entry)
        return
    inherited = _overrides(db, chain, entry, entry).get(entry, row)
    if inherited == value:
        return
    if inherited[2] is not None and entry <= root.sent:
        raise _conflict(entry)
    db.run("INSERT INTO fixes VALUES (?, ?, ?, ?, ?)", root.lane, entry, *value)


def _conflict(entry: int) -> ValueError:
    return ValueError(f"entry {entry} was sent before with another preamble, count or line")


def _overrides(db: Database, chain: Sequence[Segment], first: int, last: int) -> dict[int, _Settled]:
    """Return the values that forked sessions settled for themselves, nearest fork first."""
    settled: dict[int, _Settled] = {}
    if all(segment.session == chain[0].session for segment in chain) and chain[0].session is not None:
        return settled
    for segment in chain:
        rows = db.all(
            "SELECT entry, preamble, tokens, line FROM fixes WHERE lane = ? AND entry BETWEEN ? AND ?",
            segment.lane,
            first,
            min(last, segment.last),
        )
        for entry, *value in rows:
            settled.setdefault(entry, (value[0], value[1], value[2]))
    return settled


def _rows(db: Database, chain: Sequence[Segment], first: int, last: int, columns: str, also: str = "") -> Iterator[Row]:
    """Yield the rows of `first` to `last`, oldest first, over the segments of `chain`."""
    source = _WITH_TEXT if "b." in columns else "entries e"
    for segment in reversed(chain):
        low, high = max(first, segment.first), min(last, segment.last)
        if low <= high:
            order = "" if "count(" in columns else "ORDER BY e.id"
            statement = f"SELECT {columns} FROM {source} WHERE e.lane = ? AND e.id BETWEEN ? AND ? {also} {order}"
            yield from db.all(statement, segment.lane, low, high)
