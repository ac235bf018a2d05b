"""Compact a window: messages, file changes and commands remain represented in it (law 6).

`summarise` requests and checks the summary; `compaction_plan` and `work_record` (`conversation/compaction/`) choose the
content beside it. A failure leaves the window unchanged and is reported in one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction import compaction_plan as planning
from nexus_cli.conversation.compaction.backoff import last_refusal, note_failed, note_made
from nexus_cli.conversation.compaction.own_words import OwnWords, Quote
from nexus_cli.conversation.compaction.pin import named_ways, pin_drop
from nexus_cli.conversation.compaction.standing_rules import take_rules, with_rules
from nexus_cli.conversation.compaction.summary_head import Additions, Unquoted, head, missing_line, split_summary
from nexus_cli.conversation.compaction.work_record import FittedRecord, WorkLog, fit_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.entry_ranges import EntryRange, format_ranges, ranges_of, subtract_ranges
from nexus_cli.conversation.epoch_draft import Rewrite
from nexus_cli.conversation.groups import flatten
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core import event
from nexus_cli.core.entry import Cause, Drop, Entry, ItemForm, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import RULES_ASKED
from nexus_cli.engine.compaction.pins import list_pins
from nexus_cli.engine.compaction.record_sources import (
    READ_AT_ONCE,
    look_at_files,
    make_record,
    read_log,
    read_log_in_pieces,
    read_texts,
)
from nexus_cli.engine.compaction.rules import StandingRules, choose_rules, missed_rules, rules_tokens
from nexus_cli.engine.compaction.summarise import (
    SummaryError,
    SummaryOverflow,
    SummaryPrevented,
    ask_for_rules,
    find_headings,
    summarise,
)
from nexus_cli.engine.compaction.summary_source import SummarySource, choose_source, price_summary
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.side_conversations import forked, separate
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.engine.requests.user_messages import find_others, hidden_words, read_refusals
from nexus_cli.text.untrusted_text import neutralize

RECORD_SLACK = 32
"""Tokens that a check of the files may add to the record, on top of a quarter of its size."""
LONGEST_MISSING = missing_line(9999, "older item", "d9999", True)
"""The longest possible line for items without room in the record."""
LEAST = 4000
"""Least budget in tokens of a compaction on command: a smaller window is not worth one."""


def draft_plan(context: ContextManager, work: WorkLog, cause: str, share: float) -> planning.CompactionPlan | None:
    """Plan to compact the conversation to `share` of its budget; None if too little would be removed. Adds what
    the log has new to `work`, and changes nothing else."""
    available, count = countable(context, cause), context.count
    pinned = list_pins(context.conversation)
    budget, fixed = countable(context), context.conversation.epoch.header_tokens
    target = int(share * available) - fixed - rules_tokens(context.conversation, OwnWords(count))
    full, conversation = cause != "command", context.conversation
    for _ in read_log(conversation, work):
        pass
    beyond = planning.shares_of(budget, budget - fixed, newest=full)
    record = fit_record(make_record(conversation, work), beyond.record, count, LONGEST_MISSING)
    text = record.text(LONGEST_MISSING)
    reserved = count(text) * 5 // 4 + RECORD_SLACK if text else 0
    if not full:  # pins do not yield to the low target of a compaction on command
        target += min(beyond.pins, sum(pin.labelled_tokens(count) for pin in pinned))
    return planning.plan(
        conversation.groups(),
        available=available,
        target=target,
        count=count,
        run=conversation.run,
        earlier=hidden_words(conversation),
        answers=read_texts(conversation, work.answers),
        record=reserved,
        pins=pinned,
        beyond=beyond,
        spoken=frozenset(work.words),
        least=planning.SUMMARY_LEAST if context.budget.window >= planning.LARGE_WINDOW else planning.SUMMARY_FLOOR,
    )


def countable(context: ContextManager, cause: str = "") -> int:
    """Return the budget in tokens by our count. For a compaction on command it is at most the present window's size."""
    available = context.countable(context.budget.available)
    return min(available, max(LEAST, context.conversation.counted)) if cause == "command" else available


def pins_room(context: ContextManager) -> int:
    """Return the token limit of all pins together, by our count."""
    return int(countable(context) * planning.PINS_SHARE)


