"""Tokens and dollars, of one session or of all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, cast, get_args

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.errors import UsageError
from nexus_cli.core.option import Option
from nexus_cli.reports.cost import CostReport, cost_report
from nexus_cli.reports.usage import UsageBy, UsageReport, usage_report

GROUPINGS = get_args(UsageBy)


def build_usage(
    source: Source,
    since: Annotated[str, Option("DATE", "First day to count: YYYY-MM-DD.")] = "",
    by: Annotated[str, Option("KIND", f"Sum by {', '.join(GROUPINGS)}.")] = "",
    every: Annotated[bool, Option(None, "All sessions.", "--all")] = False,
) -> Report[UsageReport | CostReport]:
    """Show tokens and cost of all sessions, by day, model and project.

    Days and DATE are in local time, with --json in UTC. With --session alone, and in a session without options, show
    one session: a plot of its requests, and sums by model, kind of request and recent turn.
    """
    if by and by not in GROUPINGS:
        raise UsageError(f"--by {by}", f"must be one of {', '.join(GROUPINGS)}")
    if not (every or since or by) and (source.live or source.named):
        return Report("cost", cost_report(source.ledger, source.session()))
    is_local = not source.is_json
    moment = _parse_date(since, local=is_local) if since else None
    value = usage_report(source.ledger, moment, local=is_local, by=cast("UsageBy | None", by or None))
    return Report("usage", value, whole=bool(by))


def _parse_date(text: str, *, local: bool) -> datetime:
    """Parse a day, or a time with a zone, as a moment in UTC. Raises `UsageError` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone() if local else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text}", "not a valid date", "Write it as YYYY-MM-DD") from error


NOUN = Noun(
    "usage",
    "context",
    (Verb(build_usage, of_session=True, complete=[f"--by {name}" for name in GROUPINGS]),),
    "Show tokens and cost of one or all sessions.",
    aliases=("cost", "stats"),
    is_first=True,
)
