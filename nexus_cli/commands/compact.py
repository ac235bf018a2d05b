"""`/compact`: older history becomes a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.commands.arguments import usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.acts.compaction import preview

PREVIEW = "--preview"
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
"""What an editor or a terminal makes of a typed dash, among them."""


async def run(context: CommandContext, rest: str) -> None:
    """Sum up older history for smaller requests.

    INSTRUCTIONS tell the summary what to keep. Nothing is lost: what is summed up is a drop, and a summary that
    fails, loses what was agreed, or would not be smaller leaves everything as it was. /uncompact takes it back.
    --preview (or -p) shows what would stay and go, and what it costs, and sends nothing.
    """
    option, _, instructions = rest.partition(" ")
    instructions = instructions.strip()
    if _means_preview(option, alone=not instructions):
        await _preview(context, instructions)
        return
    if option.startswith(tuple(DASHES)) and len(option) > 1:  # one alone is the mark of a list
        raise usage_error(
            "compact", option, "there is no such option", f"the only one is {PREVIEW}: /compact {PREVIEW}"
        )

    async def work() -> None:
        for event in await context.session.compact(rest):
            context.feed(event)

    await context.busy("compacting", work())


def _means_preview(option: str, *, alone: bool) -> bool:
    """Whether `option` is the one that there is, with any dashes; without any it has to stand `alone`."""
    word, dashed = option.lstrip(DASHES).casefold(), option.startswith(tuple(DASHES))
    return (word == "preview" and (dashed or alone)) or (word == "p" and dashed)


async def _preview(context: CommandContext, instructions: str) -> None:
    found: list[Mapping[str, Any]] = []

    async def work() -> None:
        async for event in context.session.act(preview(instructions, found.append)):
            context.feed(event)

    await context.busy("looking", work())
    for value in found:
        context.show("compaction", value)


COMMAND = Command(
    "compact", "context", run, "[--preview] [INSTRUCTIONS]", idle=True, complete=lambda context: (PREVIEW,)
)