async def compact(engine: Engine, cause: str, share: float, instructions: str = "") -> bool:
    """Compact the conversation to `share` of its budget; True if a smaller window was accepted."""
    before, spent = engine.next_request().tokens, engine.spending.usage
    engine.control.emit(event.CompactionStart(cause, before))
    await read_log_in_pieces(engine.conversation, engine.work)
    plan = draft_plan(engine.context, engine.work, cause, share)
    try:
        if plan is None:
            raise SummaryError(event.TOO_LITTLE)
        if cause != "overflow":  # a fork of the conversation would be refused too
            await _run_before_summary(engine, cause, instructions)
        choice = choose_summary_source(engine, plan, cause)
        if cause == "command":
            _warn_of_refusal(engine, choice, plan.summary_cap)
        summary, source, ends = await summarise(engine, plan, choice, instructions)
        missed = _missed_rules(engine.conversation, plan, summary)
        if missed:
            begin = partial(separate, engine, "compact", choice.model)
            begin = partial(forked, engine, "compact") if source == "window" else begin
            summary = with_rules(summary, await ask_for_rules(begin, plan.summary_cap, missed), find_headings)
        if source != choice.source:
            choice = replace(choice, source=source, why=f"{choice.why}; that failed")
        rewrite, kept = await draft_compaction(engine, plan, (summary, ends), choice, cause)
        engine.begin_epoch(rewrite)
        if missed:
            engine.conversation.memo(RULES_ASKED, {"last": missed[0].entry})
    except SummaryError as reason:
        is_too_full = cause == "overflow" or not engine.window_request().fits
        is_paid = plan is not None and not isinstance(reason, SummaryPrevented | SummaryOverflow)
        note_failed(engine.conversation, engine.step, str(reason), paid=is_paid, over=is_too_full)
        cut = is_too_full and cause != "command" and not isinstance(reason, SummaryOverflow)
        paid = (engine.spending.usage - spent).cost_usd
        engine.control.emit(event.CompactionDone(False, before, before, str(reason), cut=cut, cost_usd=paid))
        if not isinstance(reason, SummaryOverflow):
            return False
        learned = engine.context.learn_from_overflow(reason.counted, reason.error)
        if learned is not None:
            engine.control.emit(learned)
        return await compact(engine, "overflow", engine.settings.compact.overflow_to, instructions)
    after, paid = engine.next_request().tokens, (engine.spending.usage - spent).cost_usd
    engine.control.emit(event.CompactionDone(True, before, after, kept=kept, cost_usd=paid))
    return True


def _missed_rules(conversation: Conversation, plan: planning.CompactionPlan, summary: str) -> list[Quote]:
    quoted = take_rules(summary, find_headings)[1]
    return missed_rules(conversation, quoted, plan.entries[1], shown=_shown_entries(plan, plan.quotes)[0])


def _warn_of_refusal(engine: Engine, choice: SummarySource, cap: int) -> None:
    """Warn that a recent summary failed, with the price of another: only a command requests one so soon."""
    refused = last_refusal(engine.conversation, engine.step)
    if refused is None:
        return
    steps, why = refused
    ago = f"{steps} step{'' if steps == 1 else 's'} ago" if steps else "since the last step"
    price = price_summary(choice, cap, warm=engine.is_warm)
    cost = "The price of another attempt is unknown" if price is None else f"Another attempt costs up to ${price:,.4f}"
    engine.control.emit(event.Notice(f"a summary was refused {ago}: {why.rstrip('.')}. {cost}"))


def choose_summary_source(engine: Engine, plan: planning.CompactionPlan, cause: str) -> SummarySource:
    """Choose the source of the summary. Sends nothing."""
    conversation = engine.conversation
    return choose_source(engine, plan, lambda: ((e.tokens, e.message) for e in gone_entries(conversation, plan)), cause)


def gone_entries(conversation: Conversation, plan: planning.CompactionPlan) -> Iterator[Entry]:
    """Yield the original messages that the summary will replace, including those behind an earlier summary."""
    first, last = plan.entries
    kept = {item.entry for item in plan.kept}
    for start in range(first, last + 1, READ_AT_ONCE):
        read = conversation.read(start, min(last, start + READ_AT_ONCE - 1))
        yield from (entry for entry in read if entry.id not in kept)


