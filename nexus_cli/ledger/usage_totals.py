"""Tokens and dollars of all sessions, summed by the database in one query, which reads no text. Workers count as part
of their parent session."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.usage import Usage, UsageSum, round_dollars
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.requests import LOST


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
        f"""SELECT coalesce({day}, substr(r.at, 1, 10)) AS day, e.model, s.project, s.key,
            count(*), sum(coalesce(r.input, r.estimate)), coalesce(sum(r.output), 0), coalesce(sum(r.cache_read), 0),
            coalesce(sum(r.cache_write), 0), coalesce(sum(r.reasoning), 0), coalesce(sum(r.cost), 0.0),
            count(*) - count(r.cost), count(*) FILTER (WHERE coalesce(r.finish, '{LOST}') = '{LOST}')
        FROM requests r JOIN lanes l ON l.id = r.lane JOIN sessions s ON s.key = l.session
            JOIN epochs e ON e.key = r.epoch
        WHERE r.at >= ? GROUP BY day, e.model, s.key ORDER BY day, e.model, s.key""",
        since,
    )
    owners = _worker_owners(db)
    return [UsageTotal(row[0], row[1], row[2], _owner(row[3], owners), UsageSum(*row[4:])) for row in rows]


_NAMES = {
    "recipe": "SELECT key, recipe FROM sessions",
    "person": "SELECT key, made_by FROM sessions",
    "agent": "SELECT s.key, e.name FROM runs r JOIN sessions s ON s.id = r.session JOIN entities e ON e.key = r.entity",
    "plan": "SELECT s.key, coalesce(nullif(p.name, ''), 'plan-' || r.plan) FROM runs r JOIN sessions s"
    " ON s.id = r.session LEFT JOIN plans p ON p.key = r.plan WHERE r.plan IS NOT NULL",
}
"""Queries of the names by session key: of a recipe, a person (a role of the server), an agent of spaces, a plan."""


def names_of_sessions(db: Database, by: str) -> dict[int, str]:
    """Return the name of whose each session is, by its key; `by` is one of `_NAMES`. A file has only one person: {}."""
    if by == "person" and not db.is_shared:
        return {}
    return {int(key): str(name) for key, name in db.all(_NAMES[by])}


def _worker_owners(db: Database) -> dict[int, int]:
    """Return the key of each worker's parent session, by the worker's key."""
    rows = db.all("SELECT w.key, p.key FROM sessions w JOIN sessions p ON p.id = w.spawner WHERE w.spawner IS NOT NULL")
    return {int(worker): int(owner) for worker, owner in rows}


def _owner(session: int, owners: dict[int, int]) -> int:
    while session in owners:
        session = owners[session]
    return session


def session_usage(db: Database, session: str) -> Usage:
    """Return the usage of all requests of a session and its workers."""
    row = db.one(
        """WITH RECURSIVE paid (key, id) AS (
            SELECT key, id FROM sessions WHERE id = ?
            UNION SELECT s.key, s.id FROM paid p JOIN sessions s ON s.spawner = p.id)
        SELECT coalesce(sum(coalesce(r.input, r.estimate)), 0), coalesce(sum(r.output), 0),
            coalesce(sum(r.cache_read), 0), coalesce(sum(r.cache_write), 0), coalesce(sum(r.reasoning), 0),
            coalesce(sum(r.cost), 0.0), count(*) - count(r.cost)
        FROM requests r JOIN lanes l ON l.id = r.lane WHERE l.session IN (SELECT key FROM paid)""",
        session,
    )
    assert row is not None, "sums are one row"
    cost = None if row[6] else round_dollars(row[5])
    return Usage(row[0], row[1], row[2], row[3], row[4], cost)
