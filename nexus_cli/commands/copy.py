"""`/copy`: the last answer, or a block of code in it, to the clipboard."""

from __future__ import annotations

from markdown_it import MarkdownIt

from nexus_cli.commands.arguments import usage_error
from nexus_cli.commands.command import Command, CommandContext


async def run(context: CommandContext, rest: str) -> None:
    """Copy the last answer, or its Nth block of code.

    It goes to the clipboard; blocks are counted from 1.
    """
    answer = context.last_answer
    if not answer:
        raise usage_error("copy", rest, "there is no answer yet")
    if not rest:
        context.say(await context.copy(answer))
        return
    if not (rest.isascii() and rest.isdigit() and 0 < len(rest) < 6):
        raise usage_error("copy", rest, "it takes the number of a block of code")
    blocks = [token.content for token in MarkdownIt("commonmark").parse(answer) if token.type == "fence"]
    if not 1 <= int(rest) <= len(blocks):
        why = f"the last answer has {len(blocks)} of them" if blocks else "the last answer has no block of code"
        raise usage_error("copy", rest, why)
    context.say(await context.copy(blocks[int(rest) - 1].removesuffix("\n")))


COMMAND = Command("copy", "work", run, "[N]")
