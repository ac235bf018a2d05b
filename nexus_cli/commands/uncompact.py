"""`/uncompact`: the newest compaction is taken back."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.acts.uncompact import uncompaction
from nexus_cli.session.next_request.current import next_request
from nexus_cli.session.next_request.request import NextRequest


async def run(context: CommandContext, rest: str) -> None:
    """Take the newest compaction back.

    The messages that it summed up stand in the window again, with everything since. Again takes back the one before.
    Refused, with figures, where they no longer fit.
    """
    refuse_arguments("uncompact", rest)

    async def work() -> None:
        async for event in context.session.act(uncompaction()):
            context.feed(event)
        context.say(_cost(context.session.look(lambda parts: next_request(parts.engine))))

    await context.busy("undoing a compaction", work())


def _cost(request: NextRequest) -> str:
    """What the next request finds in the cache: that of the former window may still be there."""
    new = request.tokens - request.cached
    if new == request.tokens:
        return f"The next request is sent anew: about {new:,} tokens that no cache has."
    return f"The next request finds its beginning in the cache; about {new:,} tokens are sent anew."


COMMAND = Command("uncompact", "context", run, idle=True)
