"""`/timeline`: what happened in this session, when, by whom and why, what is new and what it cost."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import require_ledger, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.session.reports.timeline import LAST, session_timeline

LONGEST = 9
"""Digits of a number of rows."""


async def show_timeline(context: CommandContext, rest: str) -> None:
    """List what happened: when, by whom and why.

    [SEEN] is what the model was sent, [NEW] what it was not yet; with costs, compactions and drops. The newest 200
    rows are listed, or as many as N says.
    """
    words = rest.split()
    number = words[-1] if words else str(LAST)
    if words not in ([], [number], ["--last", number]) or not _is_count(number):
        raise usage_error("timeline", rest, "expected the number of rows to list", "For example /timeline --last 500")
    ledger, session = require_ledger(context), context.session
    warn_if_stale(context)
    subjects = {tool.name: tool.subject for tool in session.tools()}
    value = await asyncio.to_thread(session_timeline, ledger, session.id, subjects, int(number))
    context.show("timeline", value)


def _is_count(number: str) -> bool:
    return number.isascii() and number.isdigit() and len(number) <= LONGEST and int(number) > 0


COMMANDS = (Command("timeline", "session", show_timeline, "[--last N]"),)
