"""`/fork`: a session that goes on from here beside this one."""

from __future__ import annotations

from nexus_cli.commands.arguments import parse_session_name, require_ledger, resume_options, usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.session.opening import refuse_to_leave


async def run(context: CommandContext, rest: str) -> None:
    """Go on in a copy of this session.

    The session itself stays as it is. What was sent is shared, so that the provider's cache goes on hitting. NAME
    is the name of the copy. Where the copy cannot be gone on with, none is left behind.
    """
    ledger, before = require_ledger(context), context.session.id
    if not ledger.session(before).entries:
        raise usage_error("fork", rest, "nothing was said in this session yet", "Say something first")
    refuse_to_leave(context.session)
    made = ledger.fork_session(before, name=parse_session_name("fork", rest), at=format_utc(local_now()))
    try:
        await context.reopen(resume_options(context, resume=made.id))
    except BaseException:
        if context.session.id == before:  # nobody asked for a copy that is not gone on with
            ledger.delete_session(made.id)
        raise
    context.say(f"This is a copy. The session before stays: /resume {before}")


COMMAND = Command("fork", "session", run, "[NAME]", idle=True)
