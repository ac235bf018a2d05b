"""`/rename`: a name for the session."""

from __future__ import annotations

from nexus_cli.commands.arguments import parse_session_name, require_ledger, usage_error
from nexus_cli.commands.command import Command, CommandContext


async def run(context: CommandContext, rest: str) -> None:
    """Give this session a name.

    /resume and --resume find it under that.
    """
    if not rest:
        raise usage_error("rename", rest, "it gives no name")
    ledger = require_ledger(context)
    ledger.rename_session(context.session.id, parse_session_name("rename", rest))
    context.say(f"This session is called {ledger.session(context.session.id).name}.")


COMMAND = Command("rename", "session", run, "NAME")
