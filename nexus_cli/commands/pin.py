"""`/pin`: what stays in the window word for word."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.context.plan import PINS_SHARE
from nexus_cli.session.acts.pin import pin
from nexus_cli.session.pins import pins
from nexus_cli.session.reports import compaction as reports


async def run(desk: Desk, rest: str) -> None:
    """Keep words or a message through every compaction.

    A number is that of a message (/compact --preview shows them), anything else are words of yours. Pins stand word
    for word below the summary, together in at most 5 % of the budget. Without an argument the pins are listed;
    /unpin takes one back.
    """
    if not rest:
        context = desk.session.context
        room = int(desk.session.status().budget * PINS_SHARE)
        listed = pins(context.lane.timeline)
        desk.show("pins", reports.listing(desk.session.id, listed, context.counter.count, room))
        return

    async def work() -> None:
        async for event in desk.session.act(pin(rest)):
            desk.feed(event)

    await desk.busy("pinning", work())


COMMAND = Command("pin", "context", run, "[TEXT | MESSAGE]", idle=True)
