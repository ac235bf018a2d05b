"""Report the usage of all sessions: tokens and dollars by day, model and project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from nexus_cli.core.clock import format_utc
from nexus_cli.core.usage import UsageSum
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.usage_totals import UsageTotal, list_totals

if TYPE_CHECKING:
    from nexus_cli.core.json_types.report_types import (
        UsageByDay,
        UsageByModel,
        UsageByProject,
        UsageReport,
        UsageSumObject,
    )


def usage_report(ledger: Ledger, since: datetime | None = None, *, local: bool = False) -> UsageReport:
    """Return the sums of every request in the ledger since a moment; `zone` says whose days they are counted by.

    A fork counts only its own requests. An unanswered request counts but adds nothing. An unknown price makes a
    `cost_usd` None; `known_usd` sums the known ones.
    """
    start = "" if since is None else format_utc(since)
    totals = list_totals(ledger.db, start, local=local)
    days: list[UsageByDay] = [{"day": day, **_sum(rows)} for day, rows in _group(totals, lambda one: one.day)]
    models: list[UsageByModel] = [
        {"model": model, **_sum(rows)} for model, rows in _group(totals, lambda one: one.model)
    ]
    projects: list[UsageByProject] = [
        {"project": project, **_sum(rows)} for project, rows in _group(totals, lambda one: one.project)
    ]
    return {
        "version": 1,
        "zone": "local" if local else "UTC",
        "since": start or None,
        "total": _sum(totals),
        "days": sorted(days, key=lambda one: one["day"]),
        "models": sorted(models, key=_most_first),
        "projects": sorted(projects, key=_most_first),
    }


def _group(totals: Sequence[UsageTotal], key: Callable[[UsageTotal], str]) -> Iterable[tuple[str, list[UsageTotal]]]:
    groups: dict[str, list[UsageTotal]] = {}
    for one in totals:
        groups.setdefault(key(one), []).append(one)
    return groups.items()


def _sum(totals: Sequence[UsageTotal]) -> UsageSumObject:
    total = sum((one.total for one in totals), UsageSum())
    return cast("UsageSumObject", {"sessions": len({one.session for one in totals}), **total.to_json()})


def _most_first(row: UsageSumObject) -> tuple[float, int]:
    return -row["known_usd"], -row["input"]