async def _run_before_summary(engine: Engine, cause: str, instructions: str) -> None:
    """Run the hook `before_summary`; if it fails or times out, report that and continue. Raises `SummaryPrevented` if
    the compaction is refused."""
    if engine.before_summary is None:
        return
    seconds = engine.settings.compact.seconds
    try:
        async with asyncio.timeout(seconds):
            await engine.before_summary(engine, cause, instructions)
    except TimeoutError:
        engine.control.emit(
            event.Notice(f"the memory extraction before the compaction took more than {seconds:g} s", warning=False)
        )
    except NexusError as error:
        if error.kind == "denied":
            raise SummaryPrevented(error.why) from None
        engine.control.emit(event.Notice(f"before the compaction: {error.message}", warning=False))


async def draft_compaction(
    engine: Engine, plan: planning.CompactionPlan, made: tuple[str, str], choice: SummarySource, cause: str
) -> tuple[Rewrite, dict[str, Any]]:
    """Return the rewrite that begins with a summary, and its figures. Changes nothing but takes the ids of its drops.
    Raises `SummaryError` if the window would not shrink.

    `made` is the summary, and the ends cut from the summaries of earlier pieces.
    """
    conversation, count = engine.conversation, engine.context.count
    summary, rules = _take_rules(engine.context, plan, made[0])
    summary, end = split_summary(summary, plan.summary_most, count)
    cut = "\n\n".join(filter(None, (made[1], end)))
    record = await look_at_files(make_record(conversation, engine.work), conversation)
    drop_id, recalls = conversation.log.next_drop(), can_recall(engine.conversation, engine.spending)
    known = named_ways(
        item.message.content for item in conversation.items if item.form in (ItemForm.MARKER, ItemForm.SUMMARY)
    )
    crowded = [(pin, known.get(pin.pin) or conversation.log.next_drop()) for pin in plan.crowded]
    fitted = fit_record(record, plan.record_room, count, LONGEST_MISSING)
    record_drop = conversation.log.next_drop() if fitted.left else ""
    cut_drop = conversation.log.next_drop() if cut else ""
    unseen = () if choice.source == "originals" else plan.unseen
    said = _said_entries(engine.conversation, engine.work)
    kept = _kept_figures(said, engine.work.answers, plan, fitted)
    kept |= {"rules": len(rules.kept), "source": choice.source, "source_why": choice.why}
    more = Additions(
        fitted.text(missing_line(len(fitted.left), "older item", record_drop, recalls)),
        [(pin.pin, name) for pin, name in crowded],
        recalls,
        unseen,
        _unquoted(plan, plan.quotes, said),
        _unquoted(plan, plan.answers, engine.work.answers),
        find_others(conversation, [quote.entry for quote in plan.quotes]),
        rules.shown,
        cut_drop,
    )
    items = head(plan, summary, drop_id, clock=engine.conversation.clock, measure=engine.context.measure, more=more)
    _require_smaller(items, engine.window_request(), conversation.epoch.header_tokens)
    planned = await engine.prompt.draft_epoch(engine.context)
    _require_smaller(items, engine.window_request(), planned.frame.header_tokens)
    drops = [_drop(conversation, plan, drop_id, unseen)]
    if fitted.left:
        drops.append(fitted.drop(record_drop, Cause.COMPACTION, conversation.now(), count))
    if cut:
        what = "the end of a summary, for which the window had no room"
        drops.append(Drop(cut_drop, what, count(cut), Cause.COMPACTION, conversation.now(), text=cut))
    now = conversation.now()
    drops += [pin_drop(pin, name, Cause.COMPACTION, now, count) for pin, name in crowded if pin.pin not in known]
    ids, anchor = [drop.id for drop in drops], conversation.anchor
    epoch = conversation.make_epoch(items, "overflow" if cause == "overflow" else "compaction", planned.frame)
    note = note_made(engine.step, epoch.id, cause, ids, anchor, rules.to_json())
    figures = {**kept, "summary": count(summary), "drops": ids}
    return engine.draft_rewrite(epoch, planned, drops, [note]), figures


