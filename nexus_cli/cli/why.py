"""`nexus why`: what was decided on the tool calls of a session, by which rule, level or limit."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, SessionKey, refuse_empty
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.decisions import decision_report, decision_text, decisions_report, decisions_text
from nexus_cli.tools.registry import discover_tools

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("why")
def explain_decision(
    call: Annotated[
        str,
        typer.Argument(
            metavar="[ID]", show_default=False, help="A call's id, or a unique prefix of it.", callback=refuse_empty
        ),
    ] = "",
    session: SessionKey = "",
    json: Json = False,
) -> int:
    """Explain the decision on a tool call: the rule with file and line, or the level or limit and who set it.

    Without ID the newest decisions of the session are listed, the newest last.
    """
    ledger = open_ledger()
    log = ledger.log(find_session_id(ledger, session))
    if call:
        value = decision_report(log, call, discover_tools())
        if value is None:
            hint = "`nexus why` lists the newest decisions; --session names another session"
            raise NexusError("usage", call, f"no call of session {log.session_id} has this id", hint)
        return print_report(value, decision_text, json=json)
    return print_report(decisions_report(log), decisions_text, json=json, whole=True)
