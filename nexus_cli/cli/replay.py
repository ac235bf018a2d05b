"""`nexus replay`: rebuild a session's requests offline and compare them with what was sent."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.options import MOST, Json, SessionKey
from nexus_cli.cli.show import show, show_json
from nexus_cli.cli.which_session import open_ledger, session_id
from nexus_cli.session.replay import check
from nexus_cli.ui.reports import replay_text

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("replay")
def replay(
    session: SessionKey = "",
    step: Annotated[int | None, typer.Option(min=1, max=MOST, metavar="N", help="Only request N, from 1.")] = None,
    json: Json = False,
) -> int:
    """Rebuild the requests of a session and compare them byte for byte; exit 1 names the first line that differs."""
    ledger = open_ledger()
    found = session_id(ledger, session)
    value = check(ledger, found, step)
    if json:
        show_json({"version": 1, "session": found, **value})
    else:
        show(replay_text({"session": found, **value}))
    return 0 if value["ok"] else 1
