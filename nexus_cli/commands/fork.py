"""`/fork`: a session that goes on from here beside this one."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import going_on, ledger_of, name_in, wrong
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.session.opening import refuse_to_leave


async def run(desk: Desk, rest: str) -> None:
    """Go on in a copy of this session.

    The session itself stays as it is. What was sent is shared, so that the provider's cache goes on hitting. NAME
    is the name of the copy. Where the copy cannot be gone on with, none is left behind.
    """
    ledger, before = ledger_of(desk), desk.session.id
    if not ledger.session(before).entries:
        raise wrong("fork", rest, "nothing was said in this session yet", "Say something first")
    refuse_to_leave(desk.session)
    made = ledger.fork_session(before, name=name_in("fork", rest), at=format_utc(local_now()))
    try:
        await desk.reopen(going_on(desk, resume=made.id))
    except BaseException:
        if desk.session.id == before:  # nobody asked for a copy that is not gone on with
            ledger.delete_session(made.id)
        raise
    desk.say(f"This is a copy. The session before stays: /resume {before}")


COMMAND = Command("fork", "session", run, "[NAME]", idle=True)
