"""Report the usage of all sessions: tokens and dollars by day, model and project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from nexus_cli.core.clock import format_utc
from nexus_cli.core.usage import UsageSum
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.usage_totals import UsageTotal, list_totals


def usage_report(ledger: Ledger, since: datetime | None = None, *, local: bool = False) -> dict[str, Any]:
    """Return the sums of every request in the ledger since a moment, by days of the time zone `zone`.

    A fork counts only its own requests. An unanswered request counts but adds nothing. An unknown price makes a
    `cost_usd` None; `known_usd` sums the known ones.
    """
    start = "" if since is None else format_utc(since)
    totals = list_totals(ledger.db, start, local=local)
    models = _by("model", totals, lambda one: one.model)
    projects = _by("project", totals, lambda one: one.project)
    return {
        "version": 1,
        "zone": "local" if local else "UTC",
        "since": start or None,
        "total": _sum(totals),
        "days": sorted(_by("day", totals, lambda one: one.day), key=lambda one: str(one["day"])),
        "models": sorted(models, key=_most_first),
        "projects": sorted(projects, key=_most_first),
    }


def _by(name: str, totals: Sequence[UsageTotal], key: Callable[[UsageTotal], str]) -> list[dict[str, Any]]:
    groups: dict[str, list[UsageTotal]] = {}
    for one in totals:
        groups.setdefault(key(one), []).append(one)
    return [{name: value, **_sum(group)} for value, group in groups.items()]


def _sum(totals: Sequence[UsageTotal]) -> dict[str, Any]:
    total = sum((one.total for one in totals), UsageSum())
    return {"sessions": len({one.session for one in totals}), **total.to_json()}


def _most_first(row: dict[str, Any]) -> tuple[float, int]:
    return -row["known_usd"], -row["input"]
