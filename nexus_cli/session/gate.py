"""The gate that a summary passes: what was committed to in the messages that go is still there, or it is refused.

The commitments come from the original entries, never from an earlier summary, and no model is asked for them. What
counts as one, and as kept, is `nexus_cli.context.fidelity`; here stands what is judged against what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nexus_cli.context.doubt import doubt
from nexus_cli.context.fidelity.commitment import RANK, Commitment
from nexus_cli.context.fidelity.extract import commitments
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.fidelity.verdict import Verdict, added_room, judge
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.plan import Plan
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.entry import Entry, Form, Slot
from nexus_cli.session.engine import Engine
from nexus_cli.session.said import READ_AT_ONCE
from nexus_cli.session.way_back import can_recall

NAMED = 3
"""So many of the things that a summary would lose are named."""
SHORT = 60
"""Characters of one of them."""


def gone_entries(lane: Lane, plan: Plan) -> Iterator[Entry]:
    """The original messages that the summary will stand for, those behind an earlier summary included, in order."""
    first, last = plan.entries
    kept = {slot.entry for slot in plan.kept}
    for start in range(first, last + 1, READ_AT_ONCE):
        read = lane.timeline.read(start, min(last, start + READ_AT_ONCE - 1))
        yield from (entry for entry in read if entry.id not in kept)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be said of a summary."""

    verdict: Verdict
    why: str
    """Why it is refused; "" where it is not."""
    lost: tuple[Commitment, ...] = ()
    """Where it loses too much: what would stand neither in it nor beside it, what matters most first."""


async def to_keep(engine: Engine, plan: Plan) -> tuple[Commitment, ...]:
    """What was committed to in the messages that go."""
    messages = [(entry.id, entry.message) for entry in gone_entries(engine.lane, plan)]
    # In a thread: a long history takes its time, and the event loop has to hear a Ctrl-C meanwhile.
    return await asyncio.to_thread(commitments, messages)


async def judged(
    engine: Engine, plan: Plan, found: Sequence[Commitment], summary: str, shown: str
) -> Judgement:
    """The judgement on `summary` by what was `found` in the messages that go.

    `shown` is the message that would carry it, with own words, pins and what is attached. Every message that goes can
    be read back by the drop that this message names, where the model has the tool for it.
    """
    return await asyncio.to_thread(
        _judged, engine, plan, found, tuple(engine.lane.slots), summary, shown, can_recall(engine)
    )


def _judged(
    engine: Engine, plan: Plan, found: Sequence[Commitment], window: Sequence[Slot], summary: str, shown: str,
    recalls: bool,
) -> Judgement:  # fmt: skip
    count = engine.context.counter.count
    kept = [slot.message for slot in plan.kept]
    room = added_room(count(summary))
    verdict = judge(found, shown, kept, room=room, count=count, recallable=lambda one: recalls)
    if not verdict.ok:
        # What was out of the window before cannot be lost by this summary: it stays where it was, behind its drop.
        rest = _held(window, found)
        again = judge(rest, shown, kept, room=room, count=count, recallable=lambda one: recalls)
        if again.ok and len(rest) < len(found):
            verdict = _with_more(again, len(found) - len(rest), recalls)
    told = Standing(summary)
    alone = sum(told.holds(one) for one in found)
    gone = sum(slot.tokens for slot in flatten(plan.gone))
    why = doubt(summary, tokens=count(summary), gone=gone, kept=alone, total=len(found))
    if why or verdict.ok:
        return Judgement(verdict, why)
    there = Standing("\n".join([shown, *verdict.added, *(message.content for message in kept)]))
    lost = sorted((one for one in found if not there.holds(one)), key=lambda one: RANK[one.kind])
    return Judgement(verdict, _refusal(verdict, lost), tuple(lost))


def _with_more(verdict: Verdict, beyond: int, recalls: bool) -> Verdict:
    """`verdict` with so many commitments more, all of them out of the window."""
    total = verdict.total + beyond
    return replace(
        verdict,
        total=total,
        recallable=verdict.recallable + (beyond if recalls else 0),
        missing=verdict.missing + (0 if recalls else beyond),
        score=verdict.retained / total,
    )


def _refusal(verdict: Verdict, lost: Sequence[Commitment]) -> str:
    """What would be lost, and what helps, in one line."""
    names = list(dict.fromkeys(_short(one.text) for one in lost))
    named = "; ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
    count = verdict.total - verdict.retained
    what = f"the summary would lose {count} of {verdict.total} things agreed on ({named})"
    return f"{what}: /pin them, or /compact with instructions"


def _short(text: str) -> str:
    line = " ".join(one_line(text).split()).rstrip(".")
    return line if len(line) <= SHORT else f"{line[: SHORT - 3].rstrip()}..."


def _held(window: Sequence[Slot], found: Sequence[Commitment]) -> list[Commitment]:
    """The commitments that the window held before: their messages stand in it, or it tells of them elsewhere."""
    shown = {slot.entry for slot in window if slot.form in (Form.FULL, Form.ELIDED)}
    told = Standing("\n".join(slot.message.content for slot in window))
    return [one for one in found if one.entry in shown or told.holds(one)]
