"""`/tools`: what the model can do."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.tools import tools


async def run(context: CommandContext, rest: str) -> None:
    """List the tools of the model.

    What each does, what its schema costs in every request, and whether it asks first.
    """
    refuse_arguments("tools", rest)
    context.show("tools", await asyncio.to_thread(tools, context.session))


COMMAND = Command("tools", "work", run)
