"""What one actor said in a lane, the newest first: read one at a time, the other entries not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator

from nexus_cli.core.message import from_record
from nexus_cli.ledger import blobs, lanes
from nexus_cli.ledger.database import Database


def messages_of(db: Database, lane: int, actor: str) -> Iterator[tuple[int, str]]:
    """Id and text of each entry of `actor` that `lane` shows, those of its ancestors included."""
    for segment in lanes.ancestry(db, lane):
        rows = db.all(
            "SELECT id, blob FROM entries WHERE lane = ? AND id BETWEEN ? AND ? AND actor = ? ORDER BY id DESC",
            segment.lane, segment.first, segment.last, actor,
        )  # fmt: skip
        for entry, blob in rows:
            yield int(entry), from_record(json.loads(blobs.get(db, blob))).content
