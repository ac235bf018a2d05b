"""`/exit`: the end."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing


async def run(desk: Desk, rest: str) -> None:
    """Leave nexus; the session is kept.

    A running turn is stopped first.
    """
    nothing("exit", rest)
    desk.leave()


COMMAND = Command("exit", "nexus", run, aliases=("quit",))