def _take_rules(context: ContextManager, plan: planning.CompactionPlan, summary: str) -> tuple[str, StandingRules]:
    """Remove the section of rules from the summary; also return the rules that the person really stated."""
    words = OwnWords(context.count)
    summary, quoted = take_rules(summary, find_headings)
    if not neutralize(summary).strip():
        raise SummaryError("the summary was empty")
    free = max(0, plan.summary_cap - words.count(summary))
    shown = _shown_entries(plan, plan.quotes)[0]
    budget = countable(context)
    return summary, choose_rules(context.conversation, quoted, words, budget=budget, free=free, shown=shown)


def _said_entries(conversation: Conversation, work: WorkLog) -> Sequence[int]:
    """Return the entries with messages of the person, including reasons for refused calls."""
    refused = (one.entry for one in read_refusals(conversation.memos))
    return sorted({*work.words, *refused})


def _kept_figures(
    said: Sequence[int], answers: Sequence[int], plan: planning.CompactionPlan, record: FittedRecord
) -> dict[str, Any]:
    """Count the messages, answers and work items that the window keeps under `plan`, and those that it omits."""
    commands = [item for item in record.items if item.command]
    figures = {}
    for name, entries, quotes in (("words", said, plan.quotes), ("answers", answers, plan.answers)):
        whole, part = _shown_entries(plan, quotes)
        left = [entry for entry in entries if entry <= plan.entries[1] and entry not in whole]
        figures[name] = sum(entry in whole for entry in entries)
        figures[f"{name}_left"], figures[f"{name}_part"] = len(left), sum(entry in part for entry in left)
    return figures | {
        "files": len(record.items) - len(commands),
        "commands": len(commands),
        "failing": sum(item.failing for item in commands),
        "record_left": len(record.left),
    }


def _shown_entries(plan: planning.CompactionPlan, quotes: Sequence[Quote]) -> tuple[set[int], set[int]]:
    """Return the entries that the new window shows verbatim, and those that it shows in part."""
    cut = {item.entry for item in (*flatten(plan.gone), *plan.kept) if item.form is ItemForm.ELIDED}
    whole = {item.entry for item in plan.kept if item.form is ItemForm.FULL} | {pin.entry for pin in plan.pins}
    whole |= {quote.entry for quote in quotes if quote.whole} - cut
    return whole, ({item.entry for item in plan.kept} | {quote.entry for quote in quotes}) - whole


def _unquoted(plan: planning.CompactionPlan, quotes: Sequence[Quote], entries: Sequence[int]) -> Unquoted:
    """Count the removed `entries` without a quote, and those quoted in part."""
    whole, part = _shown_entries(plan, quotes)
    quoted = {quote.entry for quote in quotes}
    missing = sum(entry <= plan.entries[1] and entry not in whole and entry not in part for entry in entries)
    return Unquoted(missing, sum(entry in quoted and entry not in whole for entry in entries))


def _require_smaller(items: Sequence[WindowItem], request: RequestPlan, fixed: int) -> None:
    """Raise `SummaryError` unless `items` and the `fixed` tokens of system text and schemas shrink the window."""
    before, after = request.counted.total, fixed + sum(item.tokens for item in items)
    if after >= before:
        tokens = request.tokens
        raise SummaryError(
            f"the summary would not be smaller ({tokens:,} to {round(tokens * after / before):,} tokens)"
        )


def _drop(
    conversation: Conversation, plan: planning.CompactionPlan, drop_id: str, unseen: Sequence[EntryRange]
) -> Drop:
    """Make the drop of the messages that leave the window. Recalling it returns everything that the new summary
    replaces, because the window names no older drop of them any more."""
    gone, first = plan.leaving, plan.entries[0]
    tokens = sum(item.tokens for item in gone or flatten(plan.gone))
    names = format_ranges(ranges_of(item.entry for item in gone)) if gone else plan.named_but(unseen)
    what = f"messages {names} of the conversation, summarized"
    what += f"; and {format_ranges(unseen)}, left out before" if unseen else ""
    before = subtract_ranges(first, min(item.entry for item in gone) - 1, unseen) if gone else ()
    what += f"; read with {format_ranges(before)}, summarized before" if before else ""
    return Drop(drop_id, what, tokens, Cause.COMPACTION, conversation.now(), plan.entries)
