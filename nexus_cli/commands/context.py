"""`/context`: the window as it is."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing


async def run(desk: Desk, rest: str) -> None:
    """Show the window: what the next request holds.

    A bar per layer, what the cache covers, the largest items, each section with its form and why, what was left out,
    and the limits in force.
    """
    nothing("context", rest)
    desk.show("context", await asyncio.to_thread(desk.session.report))


COMMAND = Command("context", "context", run)
