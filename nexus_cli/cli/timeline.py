"""`nexus timeline`: what happened in a session, when, by whom and why, what is new and what it cost."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import MAX_INT, Json, SessionKey
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.session.reports.timeline import LAST, session_timeline
from nexus_cli.tools.registry import discover_tools
from nexus_cli.ui.reports.timeline import timeline_text

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("timeline")
def show_timeline(
    session: SessionKey = "",
    last: Annotated[int, typer.Option(min=1, max=MAX_INT, metavar="N", help="List the newest N rows.")] = LAST,
    json: Json = False,
) -> int:
    """List what happened in a session: when, by whom and why, what the model has seen, costs, compactions and drops."""
    ledger = open_ledger()
    subjects = {tool.name: tool.subject for tool in discover_tools().values()}
    value = session_timeline(ledger, find_session_id(ledger, session), subjects, last)
    return print_report(value, timeline_text, json=json, whole=True)
