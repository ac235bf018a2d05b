"""Make room in a window that is too full: compaction first, unless it cannot help, then truncation.

`context_fit` decides when, and refuses a request that still does not fit.
"""

from __future__ import annotations

from nexus_cli.conversation.compaction.backoff import may_compact, refused_for_nothing
from nexus_cli.conversation.compaction.compaction_plan import PINS_SHARE, RECORD_SHARE, own_words_room
from nexus_cli.conversation.compaction.pinned_marker import MarkerTexts, PinningTruncator, near
from nexus_cli.conversation.compaction.summary_head import quote_rules
from nexus_cli.conversation.compaction.work_record import WorkLog, WorkRecord, fit_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.epoch_draft import Rewrite
from nexus_cli.conversation.window_truncation import MARKER_ROOM
from nexus_cli.engine.compaction.compact import LONGEST_MISSING, compact, draft_plan
from nexus_cli.engine.compaction.pins import list_pins
from nexus_cli.engine.compaction.prune import draft_pruning, find_cheaper_batch
from nexus_cli.engine.compaction.record_sources import look_at_files, make_record, read_log_in_pieces
from nexus_cli.engine.compaction.rules import earlier_rules
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.engine.requests.user_messages import find_others, words_before
from nexus_cli.sections.collect import PREAMBLE_SHARE, PREAMBLE_TOKENS

TRUNCATION = "truncation"
"""Cause of the epoch."""
CUTS = 3
"""Most truncations before one request."""


async def make_room(engine: Engine, *, fits: bool) -> None:
    """Prune or compact the window, then truncate it until the next request fits."""
    target = engine.settings.compact.to
    hopeless = (
        fits
        and refused_for_nothing(engine.conversation, engine.step)
        and draft_plan(engine.context, engine.work, "window", target) is None
    )
    if not hopeless and may_compact(engine.conversation, engine.step, fits=fits):
        if stale := find_cheaper_batch(engine):
            engine.begin_epoch(draft_pruning(engine, stale))
        else:
            await compact(engine, "window", target)
    await _truncate_until_fits(engine)


async def make_room_after_overflow(engine: Engine) -> None:
    """Compact to a lower target than usual, else truncate: the provider refused the request as too long."""
    may = may_compact(engine.conversation, engine.step, fits=False)
    if not may or not await compact(engine, "overflow", engine.settings.compact.overflow_to):
        engine.begin_epoch(draft_truncation(engine, await _look_at_work(engine.conversation, engine.work)))
    await _truncate_until_fits(engine)


async def _look_at_work(conversation: Conversation, work: WorkLog) -> WorkRecord:
    """Return the present record of the work, for the marker of a truncation."""
    await read_log_in_pieces(conversation, work)
    return await look_at_files(make_record(conversation, work), conversation)


async def _truncate_until_fits(engine: Engine) -> None:
    """Truncate until the window fits. One pass may not suffice: the rest may have more tokens per counted token."""
    for _ in range(CUTS):
        before = engine.conversation.counted
        if engine.window_request().fits:
            return
        engine.begin_epoch(draft_truncation(engine, await _look_at_work(engine.conversation, engine.work)))
        if engine.conversation.counted >= before:
            return


def draft_truncation(engine: Engine, work: WorkRecord) -> Rewrite:
    """Return the rewrite that truncates the window to the low-water mark. Changes nothing but takes the ids of its
    drops.

    The marker contains pins, the person's own words, their rules and the record of the `work`. Leaves room for the
    event sections that must be sent again.
    """
    conversation = engine.conversation
    available = engine.context.countable(engine.context.room)
    keeps = MarkerTexts(
        list_pins(conversation),
        int(available * PINS_SHARE),
        lambda shown: words_before(conversation, conversation.last, shown),
        own_words_room(available),
        can_recall(engine.conversation, engine.spending),
        lambda entries: find_others(conversation, entries),
        quote_rules(earlier_rules(conversation)),
        fit_record(work, int(available * RECORD_SHARE), engine.context.count, LONGEST_MISSING),
    )
    truncator = PinningTruncator(**vars(engine.context.truncator), keeps=keeps)
    available -= truncator.reserved + min(PREAMBLE_TOKENS, int(PREAMBLE_SHARE * engine.context.budget.window))
    truncator.strategy = near(truncator.strategy, available - conversation.epoch.header_tokens - MARKER_ROOM)
    head, drops = truncator.cut(conversation, available)
    return engine.draft_rewrite(conversation.make_epoch(head, TRUNCATION), drops=drops)
