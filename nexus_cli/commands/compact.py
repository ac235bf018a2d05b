"""`/compact` and `/uncompact`: replace older messages by a summary, and undo that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.commands.command import Command, CommandContext, run_act, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.session.acts.compaction import preview, uncompaction

PREVIEW = "--preview"
PREVIEWS = (PREVIEW, "-preview", "-p")


async def compact(context: CommandContext, rest: str) -> None:
    """Summarize older messages to free context.

    INSTRUCTIONS tell the model what the summary must keep. Your messages and the record of files and commands are kept
    automatically, and the replaced messages stay readable as a drop. A summary that fails or is not smaller changes
    nothing. /uncompact undoes it. --preview (or -p) shows the effect and the cost without sending anything.
    """
    option, _, instructions = rest.partition(" ")
    instructions = instructions.strip()
    if option.lower() in PREVIEWS or rest == "preview":
        await _preview(context, instructions)
        return
    if option.startswith(("-", "\u2013", "\u2014")) and len(option) > 1:  # a dash alone is a list item
        raise usage_error("compact", option, "no such option", f"Use /compact {PREVIEW}")

    async def work() -> None:
        for event in await context.session.compact(rest):
            context.feed(event)

    await context.busy("compacting", work())


async def _preview(context: CommandContext, instructions: str) -> None:
    found: list[Mapping[str, Any]] = []
    await run_act(context, "looking", preview(instructions, found.append))
    for value in found:
        context.show("compaction", value)


async def uncompact(context: CommandContext, rest: str) -> None:
    """Undo the last compaction.

    Restores the replaced messages to the window and keeps everything since. Repeat to undo earlier compactions. Fails
    if the messages no longer fit.
    """
    await run_act(context, "undo", uncompaction())
    context.say(_cost(context.session.engine.next_request()))


def _cost(request: RequestPlan) -> str:
    """Describe the cache use of the next request; the cache may still have the former window."""
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
        authority=Authority.ACTS,
    ),
    Command("uncompact", "context", uncompact, idle=True, authority=Authority.ACTS),
)
