"""`/recall`: what was left out goes to the model again."""

from __future__ import annotations

from nexus_cli.commands.arguments import complete_drop_ids, parse_drop_range, require_record, usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.event import Recalled


async def run(context: CommandContext, rest: str) -> None:
    """Give the model again what was left out.

    It goes along with your next message. A:B are characters; without a range it is the whole, as far as one message
    takes it. /drops lists the ids.
    """
    if not rest:
        raise usage_error("recall", rest, "it names no drop", "/drops lists them")
    drop_id, text, start, end = parse_drop_range("recall", rest, context)
    if start == end:
        raise usage_error("recall", rest, f"nothing is there: {drop_id} has {len(text):,} characters")
    session = context.session
    shared = await session.share(text[start:end], f"part of {drop_id}, recalled by the person")
    block = f'<recalled id="{drop_id}" characters="{start}:{end} of {len(text)}">\n{shared}\n</recalled>'
    tokens = session.context.counter.count(block)
    require_record(context).count_recall(drop_id)
    context.attach(block, f"{drop_id}, {tokens:,} tokens")
    context.feed(Recalled(drop_id, tokens))


COMMAND = Command("recall", "context", run, "ID [A:B]", complete=complete_drop_ids)
