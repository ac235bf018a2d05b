"""`/editor`: the next message is written in an editor."""

from __future__ import annotations

from nexus_cli.commands.command import Command, CommandContext


async def run(context: CommandContext, rest: str) -> None:
    """Write the next message in your editor.

    That is $VISUAL or $EDITOR; TEXT is what the message begins with. What you leave there comes into the input box;
    nothing is sent before Enter.
    """
    context.fill(await context.edit(rest))


COMMAND = Command("editor", "work", run, "[TEXT]")
