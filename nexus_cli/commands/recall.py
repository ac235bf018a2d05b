"""`/recall`: what was left out goes to the model again."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import drop_ids, original, record_of, wrong
from nexus_cli.core.event import Recalled


async def run(desk: Desk, rest: str) -> None:
    """Give the model again what was left out.

    It goes along with your next message. A:B are characters; without a range it is the whole, as far as one message
    takes it. /drops lists the ids.
    """
    if not rest:
        raise wrong("recall", rest, "it names no drop", "/drops lists them")
    drop_id, text, start, end = original("recall", rest, desk)
    if start == end:
        raise wrong("recall", rest, f"nothing is there: {drop_id} has {len(text):,} characters")
    session = desk.session
    shared = await session.share(text[start:end], f"part of {drop_id}, recalled by the person")
    block = f'<recalled id="{drop_id}" characters="{start}:{end} of {len(text)}">\n{shared}\n</recalled>'
    tokens = session.context.counter.count(block)
    record_of(desk).count_recall(drop_id)
    desk.attach(block, f"{drop_id}, {tokens:,} tokens")
    desk.feed(Recalled(drop_id, tokens))


COMMAND = Command("recall", "context", run, "ID [A:B]", complete=drop_ids)
