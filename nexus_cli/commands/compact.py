"""`/compact` and `/uncompact`: replace older history by a summary, and undo that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.commands.command import Command, CommandContext, run_act, usage_error
from nexus_cli.lane.current_request import next_request
from nexus_cli.lane.next_request import NextRequest
from nexus_cli.session.acts.compaction import preview, uncompaction

PREVIEW = "--preview"
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
"""Dashes that an editor or a terminal may make of a typed one."""


async def compact(context: CommandContext, rest: str) -> None:
    """Summarize older messages to free context.

    INSTRUCTIONS say what the summary must keep. Your words, the files and the commands are kept by themselves, and
    what is replaced is a drop: nothing is lost. A summary that fails or is not smaller changes nothing. /uncompact
    undoes it. --preview (or -p) shows what would go and stay, and what it costs, and sends nothing.
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
    """True if `option` is `preview` with any dashes; without dashes it must be the only word."""
    word, dashed = option.lstrip(DASHES).casefold(), option.startswith(tuple(DASHES))
    return (word == "preview" and (dashed or alone)) or (word == "p" and dashed)


async def _preview(context: CommandContext, instructions: str) -> None:
    found: list[Mapping[str, Any]] = []
    await run_act(context, "looking", preview(instructions, found.append))
    for value in found:
        context.show("compaction", value)


async def uncompact(context: CommandContext, rest: str) -> None:
    """Undo the last compaction.

    The messages that it replaced are in the window again, with everything since. Repeat it to undo the one before.
    Refused, with figures, if they no longer fit.
    """
    await run_act(context, "undo", uncompaction())
    context.say(_cost(next_request(context.session.state.lane_state)))


def _cost(request: NextRequest) -> str:
    """Return what the next request finds in the cache, which may still have the former window."""
    new = request.tokens - request.cached
    if new == request.tokens:
        return f"The next request misses the cache (about {new:,} tokens)."
    return f"The next request hits the cache, except for about {new:,} tokens."


COMMANDS = (
    Command(
        "compact",
        "context",
        compact,
        "[--preview] [INSTRUCTIONS]",
        idle=True,
        complete=lambda context: (PREVIEW,),
        aliases=("summarize",),
        is_first=True,
    ),
    Command("uncompact", "context", uncompact, idle=True),
)
