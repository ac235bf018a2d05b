"""`/uncompact`: the newest compaction is taken back."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.acts.uncompact import uncompaction
from nexus_cli.session.cache import ahead


async def run(context: CommandContext, rest: str) -> None:
    """Take the newest compaction back.

    The messages that it summed up stand in the window again, with everything since. Again takes back the one before.
    Refused, with figures, where they no longer fit.
    """
    refuse_arguments("uncompact", rest)

    async def work() -> None:
        async for event in context.session.act(uncompaction()):
            context.feed(event)
        context.say(_cost(context.session.look(lambda parts: ahead(parts.engine))))

    await context.busy("undoing a compaction", work())


def _cost(value: Mapping[str, int]) -> str:
    """What the next request finds in the cache: that of the former window may still be there."""
    new = value["tokens"] - value["cached"]
    if not value["cached"]:
        return f"The next request is sent anew: about {new:,} tokens that no cache has."
    return f"The next request finds its beginning in the cache; about {new:,} tokens are sent anew."


COMMAND = Command("uncompact", "context", run, idle=True)
