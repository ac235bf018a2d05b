"""The gate that a summary passes: what was committed to in the messages that go is still there, or it is refused.

The commitments come from the original entries, never from an earlier summary, and no model is asked for them. What
counts as one, and as kept, is `nexus_cli.context.fidelity`; here stands what is judged against what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nexus_cli.context.doubt import doubt
from nexus_cli.context.fidelity.commitment import Commitment
from nexus_cli.context.fidelity.extract import commitments
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.fidelity.verdict import Verdict, added_room, judge
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.plan import Plan
from nexus_cli.core.entry import Entry, Form, Slot
from nexus_cli.session.engine import Engine

READ_AT_ONCE = 500
"""Entries that are read together."""


def gone_entries(lane: Lane, plan: Plan) -> Iterator[Entry]:
    """The original messages that the summary will stand for, those behind an earlier summary included, in order."""
    first, last = plan.entries
    kept = {slot.entry for slot in plan.kept}
    for start in range(first, last + 1, READ_AT_ONCE):
        read = lane.timeline.read(start, min(last, start + READ_AT_ONCE - 1))
        yield from (entry for entry in read if entry.id not in kept)


async def judged(engine: Engine, plan: Plan, summary: str, shown: str) -> tuple[Verdict, str]:
    """The verdict on `summary`, and why it is refused, "" where it is not.

    `shown` is the message that would carry it, with own words, pins and what is attached. Every message that goes can
    be read back by the drop that this message names: what is not in the window is recallable.
    """
    messages = [(entry.id, entry.message) for entry in gone_entries(engine.lane, plan)]
    # In a thread: a long history takes its time, and the event loop has to hear a Ctrl-C meanwhile.
    found = await asyncio.to_thread(commitments, messages)
    window = tuple(engine.lane.slots)
    return await asyncio.to_thread(_judged, engine, plan, found, window, summary, shown)


def _judged(
    engine: Engine, plan: Plan, found: Sequence[Commitment], window: Sequence[Slot], summary: str, shown: str
) -> tuple[Verdict, str]:
    count = engine.context.counter.count
    kept = [slot.message for slot in plan.kept]
    room = added_room(count(summary))
    verdict = judge(found, shown, kept, room=room, count=count, recallable=lambda one: True)
    if not verdict.ok:
        # What was out of the window before cannot be lost by this summary: it stays where it was, behind its drop.
        rest = _held(window, found)
        again = judge(rest, shown, kept, room=room, count=count, recallable=lambda one: True)
        if again.ok and len(rest) < len(found):
            beyond = len(found) - len(rest)
            score = again.retained / len(found)
            verdict = replace(again, total=len(found), recallable=again.recallable + beyond, score=score)
    told = Standing(summary)
    alone = sum(told.holds(one) for one in found)
    gone = sum(slot.tokens for slot in flatten(plan.gone))
    why = doubt(summary, tokens=count(summary), gone=gone, kept=alone, total=len(found))
    if not why and not verdict.ok:
        why = f"of {verdict.total} commitments the summary would keep {verdict.retained}"
    return verdict, why


def _held(window: Sequence[Slot], found: Sequence[Commitment]) -> list[Commitment]:
    """The commitments that the window held before: their messages stand in it, or it tells of them elsewhere."""
    shown = {slot.entry for slot in window if slot.form in (Form.FULL, Form.ELIDED)}
    told = Standing("\n".join(slot.message.content for slot in window))
    return [one for one in found if one.entry in shown or told.holds(one)]
