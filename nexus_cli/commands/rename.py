"""`/rename`: a name for the session."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, name_in, wrong


async def run(desk: Desk, rest: str) -> None:
    """Give this session a name.

    /resume and --resume find it under that.
    """
    if not rest:
        raise wrong("rename", rest, "it gives no name")
    ledger = ledger_of(desk)
    ledger.rename_session(desk.session.id, name_in("rename", rest))
    desk.say(f"This session is called {ledger.session(desk.session.id).name}.")


COMMAND = Command("rename", "session", run, "NAME")
