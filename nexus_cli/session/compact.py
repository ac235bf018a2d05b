"""Compaction: ask for a summary in a side lane, accept it only if the window gets smaller (law 6).

First a fork of the lane (same lines, one appended instruction), once more, then a plain transcript, in pieces where it
does not fit. Whatever goes wrong leaves the window as it was and is said in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nexus_cli.context import plan as planning
from nexus_cli.context.compaction import build_summarize_prompt, transcript_lines
from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Frame, Lane
from nexus_cli.context.prompts import prompt
from nexus_cli.core import event
from nexus_cli.core.entry import Cause, Drop, Form, Kind
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.message import Message, Role
from nexus_cli.session.engine import Engine
from nexus_cli.session.exchange import exchange
from nexus_cli.session.side import forked, separate
from nexus_cli.session.spending import left_over

LEAST = 4000
"""Tokens below which a window is not worth a compaction on command."""
FORKS = 2
"""Tries as a fork, before a plain transcript."""
ASKED_SHARE = 0.75
"""Share of the summary's cap that the model is asked to keep to."""
TRANSCRIPT_SHARE = 0.8
"""Share of the summariser's budget that one piece of a transcript may take."""


READ_AT_ONCE = 500
"""Entries that are read together when the log is searched for what the person said."""


class Failed(Exception):
    """A summary that cannot be accepted, with the reason."""


