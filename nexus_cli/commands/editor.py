"""`/editor`: the next message is written in an editor."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk


async def run(desk: Desk, rest: str) -> None:
    """Write the next message in your editor.

    That is $VISUAL or $EDITOR; TEXT is what the message begins with. What you leave there comes into the input box;
    nothing is sent before Enter.
    """
    desk.fill(await desk.edit(rest))


COMMAND = Command("editor", "work", run, "[TEXT]")
