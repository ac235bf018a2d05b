"""`/cost`: tokens and dollars."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, nothing, say_if_old
from nexus_cli.session.reports.cost import cost


async def run(desk: Desk, rest: str) -> None:
    """Show the tokens and dollars of this session.

    By model, by kind of request, and for each of the last turns.
    """
    nothing("cost", rest)
    say_if_old(desk)
    desk.show("cost", await asyncio.to_thread(cost, ledger_of(desk), desk.session.id))


COMMAND = Command("cost", "context", run)
