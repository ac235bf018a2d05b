"""Begin the epoch of a run that resumes after a wait: its head is one item, a recap of everything so far.

Messages that leave the window become a drop, named in the recap. Messages of the person, the work record and the pins
get the shares that a compaction gives them (law 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from nexus_cli.context.lane_window import LaneWindow
from nexus_cli.conversation.compaction.compaction_plan import (
    PINS_SHARE,
    RECORD_SHARE,
    own_words_room,
    split_fitting_pins,
)
from nexus_cli.conversation.compaction.pin import crowded_line
from nexus_cli.conversation.compaction.summary_head import PINNED, missing_line
from nexus_cli.conversation.compaction.work_record import WorkLog, fit_record
from nexus_cli.conversation.conversation import Lane
from nexus_cli.conversation.entry_ranges import SUMMED
from nexus_cli.core.entry import PERSON, Cause, Drop, Entry, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role
from nexus_cli.engine.compaction.compact import LONGEST_MISSING, countable
from nexus_cli.engine.compaction.pins import list_pins
from nexus_cli.engine.compaction.record_sources import make_record, read_log_in_pieces
from nexus_cli.engine.requests.cache_expectation import rewrite_memo
from nexus_cli.engine.requests.lane_state import LaneState
from nexus_cli.engine.requests.recap import INTRODUCTION, SHARE, SLACK, OwnForms, make_recap, quote_words, resume_lines
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.engine.requests.user_input import HISTORY, TRIGGER
from nexus_cli.engine.requests.user_messages import read_backwards, read_sources, words_before

RESUME = "resume"
"""Cause of the epoch."""
RECAP = "recap"
"""Memo: `drop` (id) with what the head of the `epoch` (id) tells again."""

NAMES = {"client": "Client", "agent": "Manager", "stdin": "Standard input"}
"""Speaker names for user messages that the person did not type, by source of the message."""


async def begin_resume_epoch(lane_state: LaneState, subjects: Mapping[str, str], came: Iterable[str]) -> None:
    """Begin the epoch; the recap ends in the lines of `came`. `subjects` are the main arguments by tool."""
    lane = lane_state.lane
    last = lane.timeline.last
    if not last:
        return
    await read_log_in_pieces(lane, lane_state.work)
    before = lane_state.window_request().tokens
    known = _recap_in_force(lane_state.lane)
    drop_id = known or lane.timeline.log.next_drop()
    message = Message(
        Role.USER, _recap_text(lane_state.window, lane_state.work, lane_state.spending, subjects, list(came), drop_id)
    )
    item = WindowItem(last, ItemForm.SUMMARY, message, tokens=lane_state.window.context.measure(message, ""))
    gone = sum(one.tokens for one in lane.items)
    what = f"messages 1 to {last} of the conversation, told again as a timeline"
    drops = [] if known else [Drop(drop_id, what, gone, Cause.COMPACTION, lane.timeline.now(), (1, last))]
    planned = await lane_state.prompt.draft_epoch(lane_state.window)
    lane_state.begin_epoch(
        [item],
        RESUME,
        planned,
        drops,
        lambda _: [rewrite_memo(lane_state, before), (RECAP, {"epoch": lane.epoch.id, "drop": drop_id})],
    )
    lane_state.pending_cause = ""


def _recap_in_force(lane: Lane) -> str:
    """Return the drop of a recap that an earlier process began but never sent, "" if there is none."""
    if lane.epoch.cause != RESUME or lane.tail or lane.last_sent >= 0 or len(lane.epoch.head) != 1:
        return ""
    memos = lane.timeline.memos(RECAP)
    return next((str(memo.value["drop"]) for memo in memos if memo.value["epoch"] == lane.epoch.id), "")


def _recap_text(
    window: LaneWindow, work: WorkLog, spending: Spending, subjects: Mapping[str, str], came: list[str], drop_id: str
) -> str:
    lane, count, budget = window.lane, window.count, countable(window)
    recalls, last = can_recall(window.lane, spending), lane.timeline.last
    way = f'; read them as they were with recall("{drop_id}").]' if recalls else ".]"
    parts = [f"{SUMMED.format(f'1 to {last}')}{way}\n{INTRODUCTION}\n\n---"]
    ending = "\n".join(resume_lines(came))
    stay, crowded = split_fitting_pins(list_pins(lane.timeline), int(budget * PINS_SHARE), count)
    if stay:
        parts.append("\n".join([PINNED, *(pin.quotation for pin in stay)]))
    if crowded:
        parts.append(crowded_line([(pin.id, drop_id) for pin in crowded], recalls))
    room = int(budget * SHARE) - SLACK - count("\n\n".join([*parts, ending]))
    own = _own_forms(lane)
    told = {*own.history, own.trigger}
    quotes = quote_words(words_before(lane, last, told), min(own_words_room(budget), room), count)
    room -= sum(quote.tokens for quote in quotes.values()) + 16 * len(quotes)
    record = fit_record(make_record(lane, work), int(budget * RECORD_SHARE), count, LONGEST_MISSING)
    text = record.text(missing_line(len(record.left), "older item", drop_id, recalls))
    recap = make_recap(_read_named(lane, last), quotes, max(0, room), count, subjects, own)
    if recap.missing and text:  # otherwise the timeline has every call
        parts.append(text)
        recap = make_recap(_read_named(lane, last), quotes, max(0, room - count(text)), count, subjects, own)
    lines = recap.text(missing_line(recap.missing, "earlier event", drop_id, recalls))
    return "\n\n".join([*parts, "\n".join(filter(None, [lines, ending]))])


def _read_named(lane: Lane, last: int) -> Iterator[Entry]:
    """Yield the entries up to `last`, newest first, with the name of the program or agent that sent a message."""
    sources = read_sources(lane.timeline.memos)
    for entry in read_backwards(lane.timeline.read, last):
        name = NAMES.get(sources.get(entry.id, ""), "") if entry.actor == PERSON else ""
        yield replace(entry, actor=name) if name else entry


def _own_forms(lane: Lane) -> OwnForms:
    """Return the entries of SPACE HISTORY, and the newest entry with a trigger that started the run."""
    history = {memo.entry: memo.value for memo in lane.timeline.memos(HISTORY)}
    facts = [(memo.entry, memo.value.get("facts", {})) for memo in lane.timeline.memos(TRIGGER)]
    return OwnForms(history, max((entry for entry, one in facts if one and one["type"] != RESUME), default=0))