class TooLong(Failed):
    """The fork itself was refused as too long: another fork would be too."""

    def __init__(self, error: ProviderError, counted: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.counted = counted
        """Tokens of the refused request by our count."""


async def compact(engine: Engine, cause: str, share: float, instructions: str = "") -> bool:
    """Compact the lane to `share` of its budget; True when a smaller window was accepted."""
    frame = await engine.frame()
    available = engine.meter.countable(engine.budget.available)
    if cause == "command":  # the person wants it small now, however far the window is from full
        available = min(available, max(LEAST, engine.lane.counted))
    target = int(share * available) - frame.system_tokens - frame.tools_tokens
    before = engine.lane.counted
    engine.emit(event.CompactionStart(cause, engine.meter.estimate(before)))
    plan = planning.plan(
        engine.lane.groups(),
        available=available,
        target=target,
        count=engine.context.counter.count,
        run=engine.lane.run,
        earlier=_said_before(engine.lane),
    )
    try:
        if plan is None:
            raise Failed("too little can be summed up")
        summary = await _summary(engine, plan, cause, instructions)
        after = _accept(engine, plan, summary, frame, cause)
    except Failed as reason:
        engine.last_failed_compaction = engine.step
        engine.emit(event.CompactionDone(False, before, before, str(reason)))
        if isinstance(reason, TooLong):
            engine.overflowed(reason.counted, reason.error)
            return await compact(engine, "overflow", engine.compact.overflow_to, instructions)
        return False
    engine.last_failed_compaction = None
    engine.emit(event.CompactionDone(True, before, after))
    return True


def _said_before(lane: Lane) -> Iterator[tuple[int, str]]:
    """What the person said in what the window's summary stands for, newest first, from the log."""
    last = next((slot.entry for slot in reversed(lane.slots) if slot.form is Form.SUMMARY), 0)
    shown = {slot.entry for slot in lane.slots if slot.form in (Form.FULL, Form.ELIDED)}
    for end in range(last, 0, -READ_AT_ONCE):
        for entry in reversed(lane.timeline.read(max(1, end - READ_AT_ONCE + 1), end)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.id not in shown:
                yield entry.id, entry.message.content


def _accept(engine: Engine, plan: planning.Plan, summary: str, frame: Frame, cause: str) -> int:
    lane, count = engine.lane, engine.context.counter.count
    if count(summary) > plan.summary_cap:
        raise Failed(f"the summary takes {count(summary)} tokens, more than {plan.summary_cap}")
    drop_id = lane.timeline.log.next_drop()
    head = planning.head(plan, summary, drop_id, clock=engine.clock, measure=engine.context.measure)
    after = frame.system_tokens + frame.tools_tokens + sum(slot.tokens for slot in head)
    if after >= lane.counted:
        raise Failed(f"it would not get smaller ({lane.counted} to {after} tokens)")
    first, last = plan.entries
    gone = sum(slot.tokens for slot in flatten(plan.gone))
    what = f"messages {first} to {last} of the conversation, summed up"
    drop = Drop(drop_id, what, gone, Cause.COMPACTION, lane.timeline.now(), (first, last))
    lane.rewrite(head, "overflow" if cause == "overflow" else "compaction", (drop,), frame)
    engine.meter.forget()
    engine.emit(event.Dropped(drop))
    return after


async def _summary(engine: Engine, plan: planning.Plan, cause: str, instructions: str) -> str:
    """The text of a summary, by whichever way works; `Failed` with the last reason."""
    why = "no model was asked"
    if not engine.compact.model and cause != "overflow":
        asked = prompt("summarize", tokens=int(plan.summary_cap * ASKED_SHARE), instructions=instructions).strip()
        for _ in range(FORKS):
            if not _fork_fits(engine, asked, plan.summary_cap):
                break
            try:
                return await _answer(forked(engine, "compact", asked), plan.summary_cap)
            except TooLong:
                raise
            except Failed as reason:
                why = str(reason)
    try:
        return await _from_transcript(engine, plan, instructions)
    except Failed as reason:
        raise Failed(f"{reason} (before: {why})" if why != "no model was asked" else str(reason)) from None


def _fork_fits(engine: Engine, asked: str, cap: int) -> bool:
    counted = engine.lane.counted + engine.context.measure(Message(Role.USER, asked), "")
    return left_over(engine.model.info, engine.meter.upper(counted)) >= max(cap, engine.least_output)


async def _answer(side: Engine, cap: int) -> str:
    """The summary that a side lane answers with."""
    try:
        output = side.spending.output_cap(side.model.info, side.expected())
        reply = await exchange(side, min(output, max(2 * cap, side.budget.reserve_reply)), main=False)
    except NexusError as error:
        if isinstance(error, ProviderError) and error.kind == "overflow":
            raise TooLong(error, side.lane.counted) from None
        raise Failed(error.message) from None
    if reply.message.tool_calls:
        raise Failed("the model answered with a tool call")
    text = reply.message.content.strip()
    if not text:
        raise Failed("the summary was empty")
    if side.context.counter.count(text) > cap:
        raise Failed(f"the summary was longer than {cap} tokens")
    return text


async def _from_transcript(engine: Engine, plan: planning.Plan, instructions: str) -> str:
    """Sum up a plain transcript, piece by piece, each with the summary so far."""
    model = engine.summarizer()
    if model.info.name == engine.model.info.name:
        model = engine.model
    messages = [slot.message for slot in flatten(plan.gone)]
    summary = ""
    side = separate(engine, "compact", model)
    room = int(side.meter.countable(side.budget.available) * TRANSCRIPT_SHARE) - plan.summary_cap
    for piece in _pieces(transcript_lines(messages), room, engine):
        earlier = [Message(Role.USER, f"Summary of what came before:\n{summary}")] if summary else []
        text = build_summarize_prompt([*earlier, Message(Role.USER, "\0")]).replace("USER: \0", piece)
        text += f"\n\nKeep to {int(plan.summary_cap * ASKED_SHARE)} tokens. {instructions}".rstrip()
        side = replace(separate(engine, "compact", model), step=0)
        side.context.add_user_message(text)
        summary = await _answer(side, plan.summary_cap)
    return summary


def _pieces(text: str, room: int, engine: Engine) -> Iterator[str]:
    """`text` in pieces of at most about `room` tokens, cut at line ends where there are any."""
    tokens = engine.context.counter.count(text)
    length = max(200, int(len(text) * max(1, room) / max(1, tokens) * 0.9))
    start = 0
    while start < len(text):
        end = min(len(text), start + length)
        if end < len(text):
            end = text.rfind("\n", start + length // 2, end) + 1 or end
        yield text[start:end]
        start = end
