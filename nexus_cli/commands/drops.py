"""`/drops`: list the content left out of requests, print it, and send it to the model again."""

from __future__ import annotations

from nexus_cli.commands.arguments import complete_drop_ids, parse_drop_range, require_record
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.core.event import ContextRecall
from nexus_cli.engine.requests import drop_list as reports

RECALL = "recall"
SHOWN, MOST = 4000, 100_000
"""Characters shown by default, and most characters of a range."""


async def show_drops(context: CommandContext, rest: str) -> None:
    """List or print content left out of requests.

    A:B are characters; without a range the beginning is shown. recall ID sends it to the model with your next message.
    Drops of an undone compaction do not count: they are in the window again.
    """
    word, _, wanted = rest.partition(" ")
    if word.casefold() == RECALL:
        await _recall(context, wanted.strip())
        return
    drops = require_record(context).drops()
    if not rest:
        conversation = context.session.context.conversation
        value = reports.window_drops(
            context.session.id, drops, conversation.items, conversation.memos, conversation.epoch.sections
        )
        context.show("drops", value)
        return
    drop_id, text, start, end = parse_drop_range(rest, context)
    end = min(end, start + (MOST if " " in rest else SHOWN))
    drop = next((one for one in drops if one.id == drop_id), None)
    known = {"what": drop.what, "tokens": drop.tokens, "cause": str(drop.cause)} if drop else {"what": "left out"}
    piece = {"text": text[start:end], "start": start, "end": end, "total": len(text)}
    context.show("drop", {"version": 1, "id": drop_id, **known, **piece})


async def _recall(context: CommandContext, rest: str) -> None:
    """Send a drop, or a range of its characters, to the model again with the person's next message."""
    if not rest:
        raise usage_error("drops", RECALL, "the ID is missing", "/drops lists them")
    drop_id, text, start, end = parse_drop_range(rest, context)
    if start == end:
        raise usage_error("drops", rest, f"the range is empty: {drop_id} has {len(text):,} characters")
    session = context.session
    shared = await session.share(text[start:end], f"part of {drop_id}, recalled by the person")
    block = f'<recalled id="{drop_id}" characters="{start}:{end} of {len(text)}">\n{shared}\n</recalled>'
    tokens = session.context.counter.count(block)
    require_record(context).count_recall(drop_id)
    session.attached_texts.note_recall(block, drop_id)
    context.attach(block, f"{drop_id}, {tokens:,} tokens")
    context.feed(ContextRecall(drop_id, tokens))


def _complete_drops(context: CommandContext) -> list[str]:
    """Return the ids of the drops, plain and with `recall`."""
    ids = complete_drop_ids(context)
    return [*ids, *(f"{RECALL} {one}" for one in ids)]


COMMANDS = (
    Command(
        "drops",
        "context",
        show_drops,
        "[ID [A:B] | recall ID [A:B]]",
        complete=_complete_drops,
        authority=Authority.ACTS,
    ),
)
