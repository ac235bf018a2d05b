"""Memos: what is known of a lane beside its entries. Only added to; a fork knows those of before the fork."""

from __future__ import annotations

import json

from nexus_cli.core.entry import Memo
from nexus_cli.ledger import blobs, lanes
from nexus_cli.ledger.database import Database


def record(db: Database, lane: int, memo: Memo) -> None:
    """Record `memo`; inside a transaction."""
    lanes.session_of(db, lane)
    blob = blobs.put_text(db, json.dumps(dict(memo.value), ensure_ascii=False))
    db.run(
        "INSERT INTO memos (lane, entry, kind, at, blob) VALUES (?, ?, ?, ?, ?)",
        lane, memo.entry, memo.kind, memo.at, blob,
    )  # fmt: skip


def read(db: Database, lane: int, kind: str = "", *, own: bool = False) -> list[Memo]:
    """The memos of one kind that `lane` knows, or of all kinds, oldest first; with `own` those that it made itself."""
    found: list[Memo] = []
    for segment in reversed(lanes.ancestry(db, lane)[: 1 if own else None]):
        rows = db.all(
            "SELECT kind, at, entry, blob FROM memos WHERE lane = ? AND ? IN (kind, '') AND entry <= ? ORDER BY key",
            segment.lane, kind, segment.last,
        )  # fmt: skip
        found.extend(Memo(row[0], row[1], row[2], dict(blobs.get_json(db, row[3]))) for row in rows)
    return found
