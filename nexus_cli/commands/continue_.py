"""`/continue`: what is open goes on."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing, wrong
from nexus_cli.session.reports import last_exchange


async def run(desk: Desk, rest: str) -> None:
    """Go on with what is open.

    That is: calls without a result, words without an answer, an answer that broke off. A call that had begun when
    nexus ended is never run a second time by itself.
    """
    nothing("continue", rest)
    if not desk.session.is_open() and last_exchange.value(desk.session)["finished"]:
        raise wrong("continue", rest, "nothing is open", "Say what comes next")
    desk.start()


COMMAND = Command("continue", "work", run, idle=True)
