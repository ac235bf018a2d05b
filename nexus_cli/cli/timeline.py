"""`nexus timeline`: what happened in a session, a space or a run: when, by whom and why, what is new, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import Json, SessionKey, refuse_empty, whole_number
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger
from nexus_cli.reports.timeline import LAST, session_timeline, timeline_text
from nexus_cli.tools.registry import discover_tools

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("timeline")
def show_timeline(
    session: SessionKey = "",
    space: Annotated[
        str, typer.Option(metavar="NAME", help="The messages of a space, and their runs.", callback=refuse_empty)
    ] = "",
    run: Annotated[
        str, typer.Option(metavar="ID", help="The states of a run, and its session.", callback=refuse_empty)
    ] = "",
    reader: Annotated[
        str,
        typer.Option("--as", metavar="NAME", help="With --space: what is new to this member.", callback=refuse_empty),
    ] = "",
    last: Annotated[int, typer.Option(callback=whole_number(), metavar="N", help="List the newest N rows.")] = LAST,
    json: Json = False,
) -> int:
    """List what happened in a session: when, by whom and why, what the model has seen, costs, compactions and drops."""
    if sum(map(bool, (session, space, run))) > 1:
        raise NexusError("usage", "--session, --space and --run", "they are different timelines", "Give one of them")
    if reader and not space:
        raise NexusError("usage", f"--as {reader}", "it says who reads a space", "Give --space NAME too")
    value = _load_timeline(open_ledger(), session, space, run, reader, last)
    return print_report(value, timeline_text, json=json, whole=True)


def _load_timeline(ledger: Ledger, session: str, space: str, run: str, reader: str, last: int) -> Mapping[str, Any]:
    if space:
        from nexus_cli.reports.space_timeline import find_reader, space_timeline  # noqa: PLC0415

        found = ledger.spaces.find(space)
        return space_timeline(ledger, found, find_reader(found, reader), last)
    subjects = {tool.name: tool.subject for tool in discover_tools().values()}
    if run:
        from nexus_cli.reports.run_timeline import run_timeline  # noqa: PLC0415

        return run_timeline(ledger, run, subjects, last)
    return session_timeline(ledger, find_session_id(ledger, session), subjects, last)
