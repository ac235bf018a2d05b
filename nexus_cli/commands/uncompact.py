"""`/uncompact`: the newest compaction is taken back."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import anew, nothing
from nexus_cli.session.acts.uncompact import uncompaction


async def run(desk: Desk, rest: str) -> None:
    """Take the newest compaction back.

    The messages that it summed up stand in the window again, with everything since. Again takes back the one before.
    Refused, with figures, where they no longer fit.
    """
    nothing("uncompact", rest)

    async def work() -> None:
        async for event in desk.session.act(uncompaction()):
            desk.feed(event)
        if cost := anew(desk):
            desk.say(cost)

    await desk.busy("undoing a compaction", work())


COMMAND = Command("uncompact", "context", run, idle=True)
