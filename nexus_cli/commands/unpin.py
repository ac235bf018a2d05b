"""`/unpin`: a pin is taken back."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.arguments import usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.acts.pin import unpin
from nexus_cli.session.compaction.pins import pins


async def run(context: CommandContext, rest: str) -> None:
    """Take a pin back.

    It is named by its id, by the number of its message, or by its words, of which a part is enough where no other pin
    has them. Where its text stands now it stays until the next compaction; what is sent is never rewritten. /pin lists
    the pins.
    """
    if not rest:
        raise usage_error(
            "unpin", rest, "it does not say which: an id, the number of a message, or words", "/pin lists them"
        )

    async def work() -> None:
        async for event in context.session.act(unpin(rest)):
            context.feed(event)

    await context.busy("unpinning", work())


def _ids(context: CommandContext) -> Sequence[str]:
    """The ids of the pins in force."""
    return [one.id for one in pins(context.session.context.lane.timeline)]


COMMAND = Command("unpin", "context", run, "ID | MESSAGE | TEXT", idle=True, complete=_ids)
