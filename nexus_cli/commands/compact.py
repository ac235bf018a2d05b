"""`/compact` and `/uncompact`: replace older messages by a summary, and undo that."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.command import CommandContext, run_act, usage_error
from nexus_cli.commands.verb import Act, ActReport, Noun, Report, Verb, print_act, report_act
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.event import CompactionDone
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import Argument, Option
from nexus_cli.session.acts.compaction import preview, uncompaction

PREVIEW = "preview"
Compacted = Report[JsonObject | ActReport]


async def compact(
    context: CommandContext,
    instructions: Annotated[str, Argument("INSTRUCTIONS", "What the summary must keep.", is_text=True)] = "",
    is_preview: Annotated[
        bool, Option(None, "Show the effect and the cost without sending anything.", "--preview -preview -p")
    ] = False,
) -> Compacted:
    """Summarize older messages to free context.

    Your newest messages and a record of files and commands are kept; /drops lists the replaced messages. If the summary
    fails or is not smaller, nothing changes. /uncompact undoes a compaction.
    """
    if is_preview or instructions == PREVIEW:
        return await _preview(context, instructions if is_preview else "")
    option = instructions.partition(" ")[0]
    if option.startswith(("-", "\u2013", "\u2014")) and len(option) > 1:  # a dash alone is a list item
        raise usage_error("compact", option, "there is no such option", f"Use /compact --{PREVIEW}")

    compacted: list[str] = []

    async def work() -> None:
        events = await context.session.compact(instructions, context.feed)
        compacted.extend(context.session.id for event in events if isinstance(event, CompactionDone) and event.ok)

    await context.busy("compacting", work())
    return report_act("", *compacted)


async def _preview(context: CommandContext, instructions: str) -> Compacted:
    previews: list[JsonObject] = []
    await run_act(context, "previewing", preview(instructions, previews.append))
    return Report("compaction", previews[0]) if previews else report_act("")


async def uncompact(context: CommandContext) -> Act:
    """Undo the last compaction.

    Restores the replaced messages to the window and keeps everything since. Repeat to undo earlier compactions. The
    command fails if the messages no longer fit.
    """
    await run_act(context, "undoing", uncompaction())
    return print_act(_cost(context.session.engine.next_request()), context.session.id)


def _cost(request: RequestPlan) -> str:
    """Describe the cache use of the next request; the cache may still have the former window."""
    new = request.tokens - request.cached
    if new == request.tokens:
        return f"The next request misses the cache (about {new:,} tokens)."
    return f"The next request hits the cache, except for about {new:,} tokens."


NOUNS = (
    Noun(
        "compact",
        "context",
        (Verb(compact),),
        aliases=("summarize", "compress"),
        is_first=True,
        is_idle=True,
    ),
    Noun("uncompact", "context", (Verb(uncompact),), is_idle=True),
)
