"""Calibrations of the token count, one per model."""

from __future__ import annotations

import json

from nexus_cli.core.services import Calibration
from nexus_cli.ledger.database import Database

QUERY = "SELECT factor, reports, worst, kinds, model FROM calibrations"
"""Query of the calibrations of all models: they are few."""


def calibration(db: Database, model: str) -> Calibration:
    """Return the calibration of `model`, the neutral one if there is none.

    A model at its own address (`NAME at HOST`) starts with the calibration of its name.
    """
    rows = {row[4]: row for row in db.all(QUERY)}
    row = rows.get(model) or rows.get(model.partition(" at ")[0])
    if row is None:
        return Calibration()
    factor, reports, worst, learned, _ = row
    fields = json.loads(learned)
    if not isinstance(fields, dict):  # an older release stored the factors of other kinds, and no single misses
        return Calibration(factor, reports, (worst,))
    return Calibration(factor, reports, tuple(fields.get("misses", ())), tuple(fields.get("ratios", ())))


def calibrate(db: Database, model: str, value: Calibration) -> None:
    """Store a calibration with the next transaction."""
    db.defer_statement(
        'INSERT INTO calibrations (model, factor, reports, worst, "window", kinds) VALUES (?, ?, ?, ?, 0, ?)'
        f" ON CONFLICT ({db.own_key}model) DO UPDATE SET factor = excluded.factor, reports = excluded.reports,"
        " worst = excluded.worst, kinds = excluded.kinds",
        model,
        value.factor,
        value.reports,
        value.worst,
        json.dumps({"ratios": value.ratios, "misses": value.misses}),
    )
