"""Begin the epoch of a run that resumes after a wait: its head is one item, a recap of everything so far.

Messages that leave the window become a drop, named in the recap. Messages of the person, the work record and the pins
get the shares that a compaction gives them (law 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.compaction_plan import shares_of
from nexus_cli.conversation.compaction.own_words import missing_line
from nexus_cli.conversation.compaction.pin import pin_texts, split_fitting_pins
from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.conversation.compaction.work_log import WorkLog
from nexus_cli.conversation.compaction.work_record import fit_record
from nexus_cli.conversation.compaction.work_sources import make_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.entry_ranges import SUMMED
from nexus_cli.conversation.user_messages import read_sources, words_before
from nexus_cli.core.entry import PERSON, Cause, Drop, Entry, ItemForm, WindowItem, read_backwards
from nexus_cli.core.memo_kinds import RECAP, SPACE_HISTORY, TRIGGER
from nexus_cli.core.message import Message, Role
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.recap import INTRODUCTION, SHARE, SLACK, OwnForms, make_recap, quote_words, resume_lines
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.requests.tool_selection import can_recall

RESUME = "resume"
"""Cause of the epoch."""

NAMES = {"client": "Client", "agent": "Manager", "stdin": "Standard input"}
"""Speaker names for user messages that the person did not type, by source of the message."""


async def begin_resume_epoch(engine: Engine, subjects: Mapping[str, str], came: Iterable[str]) -> None:
    """Begin the epoch; the recap ends in the lines of `came`. `subjects` are the main arguments by tool."""
    conversation = engine.conversation
    last = conversation.last
    if not last:
        return
    await engine.read_work()
    known = _recap_in_force(engine.conversation)
    drop_id = known or conversation.log.next_drop()
    message = Message(
        Role.USER, _recap_text(engine.context, engine.work, engine.spending, subjects, list(came), drop_id)
    )
    item = WindowItem(last, ItemForm.SUMMARY, message, tokens=engine.context.measure(message, ""))
    gone = sum(one.tokens for one in conversation.items)
    what = f"messages 1 to {last} of the conversation, told again as a timeline"
    drops = [] if known else [Drop(drop_id, what, gone, Cause.COMPACTION, conversation.now(), (1, last))]
    planned = await engine.prompt.draft_epoch(engine.context)
    epoch = conversation.make_epoch([item], RESUME, planned.frame)
    note = RECAP, {"epoch": epoch.id, "drop": drop_id}
    engine.begin_epoch(engine.draft_rewrite(epoch, planned, drops, [note]))
    engine.readings.epoch_cause = ""


def _recap_in_force(conversation: Conversation) -> str:
    """Return the drop of a recap that an earlier process began but never sent, "" if there is none."""
    if (
        conversation.epoch.cause != RESUME
        or conversation.tail
        or conversation.last_sent >= 0
        or len(conversation.epoch.head) != 1
    ):
        return ""
    memos = conversation.memos(RECAP)
    return next((str(memo.value["drop"]) for memo in memos if memo.value["epoch"] == conversation.epoch.id), "")


def _recap_text(
    context: ContextManager,
    work: WorkLog,
    spending: Spending,
    subjects: Mapping[str, str],
    came: list[str],
    drop_id: str,
) -> str:
    conversation, count, budget = context.conversation, context.count, context.countable(context.budget.available)
    most = shares_of(budget, budget)
    recalls, last = can_recall(context.conversation, spending), conversation.last
    way = f'; read them as they were with recall("{drop_id}").]' if recalls else ".]"
    parts = [f"{SUMMED.format(f'1 to {last}')}{way}\n{INTRODUCTION}\n\n---"]
    ending = "\n".join(resume_lines(came))
    stay, crowded = split_fitting_pins(list_pins(conversation), most.pins, count)
    parts += pin_texts(stay, [(pin.pin, drop_id) for pin in crowded], recalls)
    room = int(budget * SHARE) - SLACK - count("\n\n".join([*parts, ending]))
    own = _own_forms(conversation)
    told = {*own.history, own.trigger}
    quotes = quote_words(words_before(conversation, last, told), min(most.words, room), count)
    room -= sum(quote.tokens for quote in quotes.values()) + 16 * len(quotes)
    record = fit_record(make_record(conversation, work), most.record, count)
    text = record.text(drop_id, recalls=recalls)
    recap = make_recap(_read_named(conversation, last), quotes, max(0, room), count, subjects, own)
    if recap.missing and text:  # otherwise the timeline has every call
        parts.append(text)
        recap = make_recap(_read_named(conversation, last), quotes, max(0, room - count(text)), count, subjects, own)
    lines = recap.text(missing_line(recap.missing, "earlier event", drop_id, recalls))
    return "\n\n".join([*parts, "\n".join(filter(None, [lines, ending]))])


def _read_named(conversation: Conversation, last: int) -> Iterator[Entry]:
    """Yield the entries up to `last`, newest first, with the name of the program or agent that sent a message."""
    sources = read_sources(conversation.memos)
    for entry in read_backwards(conversation.read, last):
        name = NAMES.get(sources.get(entry.id, ""), "") if entry.actor == PERSON else ""
        yield replace(entry, actor=name) if name else entry


def _own_forms(conversation: Conversation) -> OwnForms:
    """Return the entries of SPACE HISTORY, and the newest entry with a trigger that started the run."""
    history = {memo.entry: memo.value for memo in conversation.memos(SPACE_HISTORY)}
    facts = [(memo.entry, memo.value.get("facts", {})) for memo in conversation.memos(TRIGGER)]
    return OwnForms(history, max((entry for entry, one in facts if one and one["type"] != RESUME), default=0))
