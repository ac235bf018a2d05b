"""Figures learned on the way: one calibration per model, and token counts by the hash of a text."""

from __future__ import annotations

import json
from dataclasses import replace

from nexus_cli.core.services import Calibration
from nexus_cli.ledger.database import Database

_DIGEST = 16
"""Bytes of a text's hash that are kept: enough that two texts never meet."""


def calibration(db: Database, model: str) -> Calibration:
    """What was learned of `model`; the neutral value when nothing was. Of one at an address of its own (`NAME at HOST`)
    it is at first what was learned of the name, but for the window."""
    row = db.one("SELECT factor, reports, worst, window, kinds FROM calibrations WHERE model = ?", model)
    name, _, address = model.partition(" at ")
    if row is None:
        return replace(calibration(db, name), window=0) if address else Calibration()
    return Calibration(row[0], row[1], row[2], row[3], tuple(json.loads(row[4])))


def calibrate(db: Database, model: str, value: Calibration) -> None:
    """Store what was learned; inside a transaction."""
    db.run(
        "INSERT OR REPLACE INTO calibrations (model, factor, reports, worst, window, kinds)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        model, value.factor, value.reports, value.worst, value.window, json.dumps(value.kinds),
    )  # fmt: skip


def stored_count(db: Database, encoding: str, digest: bytes) -> int | None:
    """The stored count of a text, or None."""
    row = db.one("SELECT tokens FROM counts WHERE digest = ? AND encoding = ?", digest[:_DIGEST], encoding)
    return int(row[0]) if row else None


def store_count(db: Database, session: int, encoding: str, digest: bytes, tokens: int) -> None:
    """Store a count with the next transaction; it goes when the session goes."""
    statement = "INSERT OR IGNORE INTO counts VALUES (?, ?, ?, ?)"
    db.run_later(statement, digest[:_DIGEST], encoding, tokens, session)
