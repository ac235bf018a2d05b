"""`/continue` and `/editor`: resume an unfinished turn, write the next message in an editor."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Noun, Verb
from nexus_cli.core.memo_kinds import SHELL_LINE
from nexus_cli.core.option import Argument
from nexus_cli.reports.last_exchange import last_exchange


async def continue_turn(context: CommandContext) -> None:
    """Resume an unfinished turn.

    A turn is unfinished if a call has no result, a message has no answer, or the answer broke off. nexus never repeats
    a call that was running when nexus exited.
    """
    if not context.session.is_open() and last_exchange(context.session)["finished"]:
        raise usage_error("continue", "", "no turn was interrupted", "Type a message")
    context.session.conversation.memo(SHELL_LINE, {"shown": "/continue"})
    context.start()


async def open_editor(
    context: CommandContext,
    text: Annotated[str, Argument("TEXT", "The initial text.", is_text=True)] = "",
) -> None:
    """Write the next message in your editor.

    Opens $VISUAL or $EDITOR with TEXT. The saved text is put into the input box; nothing is sent until you press Enter.
    """
    context.fill(await context.edit(text))


NOUNS = (
    Noun("continue", "run", (Verb(continue_turn),), is_idle=True),
    Noun("editor", "run", (Verb(open_editor, at_terminal=True),)),
)
