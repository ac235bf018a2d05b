"""The gate that a summary passes: what was committed to in the messages that go is still there, or it is refused.

The commitments come from the original entries, never from an earlier summary, and no model is asked for them. What
counts as one, and as kept, is `nexus_cli.context.fidelity`; here stands what is judged against what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nexus_cli.context.doubt import doubt
from nexus_cli.context.fidelity.analysed import History, history
from nexus_cli.context.fidelity.commitment import MUSTS, RANK, Commitment
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.fidelity.verdict import Verdict, added_room, judge
from nexus_cli.context.fidelity.words import significant
from nexus_cli.context.fidelity.wrong import Wrong, wrong
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.plan import Plan
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.entry import Entry, Form, Slot
from nexus_cli.session.engine import Engine
from nexus_cli.session.way_back import can_recall

NAMED = 3
"""So many of the things that a summary would lose are named."""
LEAST_RULE, ASIDE = 3, 2
"""Words that a rule has at least that a sentence may repeat, and those that the sentence may have beside it."""
SHORT = 60
"""Characters of one of them."""
READ_AT_ONCE = 500
"""Entries that are read together."""


def gone_entries(lane: Lane, plan: Plan) -> Iterator[Entry]:
    """The original messages that the summary will stand for, those behind an earlier summary included, in order."""
    first, last = plan.entries
    kept = {slot.entry for slot in plan.kept}
    for start in range(first, last + 1, READ_AT_ONCE):
        read = lane.timeline.read(start, min(last, start + READ_AT_ONCE - 1))
        yield from (entry for entry in read if entry.id not in kept)


@dataclass(frozen=True, slots=True)
class Seen:
    """What whoever sums up was to tell of, and what stays beside it."""

    gone: History
    """The messages that go."""
    kept: History
    """Those that stay."""
    beside: tuple[str, ...]
    """What else stood in the window: system text, earlier summaries, what we added."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be said of a summary."""

    verdict: Verdict
    why: str
    """Why it is refused; "" where it is not."""
    lost: tuple[Commitment, ...] = ()
    """Where it loses too much: what the window still held and would stand neither in it nor beside it, what matters
    most first."""


async def to_keep(engine: Engine, plan: Plan) -> Seen:
    """What was committed to in the messages that go, and in those that stay; no entry is looked at twice."""
    lane = engine.lane
    gone = list(gone_entries(lane, plan))
    staying = {slot.entry for slot in plan.kept if slot.form in (Form.FULL, Form.ELIDED)}
    read = lane.timeline.read(min(staying), max(staying)) if staying else ()
    kept = [entry for entry in read if entry.id in staying]
    ours = (slot.message.content for slot in lane.slots if slot.form not in (Form.FULL, Form.ELIDED))
    beside = (lane.epoch.system, *ours, *(slot.preamble for slot in lane.slots if slot.preamble))
    # In a thread: a long history takes its time, and the event loop has to hear a Ctrl-C meanwhile.
    return await asyncio.to_thread(
        lambda: Seen(history(gone, engine.analysed), history(kept, engine.analysed), beside)
    )


async def mistakes(seen: Seen, summary: str) -> tuple[Wrong, ...]:
    """What `summary` says that is not so."""
    return await asyncio.to_thread(wrong, summary, seen.gone, seen.kept, seen.beside)


async def judged(
    engine: Engine, plan: Plan, seen: Seen, summary: str, false: Sequence[Wrong], shown: str
) -> Judgement:
    """The judgement on `summary` by what was `seen`, and what of it is `false`.

    `shown` is the message that would carry it, with own words, pins and what is attached. Every message that goes can
    be read back by the drop that this message names, where the model has the tool for it.
    """
    return await asyncio.to_thread(
        _judged, engine, plan, seen, tuple(engine.lane.slots), summary, false, shown, can_recall(engine)
    )


def _judged(
    engine: Engine, plan: Plan, seen: Seen, window: Sequence[Slot], summary: str, false: Sequence[Wrong], shown: str,
    recalls: bool,
) -> Judgement:  # fmt: skip
    count, found = engine.context.counter.count, seen.gone.found
    kept = [slot.message for slot in plan.kept]

    def verdict_on(found: Sequence[Commitment], false: Sequence[Wrong]) -> Verdict:
        room = added_room(count(summary))
        return judge(
            found, shown, kept, room=room, count=count, recallable=lambda one: recalls, wrong=false,
            did=seen.kept.found,
        )  # fmt: skip

    verdict, held = verdict_on(found, false), list(found)
    if not verdict.ok:
        # What was out of the window before cannot be lost by this summary: it stays where it was, behind its drop.
        held = _held(window, found)
        verdict = verdict_on(held, false)
        if verdict.ok:
            verdict = _with_more(verdict, len(found) - len(held), recalls)
    told = Standing(summary)
    alone = sum(told.holds(one) for one in found)
    gone = sum(slot.tokens for slot in flatten(plan.gone))
    why = doubt(
        summary, tokens=count(summary), gone=gone, kept=alone, total=len(found),
        told=lambda sentence: _laid_down(sentence, found),
    )  # fmt: skip
    if why or verdict.ok:
        return Judgement(verdict, why)
    if false and verdict_on(held, ()).ok:
        return Judgement(verdict, _mistaken(false))
    lost = sorted(verdict.absent, key=lambda one: RANK[one.kind])
    return Judgement(verdict, _refusal(verdict, lost), tuple(lost))


def _laid_down(sentence: str, found: Sequence[Commitment]) -> bool:
    """Whether a sentence says little more than what somebody laid down, as a rule or as a step to do."""
    said = Standing(sentence)
    most = len(significant(sentence))
    return any(
        one.kind in MUSTS and len(one.keys) >= LEAST_RULE and most <= len(one.keys) + ASIDE and said.holds(one)
        for one in found
    )


def _with_more(verdict: Verdict, beyond: int, recalls: bool) -> Verdict:
    """`verdict` with so many commitments more, all of them out of the window."""
    if not beyond:
        return verdict
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
    return f"{what}; in a session (`nexus -c`) /pin keeps them, and /compact WORDS says what matters"


def _mistaken(false: Sequence[Wrong]) -> str:
    """What is not so, in one line."""
    named = "; ".join([*(_short(one.says) for one in false[:NAMED]), *(["..."] if len(false) > NAMED else [])])
    what = f"{len(false)} things that are" if len(false) > 1 else "a thing that is"
    return f"the summary says {what} not so ({named})"


def _short(text: str) -> str:
    line = " ".join(one_line(text).split()).rstrip(".")
    return line if len(line) <= SHORT else f"{line[: SHORT - 3].rstrip()}..."


def _held(window: Sequence[Slot], found: Sequence[Commitment]) -> list[Commitment]:
    """The commitments that the window held before: their messages stand in it, or it tells of them elsewhere."""
    shown = {slot.entry for slot in window if slot.form in (Form.FULL, Form.ELIDED)}
    told = Standing("\n".join(slot.message.content for slot in window))
    return [one for one in found if one.entry in shown or told.holds(one)]
