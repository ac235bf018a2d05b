"""`/diff`: what changed in the working folder."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import nothing
from nexus_cli.session.reports.diff import diff


async def run(desk: Desk, rest: str) -> None:
    """Show what changed since the last commit.

    Of the working folder, with the names of files that git does not track. Without git it names the files that this
    session changed.
    """
    nothing("diff", rest)
    session = desk.session
    desk.show("diff", await diff(session.folder, session.ledger, session.id))


COMMAND = Command("diff", "work", run)
