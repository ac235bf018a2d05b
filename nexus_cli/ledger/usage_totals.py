"""Tokens and dollars of all sessions, summed by the database in one query, which reads no text. Workers count as part
of their parent session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.usage import Usage, UsageSum
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.requests import LOST, USAGE, read_usage


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Usage of one model by one session on one day."""

    day: str
    """`2026-01-31`"""
    model: str
    project: str
    session: int
    """Key of the session (for a worker, of its parent), to count distinct sessions."""
    total: UsageSum


def list_totals(db: Database, since: str, *, local: bool) -> list[UsageTotal]:
    """Return the usage of every session since `since` (a time of the ledger; "": always), by day and model.

    Days are UTC days, with `local` days in the system's time zone.
    """
    day = db.day_of_request(local=local)
    rows = db.all(
        f"""WITH RECURSIVE paying (key, id, owner) AS (
            SELECT key, id, key FROM sessions WHERE spawner IS NULL OR spawner NOT IN (SELECT id FROM sessions)
            UNION SELECT s.key, s.id, p.owner FROM paying p JOIN sessions s ON s.spawner = p.id)
        SELECT coalesce({day}, substr(r.at, 1, 10)) AS day, e.model, s.project, p.owner, {_SUMS}
        FROM requests r JOIN lanes l ON l.id = r.lane JOIN sessions s ON s.key = l.session
            JOIN paying p ON p.key = s.key JOIN epochs e ON e.key = r.epoch
        WHERE r.at >= ? GROUP BY day, e.model, s.key, p.owner ORDER BY day, e.model, s.key""",
        since,
    )
    return [UsageTotal(*(*row[:4], _read_sums(row[4:]))) for row in rows]


_SUMS = f"""count(*), count(*) - count(r.cost), count(*) FILTER (WHERE coalesce(r.finish, '{LOST}') = '{LOST}'),
    coalesce(sum(coalesce(r.input, r.estimate)), 0), {", ".join(f"coalesce(sum(r.{name}), 0)" for name in USAGE[1:])}"""


def _read_sums(row: Sequence[Any]) -> UsageSum:
    """Return the sum of requests from its columns `_SUMS`."""
    return UsageSum(Usage() + read_usage(row[3:]), *row[:3])


_NAMES = {
    "recipe": "SELECT key, recipe FROM sessions",
    "person": "SELECT key, made_by FROM sessions",
    "agent": "SELECT s.key, e.name FROM runs r JOIN sessions s ON s.id = r.session JOIN entities e ON e.key = r.entity",
    "plan": "SELECT s.key, coalesce(nullif(p.name, ''), 'plan-' || r.plan) FROM runs r JOIN sessions s"
    " ON s.id = r.session LEFT JOIN plans p ON p.key = r.plan WHERE r.plan IS NOT NULL",
}
"""Queries of the names by session key: of a recipe, a person (a role of the server), an agent of spaces, a plan."""


def names_of_sessions(db: Database, by: str) -> dict[int, str]:
    """Return the name that each session is counted under, by its key; `by` is one of `_NAMES`. A file has only one
    person: {}."""
    if by == "person" and not db.is_shared:
        return {}
    return dict(db.all(_NAMES[by]))


SESSION_AND_WORKERS = """l.session IN (WITH RECURSIVE paid (key, id) AS (
    SELECT key, id FROM sessions WHERE id = ?
    UNION SELECT s.key, s.id FROM paid p JOIN sessions s ON s.spawner = p.id) SELECT key FROM paid)"""
"""The condition for the requests of a session and its workers."""


def sum_requests(db: Database, which: str, *values: Any) -> UsageSum:
    """Return the sum of the requests `r`, of lanes `l`, for which the condition `which` is true."""
    (row,) = db.all(f"SELECT {_SUMS} FROM requests r JOIN lanes l ON l.id = r.lane WHERE {which}", *values)
    return _read_sums(row)
