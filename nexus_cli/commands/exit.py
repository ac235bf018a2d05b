"""`/exit`: the end."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext


async def run(context: CommandContext, rest: str) -> None:
    """Leave nexus; the session is kept.

    A running turn is stopped first.
    """
    refuse_arguments("exit", rest)
    context.leave()


COMMAND = Command("exit", "nexus", run, aliases=("quit",))
