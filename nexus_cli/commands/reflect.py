"""`/reflect`: the model looks back at its work and keeps its lessons."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing
from nexus_cli.session.acts.reflect import reflection


async def run(desk: Desk, rest: str) -> None:
    """Let the model look back and keep its lessons.

    What it learned goes to memory, slot agent (see /memory). The conversation is left as it is: nothing is added to it
    and its next request finds its cache.
    """
    nothing("reflect", rest)
    told: list[str] = []

    async def work() -> None:
        async for event in desk.session.act(reflection(told.append)):
            desk.feed(event)

    await desk.busy("reflecting", work())
    desk.show("reflection", {"version": 1, "text": told[0] if told else ""})


COMMAND = Command("reflect", "work", run, idle=True)
