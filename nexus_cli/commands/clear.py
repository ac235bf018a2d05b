"""`/clear`: a new session."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments, require_ledger, resume_options
from nexus_cli.commands.command import Command, CommandContext


async def run(context: CommandContext, rest: str) -> None:
    """Begin a new session; this one stays.

    Model and effort are taken over; what runs without asking is as it was at the start. /resume goes back.
    """
    refuse_arguments("clear", rest)
    before = context.session
    said = require_ledger(context).session(before.id).entries > 0
    await context.reopen(resume_options(context, resume="", effort=before.status().effort))
    if said:
        context.say(f"The session before stays: /resume {before.id}")


COMMAND = Command("clear", "session", run, idle=True)
