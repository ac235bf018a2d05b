"""`nexus replay`: rebuild a session's requests offline and compare them with what was sent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import Json, SessionKey, whole_number
from nexus_cli.cli.print_report import print_json, print_text
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.config.settings import Settings, own_settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MAX_INT
from nexus_cli.ledger import Ledger
from nexus_cli.reports.replay import replay_text
from nexus_cli.session.replay import check

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("replay")
def replay(
    session: SessionKey = "",
    step: Annotated[
        int | None, typer.Option(callback=whole_number(-MAX_INT), metavar="N", help="Only request N, from 1.")
    ] = None,
    wire: Annotated[
        bool, typer.Option("--wire", help="Also rebuild the bodies with litellm and compare them. Sends nothing.")
    ] = False,
    json: Json = False,
) -> int:
    """Rebuild the requests of a session and compare them byte for byte; exit 1 names the first line that differs."""
    ledger = open_ledger()
    found = find_session_id(ledger, session)
    value = check(ledger, found, step)
    if wire:
        value["wire"] = _wire(ledger, found, step)
        made = value["wire"]
        value["ok"] = value["ok"] and not any(one["differ"] for one in (made, *made["beside"]))
    if json:
        print_json({"version": 1, "session": found, **value})
    else:
        print_text(replay_text({"session": found, **value}))
    return 0 if value["ok"] else 1


def _wire(ledger: Ledger, session: str, step: int | None) -> dict[str, Any]:
    import asyncio  # noqa: PLC0415  (only for --wire)

    from nexus_cli.session.replay_wire import check_wire  # noqa: PLC0415  (it loads the model library)

    try:
        settings = own_settings()
    except NexusError:
        settings = Settings()  # only a window in the settings could matter
    return asyncio.run(check_wire(ledger, session, settings, step))
