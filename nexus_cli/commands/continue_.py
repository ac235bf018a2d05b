"""`/continue`: what is open goes on."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments, usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports import last_exchange


async def run(context: CommandContext, rest: str) -> None:
    """Go on with what is open.

    That is: calls without a result, words without an answer, an answer that broke off. A call that had begun when
    nexus ended is never run a second time by itself.
    """
    refuse_arguments("continue", rest)
    if not context.session.is_open() and last_exchange.value(context.session)["finished"]:
        raise usage_error("continue", rest, "nothing is open", "Say what comes next")
    context.start()


COMMAND = Command("continue", "work", run, idle=True)
