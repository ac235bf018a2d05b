"""`/sessions`: what there is to go back to."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, wrong
from nexus_cli.session.reports import sessions as reports


async def run(desk: Desk, rest: str) -> None:
    """List the sessions of this folder, or of all.

    The newest first. /resume ID goes on with one of them; `nexus sessions search` looks for words in them.
    """
    if rest not in ("", "--all"):
        raise wrong("sessions", rest, "it takes nothing but --all")
    folder = None if rest else str(desk.session.folder)
    desk.show("sessions", reports.listing(ledger_of(desk), folder))


def _options(desk: Desk) -> Sequence[str]:
    return ("--all",)


COMMAND = Command("sessions", "session", run, "[--all]", complete=_options)
