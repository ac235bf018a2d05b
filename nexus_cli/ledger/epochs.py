"""Epochs: frozen beginnings of a lane's requests, with their system text, tool schemas and slots.

Every text of an epoch is a blob, so a slot that shows its entry whole shares the entry's text. Ids count from 0 in a
session and continue in its forks, which find inherited epochs along the line of parents.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from nexus_cli.core.entry import Drop, Epoch, ItemForm, Memo, WindowItem
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.message import from_record, replace_surrogates, to_record
from nexus_cli.core.services import FixedValues
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import blobs, drops, lanes
from nexus_cli.ledger.database import Database, Row

_LINE = """WITH RECURSIVE line (key) AS (
    SELECT origin FROM lanes WHERE origin IS NOT NULL AND session = {}
    UNION SELECT e.parent FROM line JOIN epochs e ON e.key = line.key WHERE e.parent IS NOT NULL)"""
_INHERITED, _OF_LANE = _LINE.format("?"), "(SELECT session FROM lanes WHERE id = ?1)"
LINE_OF_LANE = _LINE.format(_OF_LANE)
NEXT_OF_LANE = (
    f"SELECT coalesce(max(id) + 1, 0) FROM epochs WHERE session = {_OF_LANE} OR key IN (SELECT key FROM line)"
)
"""Query of the id of the next epoch of the session of the lane ?1, and what it begins with."""
_CURRENT = "(SELECT epoch FROM lanes WHERE id = ?)"
"""SQL for the key of a lane's current epoch."""
_QUERIES = (
    "SELECT e.id, p.id, e.cause, e.model, e.base, e.system_tokens, e.tools_tokens, e.tool_choice, e.effort,"
    " s.hash, s.codec, s.data, r.hash, r.codec, r.data, c.hash, c.codec, c.data"
    " FROM epochs e LEFT JOIN epochs p ON p.key = e.parent LEFT JOIN blobs s ON s.id = e.system"
    " LEFT JOIN blobs r ON r.id = e.rules LEFT JOIN blobs c ON c.id = e.sections WHERE e.key = {}",
    "SELECT b.hash, b.codec, b.data FROM schemas s LEFT JOIN blobs b ON b.id = s.blob"
    " WHERE s.epoch = {} ORDER BY s.position",
    "SELECT s.entry, s.form, s.preamble, s.tokens, b.hash, b.codec, b.data FROM slots s"
    " LEFT JOIN blobs b ON b.id = s.blob WHERE s.epoch = {} ORDER BY s.position",
)
"""Queries of an epoch, its tools and its slots, by SQL for its key."""
_LINES = (
    "SELECT e.base, s.line FROM epochs e LEFT JOIN slots s ON s.epoch = e.key AND s.line IS NOT NULL"
    " WHERE e.key = {} ORDER BY s.position"
)
CURRENT_QUERIES = [sql.format(_CURRENT) for sql in (*_QUERIES, _LINES)]
"""Queries of the current epoch of a lane and its stored lines."""

KEY = f"""({_INHERITED} SELECT key FROM (
    SELECT key, 0 AS distance FROM epochs WHERE session = ? AND id = ?
    UNION ALL SELECT key, 1 FROM epochs JOIN line USING (key) WHERE id = ?) AS found ORDER BY distance LIMIT 1)"""
"""SQL for the key of an epoch, with `key_values`; NULL if it is unknown."""


@dataclass(frozen=True, slots=True)
class EpochRow:
    """An epoch without its texts."""

    id: int
    cause: str
    model: str
    after: int
    """The newest entry at its beginning."""


def begin(db: Database, lane: int, epoch: Epoch, left_out: Sequence[Drop] = (), noted: Sequence[Memo] = ()) -> None:
    """Record `epoch` with its drops and notes as the current epoch of `lane`; inside a transaction.

    `ValueError` if its parent is unknown; the ledger refuses an id that is taken.
    """
    session = lanes.session_of(db, lane)
    put = partial(blobs.put, db, session)
    system, rules, sections = (
        put(replace_surrogates(text).encode()) for text in (epoch.system, epoch.rules, epoch.sections)
    )
    tools = [put(canonical(dict(tool))) for tool in epoch.tools]
    slots = [(slot, put(canonical(to_record(slot.message)))) for slot in epoch.head]
    parent = None if epoch.parent is None else key_of(db, lane, epoch.parent)
    if epoch.parent is not None and parent is None:
        raise ValueError(f"epoch {epoch.id} follows epoch {epoch.parent}, which is not recorded")
    db.run(
        "INSERT INTO epochs (session, id, parent, cause, model, system, rules, base, after, system_tokens,"
        f" tools_tokens, tool_choice, effort, sections) VALUES (?, ?, ?, ?, ?, {db.blob_id}, {db.blob_id}, ?,"
        f" ({lanes.LAST_ID}), ?, ?, ?, ?, {db.blob_id})",
        *(session, epoch.id, parent, epoch.cause, epoch.model, *system, *rules, epoch.base, lane),
        *(epoch.system_tokens, epoch.tools_tokens, epoch.tool_choice, epoch.effort, *sections),
    )
    key = "(SELECT key FROM epochs WHERE session = ? AND id = ?)"
    epoch_key = session, epoch.id
    db.many(
        f"INSERT INTO schemas VALUES ({key}, ?, {db.blob_id})",
        [(*epoch_key, position, *blob) for position, blob in enumerate(tools)],
    )
    db.many(
        f"INSERT INTO slots VALUES ({key}, ?, ?, ?, {db.blob_id}, ?, ?, NULL)",
        [
            (*epoch_key, position, slot.entry, str(slot.form), *blob, replace_surrogates(slot.preamble), slot.tokens)
            for position, (slot, blob) in enumerate(slots)
        ],
    )
    db.run(f"UPDATE lanes SET epoch = {key} WHERE id = ?", *epoch_key, lane)
    for drop in left_out:
        drops.record(db, lane, drop)
    for memo in noted:
        lanes.record_note(db, lane, memo)


