"""`nexus replay`: rebuild a session's requests offline and compare them with what was sent."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, SessionKey, whole_number
from nexus_cli.cli.print_report import print_json, print_text
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.core.limits import MAX_INT
from nexus_cli.reports.replay import replay_text
from nexus_cli.session.replay import check

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("replay")
def replay(
    session: SessionKey = "",
    step: Annotated[
        int | None, typer.Option(callback=whole_number(-MAX_INT), metavar="N", help="Only request N, from 1.")
    ] = None,
    json: Json = False,
) -> int:
    """Rebuild the requests of a session and compare them byte for byte; exit 1 names the first line that differs."""
    ledger = open_ledger()
    found = find_session_id(ledger, session)
    value = check(ledger, found, step)
    if json:
        print_json({"version": 1, "session": found, **value})
    else:
        print_text(replay_text({"session": found, **value}))
    return 0 if value["ok"] else 1
