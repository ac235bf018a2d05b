"""`/tools`: what the model can do."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing
from nexus_cli.session.reports.tools import tools


async def run(desk: Desk, rest: str) -> None:
    """List the tools of the model.

    What each does, what its schema costs in every request, and whether it asks first.
    """
    nothing("tools", rest)
    desk.show("tools", await asyncio.to_thread(tools, desk.session))


COMMAND = Command("tools", "work", run)
