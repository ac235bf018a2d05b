"""Compaction: a summary is accepted only if the window gets smaller and nothing that was committed to is lost (law 6).

How a summary is asked for is `nexus_cli.session.summarise`, what it is judged by `nexus_cli.session.gate`. Whatever
goes wrong leaves the window as it was and is said in one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nexus_cli.context import plan as planning
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.neutral import neutral
from nexus_cli.context.pin import Pin, named_ways
from nexus_cli.context.summary_head import Additions, head
from nexus_cli.context.unseen import Span, between, merged, named
from nexus_cli.core import event
from nexus_cli.core.entry import Cause, Drop, Epoch, Form, Slot
from nexus_cli.core.errors import NexusError
from nexus_cli.core.usage import round_dollars
from nexus_cli.session.cache import rewritten
from nexus_cli.session.engine import Engine
from nexus_cli.session.gate import Judgement, gone_entries, judged, mistakes, to_keep
from nexus_cli.session.goals import goals
from nexus_cli.session.pins import pins
from nexus_cli.session.reattach import reattached
from nexus_cli.session.said import said_before
from nexus_cli.session.summarise import Failed, TooLong, summarise
from nexus_cli.session.summary_source import Choice, choose
from nexus_cli.session.tries import note_failed, note_made
from nexus_cli.session.way_back import can_recall

LEAST = 4000
"""Tokens below which a window is not worth a compaction on command."""
FIDELITY = "fidelity"
"""The kind of memo that says what a summary kept: the figures, with step and epoch (None: it was refused)."""


def drafted(engine: Engine, cause: str, share: float) -> planning.Plan | None:
    """The plan that brings the lane to `share` of its budget, or None where too little would go. Changes nothing."""
    available, count, pinned = countable(engine, cause), engine.context.counter.count, pins(engine.lane.timeline)
    budget, fixed = countable(engine), engine.lane.epoch.system_tokens + engine.lane.epoch.tools_tokens
    target = int(share * available) - fixed
    words, full = int(budget * planning.OWN_WORDS_SHARE), cause != "command"
    beyond = planning.Room(words, pins_room(engine), budget - fixed, newest=full)
    if not full:  # what was pinned by hand does not yield to a target that the window is far from
        target += min(beyond.pins, sum(planning.cost(pin, count) for pin in pinned))
    return planning.plan(
        engine.lane.groups(),
        available=available,
        target=target,
        count=count,
        run=engine.lane.run,
        earlier=said_before(engine.lane),
        pins=pinned,
        beyond=beyond,
    )


def countable(engine: Engine, cause: str = "") -> int:
    """The budget by our count; on command the person wants it small now, however far the window is from full."""
    available = engine.meter.countable(engine.budget.available)
    return min(available, max(LEAST, engine.lane.counted)) if cause == "command" else available


def pins_room(engine: Engine) -> int:
    """Tokens by our count that all pins may take together."""
    return int(countable(engine) * planning.PINS_SHARE)


async def compact(engine: Engine, cause: str, share: float, instructions: str = "") -> bool:
    """Compact the lane to `share` of its budget; True when a smaller window was accepted."""
    before, spent = engine.coming(), engine.spending.usage.cost_usd
    engine.emit(event.CompactionStart(cause, before))
    plan = drafted(engine, cause, share)
    try:
        if plan is None:
            raise Failed("too little can be summed up")
        if cause != "overflow":  # a fork of the lane would be refused as it was
            await _beforehand(engine)
        choice = chosen(engine, plan, cause)
        summary, source = await summarise(engine, plan, choice, instructions)
        if source != choice.source:
            choice = replace(choice, source=source, why=f"{choice.why}; that came to nothing")
        fidelity = await _accept(engine, plan, summary, choice, cause)
    except Failed as reason:
        again = isinstance(reason, TooLong)
        cut = not again and (cause == "overflow" or (cause != "command" and not engine.fits()))
        over = cause == "overflow" or not engine.fits()
        note_failed(engine, str(reason), paid=plan is not None and not again, over=over)
        paid = _since(spent, engine)
        engine.emit(event.CompactionDone(False, before, before, str(reason), cut=cut, cost_usd=paid))
        if isinstance(reason, TooLong):
            engine.overflowed(reason.counted, reason.error)
            return await compact(engine, "overflow", engine.compact.overflow_to, instructions)
        return False
    engine.emit(event.CompactionDone(True, before, engine.coming(), fidelity=fidelity, cost_usd=_since(spent, engine)))
    return True


def _since(spent: float | None, engine: Engine) -> float | None:
    now = engine.spending.usage.cost_usd
    return None if spent is None or now is None else round_dollars(now - spent)


def chosen(engine: Engine, plan: planning.Plan, cause: str) -> Choice:
    """What the summary is asked from. Sends nothing."""
    return choose(engine, plan, lambda: ((e.tokens, e.message) for e in gone_entries(engine.lane, plan)), cause)


async def _beforehand(engine: Engine) -> None:
    """What is done before a summary is asked for; where it fails the compaction goes on without it."""
    try:
        async with asyncio.timeout(engine.compact.seconds):
            await engine.before_summary()
    except TimeoutError:
        engine.emit(event.Notice(f"what comes before the compaction took more than {engine.compact.seconds:g} s"))
    except NexusError as error:
        engine.emit(event.Notice(f"before the compaction: {error.message}"))


async def _accept(
    engine: Engine, plan: planning.Plan, summary: str, choice: Choice, cause: str
) -> dict[str, Any]:
    """Judge the summary, begin the epoch that it heads, and give the figures; `Failed` where it is not accepted."""
    lane, count, before = engine.lane, engine.context.counter.count, engine.meter.estimate(engine.lane.counted)
    if count(summary) > plan.summary_cap:
        raise Failed(f"the summary takes {count(summary)} tokens, more than {plan.summary_cap}")
    if not neutral(summary).strip():
        raise Failed("the summary was empty")
    room = min(plan.spare, int(countable(engine, cause) * planning.ATTACHED_SHARE))
    attached = await reattached(engine, plan, room, goals(lane.timeline))
    drop_id = lane.timeline.log.next_drop()
    known = named_ways(slot.message.content for slot in lane.slots if slot.form in (Form.MARKER, Form.SUMMARY))
    crowded = [(pin, known.get(pin.id) or lane.timeline.log.next_drop()) for pin in plan.crowded]
    unseen = () if choice.source == "originals" else plan.unseen
    more = Additions((), attached, [(pin.id, name) for pin, name in crowded], can_recall(engine), unseen)

    def made(plan: planning.Plan, more: Additions = more) -> tuple[Slot, ...]:
        return head(plan, summary, drop_id, clock=engine.clock, measure=engine.context.measure, more=more)

    plan, told = await _judged(engine, plan, summary, lambda plan: made(plan)[0].message.content)
    figures = {**told.verdict.described(), "source": choice.source, "source_why": choice.why}
    if told.why:
        lane.timeline.memo(FIDELITY, {**figures, "epoch": None, "step": engine.step, "refused": told.why})
        raise Failed(told.why)
    more = replace(more, added=told.verdict.added)
    lean = partial(made, plan, replace(more, attached=""))
    slots = _smaller(made(plan, more), lean, engine, lane.epoch.system_tokens + lane.epoch.tools_tokens)
    planned = await engine.frame()
    slots = _smaller(slots, lean, engine, planned.fixed)
    new = (_pin_drop(lane, pin, name, count(pin.text)) for pin, name in crowded if pin.id not in known)
    drops = (_drop(lane, plan, drop_id, unseen), *new)
    anchor = engine.meter.anchor

    def notes(epoch: Epoch) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield FIDELITY, {**figures, "epoch": epoch.id, "step": engine.step}
        yield note_made(engine, epoch.id, cause, [drop.id for drop in drops], anchor)
        yield rewritten(engine, before)

    engine.begin(slots, "overflow" if cause == "overflow" else "compaction", planned, drops, notes)
    return figures


async def _judged(
    engine: Engine, plan: planning.Plan, summary: str, shown: Callable[[planning.Plan], str]
) -> tuple[planning.Plan, Judgement]:
    """The judgement on the summary; where it loses too much, on it with the words quoted beside it that bring most of
    that back, and the plan that quotes them: another summary would have to be paid for."""
    seen = await to_keep(engine, plan)
    false = await mistakes(seen, summary)
    told = await judged(engine, plan, seen, summary, false, shown(plan))
    if told.lost:
        other = planning.quoting(plan, {one.entry for one in told.lost}, engine.context.counter.count)
        again = await judged(engine, other, seen, summary, false, shown(other))
        if not again.why:
            return other, again
    return plan, told


def _smaller(
    slots: tuple[Slot, ...], lean: Callable[[], tuple[Slot, ...]], engine: Engine, fixed: int
) -> tuple[Slot, ...]:
    """`slots`, or the `lean` ones, beside system text and schemas of `fixed` tokens: whatever makes the window smaller;
    `Failed` where nothing does."""
    before = engine.lane.counted
    if fixed + sum(slot.tokens for slot in slots) >= before:
        slots = lean()
    after = fixed + sum(slot.tokens for slot in slots)
    if after >= before:
        estimate = engine.meter.estimate
        raise Failed(f"it would not get smaller ({estimate(before):,} to {estimate(after):,} tokens)")
    return slots


def _drop(lane: Lane, plan: planning.Plan, drop_id: str, unseen: Sequence[Span]) -> Drop:
    """What leaves the window now. Read back it gives all that the new summary stands for, as no other way is named to
    the model any more."""
    gone, first = plan.leaving, plan.entries[0]
    tokens = sum(slot.tokens for slot in gone or flatten(plan.gone))
    names = named(merged(slot.entry for slot in gone)) if gone else plan.named_but(unseen)
    what = f"messages {names} of the conversation, summed up"
    what += f"; and {named(unseen)}, left out before" if unseen else ""
    before = between(first, min(slot.entry for slot in gone) - 1, unseen) if gone else ()
    what += f"; read with {named(before)}, summed up before" if before else ""
    return Drop(drop_id, what, tokens, Cause.COMPACTION, lane.timeline.now(), plan.entries)


def _pin_drop(lane: Lane, pin: Pin, drop_id: str, tokens: int) -> Drop:
    what = f"pin {pin.id}, for which the pins had no room"
    return Drop(drop_id, what, tokens, Cause.COMPACTION, lane.timeline.now(), text=pin.text)
