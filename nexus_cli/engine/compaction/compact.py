"""Compact a window: messages, file changes and commands remain represented in it (law 6).

`summarise` requests and checks the summary; `conversation/compaction/compactor.py` plans and drafts the new window. A
failure leaves the window unchanged and is reported in one line.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.compactor import Summary
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core import event
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import sum_tokens
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import RULES_ASKED
from nexus_cli.engine.compaction.file_states import look_at_files
from nexus_cli.engine.compaction.summarise import (
    SummaryError,
    SummaryOverflow,
    SummaryPrevented,
    ask_for_rules,
    summarise,
)
from nexus_cli.engine.compaction.summary_headings import take_rules
from nexus_cli.engine.compaction.summary_source import SummarySource, choose_source, price_summary
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.text.untrusted_text import neutralize


async def compact(engine: Engine, cause: str, share: float, instructions: str = "") -> bool:
    """Compact the conversation to `share` of its budget; True if a smaller window was accepted."""
    before, spent = engine.next_request().tokens, engine.spending.usage
    engine.control.emit(event.CompactionStart(cause, before))
    await engine.read_work()
    plan = engine.compactor.plan(share, on_command=cause == "command")
    try:
        if plan is None:
            raise SummaryError(event.NOTHING_TO_SUMMARIZE)
        if cause != "overflow":  # a fork of the conversation would be refused too
            await _run_before_summary(engine, cause, instructions)
        choice = choose_source(engine, plan, cause)
        if cause == "command":
            _warn_of_refusal(engine, choice, plan.summary_cap)
        text, source, ends = await summarise(engine, plan, choice, instructions)
        if source != choice.source:
            choice = replace(choice, source=source, why=f"{choice.why}; that source failed")
        text, rules = take_rules(text)
        if not neutralize(text).strip():
            raise SummaryError("the summary was empty")
        missed = engine.compactor.missed_rules(plan, rules)
        if missed:
            begin = partial(engine.separate, "compact", choice.model)
            begin = partial(engine.fork, "compact") if source == "window" else begin
            rules = await ask_for_rules(begin, plan.summary_cap, (quote.text for quote in missed))
        summary = Summary(text, choice.source, choice.why, rules, ends)
        rewrite, kept_tokens = await draft_compaction(engine, plan, summary, cause)
        engine.begin_epoch(rewrite)
        if missed:
            engine.conversation.memo(RULES_ASKED, {"last": missed[0].entry})
    except SummaryError as reason:
        is_too_full = cause == "overflow" or not engine.window_request().fits
        is_paid = plan is not None and not isinstance(reason, SummaryPrevented | SummaryOverflow)
        engine.conversation.memo(*engine.backoff.failed(str(reason), paid=is_paid, over=is_too_full))
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
    engine.control.emit(event.CompactionDone(True, before, after, kept=kept_tokens, cost_usd=paid))
    return True


def _warn_of_refusal(engine: Engine, choice: SummarySource, cap: int) -> None:
    """Warn that a recent summary failed, with the price of another: only a command requests one so soon."""
    refused = engine.backoff.last_refusal
    if refused is None:
        return
    steps, why = refused
    ago = f"{plural(steps, 'step')} ago" if steps else "since the last step"
    price = price_summary(choice, cap, warm=engine.is_warm)
    cost = "The price of another attempt is unknown" if price is None else f"Another attempt costs up to ${price:,.4f}"
    engine.control.emit_notice(f"a summary failed {ago}: {why.rstrip('.')}. {cost}")


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
        engine.control.emit_notice(
            f"the memory extraction before the compaction was stopped after {seconds:g} s", warning=False
        )
    except NexusError as error:
        if error.kind == "denied":
            raise SummaryPrevented(error.why) from None
        engine.control.emit_notice(f"before the compaction: {error.message}", warning=False)


async def draft_compaction(
    engine: Engine, plan: CompactionPlan, summary: Summary, cause: str
) -> tuple[Rewrite, JsonObject]:
    """Return the rewrite that begins with a summary, and its figures. Raises `SummaryError` unless the messages and the
    whole window shrink.

    Reads the files of the work, system text and tools. Changes nothing but takes the ids of its drops.
    """
    conversation, before, within = engine.conversation, engine.window_request(), engine.compactor
    record = await look_at_files(within.make_record())
    drafted = within.draft(plan, summary, record, conversation.log.next_drop)
    planned = await engine.prompt.draft_epoch(engine.context)
    epoch = conversation.make_epoch(drafted.items, "overflow" if cause == "overflow" else "compaction", planned.epoch)
    header = max(conversation.epoch.header_tokens, epoch.header_tokens)  # a shorter one is no merit of the summary
    after = header + sum_tokens(epoch.head)
    if after >= before.counted.total:
        tokens = round(before.tokens * after / before.counted.total)
        raise SummaryError(f"the compaction would not free tokens ({before.tokens:,} before, {tokens:,} after)")
    ids = [drop.id for drop in drafted.drops]
    note = engine.backoff.make_note(epoch.id, cause, ids, conversation.anchor, drafted.rules)
    return engine.draft_rewrite(epoch, planned, drafted.drops, [note]), drafted.figures
