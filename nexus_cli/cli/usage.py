"""`nexus usage`: tokens and dollars of all sessions, by day, model and project."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, cast, get_args

import typer

from nexus_cli.cli.command_options import Json, refuse_empty
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.usage import UsageBy, usage_report, usage_text

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("usage")
def usage(
    since: Annotated[
        str, typer.Option(metavar="DATE", help="Start at this day: YYYY-MM-DD.", callback=refuse_empty)
    ] = "",
    by: Annotated[
        str,
        typer.Option(metavar="|".join(get_args(UsageBy)), help="Sum by one of these.", callback=refuse_empty),
    ] = "",
    json: Json = False,
) -> int:
    """Show the tokens and dollars of all sessions, by day, model and project.

    Days are local; with --json they are days in UTC, and so is DATE.
    """
    if by and by not in get_args(UsageBy):
        why = f"it is one of {', '.join(get_args(UsageBy))}"
        raise NexusError("usage", f"wrong value for --by: '{by}'", why)
    moment = _parse_date(since, local=not json) if since else None
    value = usage_report(open_ledger(), moment, local=not json, by=cast("UsageBy | None", by or None))
    return print_report(value, usage_text, json=json, whole=bool(by))


def _parse_date(text: str, *, local: bool) -> datetime:
    """Parse a day, or a time with a zone, as a moment in UTC. Raises `NexusError("usage", ...)` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone() if local else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        what = f"wrong value for --since: '{text}'"
        raise NexusError("usage", what, "it is not a date", "Write it as YYYY-MM-DD") from error
