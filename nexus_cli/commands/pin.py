"""`/pin`: what stays in the window word for word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.acts.pin import pin
from nexus_cli.session.reports import compaction as reports
from nexus_cli.session.user_messages import newest_messages

MESSAGES = 10
"""Messages of the person that are listed with their numbers."""


async def run(context: CommandContext, rest: str) -> None:
    """Keep words or a message through every compaction.

    A number is that of a message, anything else are words of yours. Pins stand word for word below the summary,
    together in at most 5 % of the budget. Without an argument the pins are listed, and your newest messages with
    their numbers; /unpin takes a pin back.
    """
    if not rest:
        context.show("pins", {**context.session.look(reports.pinned), "messages": _said(context)})
        return

    async def work() -> None:
        async for event in context.session.act(pin(rest)):
            context.feed(event)

    await context.busy("pinning", work())


def _said(context: CommandContext) -> list[dict[str, Any]]:
    return newest_messages(context.session.context.lane.timeline, MESSAGES)


def _numbers(context: CommandContext) -> Sequence[str]:
    """The numbers of the person's newest messages, the newest first."""
    return [str(one["entry"]) for one in reversed(_said(context))]


COMMAND = Command("pin", "context", run, "[TEXT | MESSAGE]", idle=True, complete=_numbers)
