"""`/continue` and `/editor`: resume an unfinished turn, write the next message in an editor."""

from __future__ import annotations

from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.reports.sessions import last_exchange


async def continue_turn(context: CommandContext, rest: str) -> None:
    """Resume an unfinished turn.

    A turn is unfinished if a call has no result, a message has no answer, or the answer broke off. A call that
    had started when nexus ended is never repeated automatically.
    """
    if not context.session.is_open() and last_exchange(context.session)["finished"]:
        raise usage_error("continue", rest, "no turn was interrupted", "Type a message")
    context.start()


async def open_editor(context: CommandContext, rest: str) -> None:
    """Write the next message in your editor.

    Opens $VISUAL or $EDITOR with TEXT. The saved text is put into the input box; nothing is sent before Enter.
    """
    context.fill(await context.edit(rest))


COMMANDS = (
    Command("continue", "run", continue_turn, idle=True, authority=Authority.ACTS),
    Command("editor", "run", open_editor, "[TEXT]", at_terminal=True),
)
