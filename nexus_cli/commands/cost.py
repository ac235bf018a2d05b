"""`/cost`: tokens and dollars."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import refuse_arguments, require_ledger, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.cost import cost


async def run(context: CommandContext, rest: str) -> None:
    """Show the tokens and dollars of this session.

    By model, by kind of request, and for each of the last turns.
    """
    refuse_arguments("cost", rest)
    warn_if_stale(context)
    context.show("cost", await asyncio.to_thread(cost, require_ledger(context), context.session.id))


COMMAND = Command("cost", "context", run)
