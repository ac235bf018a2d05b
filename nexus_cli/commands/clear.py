"""`/clear`: a new session."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import going_on, ledger_of, nothing


async def run(desk: Desk, rest: str) -> None:
    """Begin a new session; this one stays.

    Model and effort are taken over; what runs without asking is as it was at the start. /resume goes back.
    """
    nothing("clear", rest)
    before = desk.session
    said = ledger_of(desk).session(before.id).entries > 0
    await desk.reopen(going_on(desk, resume="", effort=before.status().effort))
    if said:
        desk.say(f"The session before stays: /resume {before.id}")


COMMAND = Command("clear", "session", run, idle=True)