def key_of(db: Database, lane: int, epoch_id: int) -> int | None:
    """Return the key of an epoch of the lane's session, or of one that it was forked from; None if unknown."""
    find = f"SELECT key FROM epochs WHERE key = {KEY}"
    rows = db.constants(find, *key_values(db, lane, epoch_id))
    return int(rows[0][0]) if rows else None


def key_values(db: Database, lane: int, epoch_id: int) -> tuple[int, int, int, int]:
    """Return the values of `KEY` for an epoch of the lane's session, or of one that it was forked from."""
    session = lanes.session_of(db, lane)
    return session, session, epoch_id, epoch_id


def require_key(db: Database, lane: int, epoch_id: int) -> int:
    """Return the key as `key_of` does; raise `UsageError` if unknown."""
    key = key_of(db, lane, epoch_id)
    if key is None:
        raise _unknown(epoch_id)
    return key


def next_id(db: Database, lane: int) -> int:
    """Return the id of the session's next epoch."""
    return db.number(f"{LINE_OF_LANE} {NEXT_OF_LANE}", lane)


def current(db: Database, lane: int) -> Epoch | None:
    """Return the current epoch of `lane`, None before its first."""
    return _read(db, _CURRENT, lane)


def list_epochs(db: Database, lane: int) -> list[EpochRow]:
    """Return the epochs that led to the current one of `lane`, oldest first, without reading texts."""
    find = lanes.EPOCHS_OF_LANE.format("e.id, e.cause, e.model, e.after")
    rows = db.all(f"{find} ORDER BY depth DESC", lane)
    return [EpochRow(*row) for row in rows]


def read(db: Database, key: int) -> Epoch:
    """Return an epoch with its texts; raise `NexusError("ledger", ...)` naming the damaged line if a text is
    damaged."""
    epoch = _read(db, "?", key)
    assert epoch is not None, "keys come from lanes and requests, whose epochs are kept"
    return epoch


def _read(db: Database, which: str, value: int) -> Epoch | None:
    """Return the epoch whose key is the SQL `which` with its value, None if there is none."""
    rows, tools, slots = (db.all(sql.format(which), value) for sql in _QUERIES)
    if not rows:
        return None
    (row,) = rows
    with blobs.damage_at("line 1, the tools"):
        schemas = tuple(json.loads(blobs.unpack(*tool)) for tool in tools)
    with blobs.damage_at("line 2, the system text"):
        system = blobs.unpack(*row[9:12]).decode()
    return Epoch(
        id=row[0],
        parent=row[1],
        cause=row[2],
        model=row[3],
        system=system,
        tools=schemas,
        rules=blobs.unpack(*row[12:15]).decode(),
        head=_head(slots),
        base=row[4],
        system_tokens=row[5],
        tools_tokens=row[6],
        tool_choice=row[7],
        effort=row[8],
        sections=blobs.unpack(*row[15:]).decode(),
    )


def _head(rows: Sequence[Row]) -> tuple[WindowItem, ...]:
    slots = []
    for line, row in enumerate(rows, 3):
        with blobs.damage_at(f"line {line}, a slot"):
            message = from_record(json.loads(blobs.unpack(*row[4:7])))
        slots.append(WindowItem(row[0], ItemForm(row[1]), message, row[2], row[3]))
    return tuple(slots)


def settle_head(
    db: Database, key: Sequence[int], lines: Sequence[bytes], with_preambles: Sequence[FixedValues]
) -> None:
    """Settle the line hashes of an epoch's slots, and the preambles of `with_preambles` slots; inside a transaction.
    `key` are the epoch's `key_values`.

    What is settled does not change.
    """
    forms = str(ItemForm.FULL), str(ItemForm.ELIDED)
    db.many(
        f"UPDATE slots SET preamble = ?, tokens = ? WHERE epoch = {KEY} AND entry = ? AND form IN (?, ?)"
        " AND line IS NULL",
        [(replace_surrogates(values.preamble), values.tokens, *key, values.entry, *forms) for values in with_preambles],
    )
    db.many(
        f"UPDATE slots SET line = ? WHERE epoch = {KEY} AND position = ? AND line IS NULL",
        [(line, *key, position) for position, line in enumerate(lines)],
    )


def head_lines(db: Database, lane: int, epoch_id: int) -> tuple[int, list[bytes]]:
    """Return the last entry that the head of an epoch of the lane's session covers, and the line hashes of its slots,
    none before its first request; raise `UsageError` if unknown."""
    rows = db.all(_LINES.format(KEY), *key_values(db, lane, epoch_id))
    if not rows:
        raise _unknown(epoch_id)
    return int(rows[0][0]), [line for _, line in rows if line is not None]


def current_head_lines(db: Database, lane: int) -> list[bytes]:
    """Return the line hashes of the slots of the lane's current epoch, as `head_lines`."""
    return [line for _, line in db.all(_LINES.format(_CURRENT), lane) if line is not None]


def _unknown(epoch_id: int) -> NexusError:
    return UsageError(f"epoch {epoch_id}", "the session has no such epoch")
