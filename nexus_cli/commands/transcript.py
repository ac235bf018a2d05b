"""`/transcript`: the whole session to read and to search."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.transcript import session_transcript


async def show_transcript(context: CommandContext, rest: str) -> None:
    """Show the whole session, outputs uncut.

    In your pager (`PAGER`, else less, where / searches), opened at its end. It has what a compaction took out of the
    window too.
    """
    context.show("transcript", await asyncio.to_thread(session_transcript, context.session))


COMMANDS = (Command("transcript", "session", show_transcript),)
