"""Compaction: a summary is accepted only if the window gets smaller and nothing that was committed to is lost (law 6).

How a summary is asked for is `nexus_cli.session.summarise`, what it is judged by `nexus_cli.session.gate`. Whatever
goes wrong leaves the window as it was and is said in one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nexus_cli.context import plan as planning
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Frame, Lane
from nexus_cli.context.neutral import neutral
from nexus_cli.context.pin import Pin
from nexus_cli.context.summary_head import Additions, head
from nexus_cli.core import event
from nexus_cli.core.entry import Cause, Drop, Form, Kind, Slot
from nexus_cli.core.errors import NexusError
from nexus_cli.session.cache import record_rewrite
from nexus_cli.session.engine import Engine
from nexus_cli.session.gate import READ_AT_ONCE, gone_entries, judged
from nexus_cli.session.goals import goals
from nexus_cli.session.pins import pins
from nexus_cli.session.reattach import reattached
from nexus_cli.session.summarise import Failed, TooLong, summarise
from nexus_cli.session.summary_source import Choice, choose

LEAST = 4000
"""Tokens below which a window is not worth a compaction on command."""
FIDELITY = "fidelity"
"""The kind of memo that says what a summary kept: the figures, with step and epoch (None: it was refused)."""


TRIED = "compaction"
"""The kind of memo that says at which step a compaction was made, failed or was undone, and the epoch that it began."""


def drafted(engine: Engine, cause: str, share: float, frame: Frame) -> planning.Plan | None:
    """The plan that brings the lane to `share` of its budget, or None where too little would go. Changes nothing."""
    available, count, pinned = countable(engine, cause), engine.context.counter.count, pins(engine.lane.timeline)
    pins_room = int(engine.meter.countable(engine.budget.available) * planning.PINS_SHARE)
    target = int(share * available) - frame.system_tokens - frame.tools_tokens
    if cause == "command":  # what was pinned by hand does not yield to a target that the window is far from
        target += min(pins_room, sum(planning.cost(pin, count) for pin in pinned))
    return planning.plan(
        engine.lane.groups(),
        available=available,
        target=target,
        count=count,
        run=engine.lane.run,
        earlier=_said_before(engine.lane),
        pins=pinned,
        pins_room=pins_room,
    )


def countable(engine: Engine, cause: str) -> int:
    """The budget by our count; on command the person wants it small now, however far the window is from full."""
    available = engine.meter.countable(engine.budget.available)
    return min(available, max(LEAST, engine.lane.counted)) if cause == "command" else available


async def compact(engine: Engine, cause: str, share: float, instructions: str = "") -> bool:
    """Compact the lane to `share` of its budget; True when a smaller window was accepted."""
    frame = await engine.frame()
    before = engine.lane.counted
    engine.emit(event.CompactionStart(cause, engine.meter.estimate(before)))
    plan = drafted(engine, cause, share, frame)
    try:
        if plan is None:
            raise Failed("too little can be summed up")
        if cause != "overflow":  # a fork of the lane would be refused as it was
            await _beforehand(engine)
        choice = chosen(engine, plan, cause)
        summary = await summarise(engine, plan, choice, instructions)
        fidelity = await _accept(engine, plan, summary, choice, frame, cause)
    except Failed as reason:
        note_compaction(engine, None, str(reason))
        engine.emit(event.CompactionDone(False, before, before, str(reason)))
        if isinstance(reason, TooLong):
            engine.overflowed(reason.counted, reason.error)
            return await compact(engine, "overflow", engine.compact.overflow_to, instructions)
        return False
    note_compaction(engine, engine.lane.epoch.id, cause)
    engine.emit(event.CompactionDone(True, before, engine.lane.counted, fidelity=fidelity))
    return True


def newest_compaction(engine: Engine) -> int:
    """The step of the newest compaction of the lane, failed and undone ones included; far back where there is none."""
    return max((int(memo.value["step"]) for memo in engine.lane.timeline.memos(TRIED)), default=-1000)


def note_compaction(engine: Engine, epoch: int | None, why: str) -> None:
    """Remember that there was one, here and for a later process; `epoch` is None where it failed."""
    engine.last_compaction = engine.step
    engine.lane.timeline.memo(TRIED, {"step": engine.step, "epoch": epoch, "why": why})


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


def _said_before(lane: Lane) -> Iterator[tuple[int, str]]:
    """What the person said in what the window's summary stands for, newest first, from the log."""
    last = next((slot.entry for slot in reversed(lane.slots) if slot.form is Form.SUMMARY), 0)
    shown = {slot.entry for slot in lane.slots if slot.form in (Form.FULL, Form.ELIDED)}
    for end in range(last, 0, -READ_AT_ONCE):
        for entry in reversed(lane.timeline.read(max(1, end - READ_AT_ONCE + 1), end)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.id not in shown:
                yield entry.id, entry.message.content


async def _accept(
    engine: Engine, plan: planning.Plan, summary: str, choice: Choice, frame: Frame, cause: str
) -> dict[str, Any]:
    """Judge the summary, begin the epoch that it heads, and give the figures; `Failed` where it is not accepted."""
    lane, count, before = engine.lane, engine.context.counter.count, engine.lane.counted
    if count(summary) > plan.summary_cap:
        raise Failed(f"the summary takes {count(summary)} tokens, more than {plan.summary_cap}")
    if not neutral(summary).strip():
        raise Failed("the summary was empty")
    room = min(plan.spare, int(countable(engine, cause) * planning.ATTACHED_SHARE))
    attached = await reattached(engine, plan, room, goals(lane.timeline))
    drop_id = lane.timeline.log.next_drop()
    crowded = [(pin, lane.timeline.log.next_drop()) for pin in plan.crowded]
    more = Additions((), attached, [(pin.id, name) for pin, name in crowded])

    def made(more: Additions) -> tuple[Slot, ...]:
        return head(plan, summary, drop_id, clock=engine.clock, measure=engine.context.measure, more=more)

    verdict, why = await judged(engine, plan, summary, made(more)[0].message.content)
    figures = {**verdict.described(), "source": choice.source, "source_why": choice.why}
    if why:
        lane.timeline.memo(FIDELITY, {**figures, "epoch": None, "step": engine.step, "refused": why})
        raise Failed(why)
    slots = made(replace(more, added=verdict.added))
    fixed = frame.system_tokens + frame.tools_tokens
    if fixed + sum(slot.tokens for slot in slots) >= before:
        slots = made(replace(more, added=verdict.added, attached=""))
    after = fixed + sum(slot.tokens for slot in slots)
    if after >= before:
        raise Failed(f"it would not get smaller ({before} to {after} tokens)")
    drops = (_drop(lane, plan, drop_id), *(_pin_drop(lane, pin, name, count(pin.text)) for pin, name in crowded))
    epoch = lane.rewrite(slots, "overflow" if cause == "overflow" else "compaction", drops, frame)
    lane.timeline.memo(FIDELITY, {**figures, "epoch": epoch.id, "step": engine.step})
    record_rewrite(engine, epoch.cause, before, after)
    engine.meter.forget()
    for drop in drops:
        engine.emit(event.Dropped(replace(drop, text=None)))
    return figures


def _drop(lane: Lane, plan: planning.Plan, drop_id: str) -> Drop:
    first, last = plan.entries
    gone = sum(slot.tokens for slot in flatten(plan.gone))
    what = f"messages {first} to {last} of the conversation, summed up"
    return Drop(drop_id, what, gone, Cause.COMPACTION, lane.timeline.now(), (first, last))


def _pin_drop(lane: Lane, pin: Pin, drop_id: str, tokens: int) -> Drop:
    what = f"pin {pin.id}, for which the pins had no room"
    return Drop(drop_id, what, tokens, Cause.COMPACTION, lane.timeline.now(), text=pin.text)
