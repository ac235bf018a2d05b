"""`/diff`: what changed in the working folder."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.diff import diff


async def run(context: CommandContext, rest: str) -> None:
    """Show what changed since the last commit.

    Of the working folder, with the names of files that git does not track. Without git it names the files that this
    session changed.
    """
    refuse_arguments("diff", rest)
    session = context.session
    context.show("diff", await diff(session.folder, session.ledger, session.id))


COMMAND = Command("diff", "work", run)
