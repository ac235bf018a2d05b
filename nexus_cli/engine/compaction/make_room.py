"""Make room in a window that is too full: compaction first, unless it cannot help, then truncation.

`context_fit` decides when, and refuses a request that still does not fit.
"""

from __future__ import annotations

from nexus_cli.conversation.compaction.backoff import may_compact, refused_for_nothing
from nexus_cli.conversation.compaction.compaction_plan import PINS_SHARE, RECORD_SHARE, own_words_room
from nexus_cli.conversation.compaction.pinned_marker import MarkerTexts, PinningTruncator, near
from nexus_cli.conversation.compaction.summary_head import quote_rules
from nexus_cli.conversation.compaction.work_record import WorkLog, WorkRecord, fit_record
from nexus_cli.conversation.conversation import Lane
from nexus_cli.conversation.window_truncation import MARKER_ROOM
from nexus_cli.engine.compaction.compact import LONGEST_MISSING, compact, draft_plan
from nexus_cli.engine.compaction.pins import list_pins
from nexus_cli.engine.compaction.prune import prune_instead
from nexus_cli.engine.compaction.record_sources import look_at_files, make_record, read_log_in_pieces
from nexus_cli.engine.compaction.rules import earlier_rules
from nexus_cli.engine.requests.cache_expectation import rewrite_memo
from nexus_cli.engine.requests.lane_state import LaneState
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.engine.requests.user_messages import find_others, words_before
from nexus_cli.sections.collect import PREAMBLE_SHARE, PREAMBLE_TOKENS

CUTS = 3
"""Most truncations before one request."""


async def make_room(lane_state: LaneState, *, fits: bool) -> None:
    """Prune or compact the window, then truncate it until the next request fits."""
    target = lane_state.settings.compact.to
    hopeless = (
        fits
        and refused_for_nothing(lane_state.lane, lane_state.step)
        and draft_plan(lane_state.window, lane_state.work, "window", target) is None
    )
    if not hopeless and may_compact(lane_state.lane, lane_state.step, fits=fits) and not prune_instead(lane_state):
        await compact(lane_state, "window", lane_state.settings.compact.to)
    await _truncate_until_fits(lane_state)


async def make_room_after_overflow(lane_state: LaneState) -> None:
    """Compact to a lower target than usual, else truncate: the provider refused the request as too long."""
    may = may_compact(lane_state.lane, lane_state.step, fits=False)
    if not may or not await compact(lane_state, "overflow", lane_state.settings.compact.overflow_to):
        truncate(lane_state, await _look_at_work(lane_state.lane, lane_state.work))
    await _truncate_until_fits(lane_state)


async def _look_at_work(lane: Lane, work: WorkLog) -> WorkRecord:
    """Return the present record of the work, for the marker of a truncation."""
    await read_log_in_pieces(lane, work)
    return await look_at_files(make_record(lane, work), lane)


async def _truncate_until_fits(lane_state: LaneState) -> None:
    """Truncate until the window fits. One pass may not suffice: the rest may have more tokens per counted token."""
    for _ in range(CUTS):
        before = lane_state.lane.counted
        if lane_state.window_request().fits:
            return
        truncate(lane_state, await _look_at_work(lane_state.lane, lane_state.work))
        if lane_state.lane.counted >= before:
            return


def truncate(lane_state: LaneState, work: WorkRecord | None = None) -> None:
    """Truncate the window to the low-water mark and report the drops.

    The marker contains pins, the person's own words, their rules and the record of the `work`. Leaves room for the
    event sections that must be sent again.
    """
    lane = lane_state.lane
    count = lane_state.window.count
    before = lane_state.window_request().tokens
    available = lane_state.window.estimator.countable(lane_state.window.room)
    keeps = MarkerTexts(
        list_pins(lane.timeline),
        int(available * PINS_SHARE),
        lambda shown: words_before(lane, lane.timeline.last, shown),
        own_words_room(available),
        can_recall(lane_state.lane, lane_state.spending),
        lambda entries: find_others(lane, entries),
        quote_rules(earlier_rules(lane)),
        fit_record(work or WorkRecord(), int(available * RECORD_SHARE), count, LONGEST_MISSING),
    )
    truncator = PinningTruncator(**vars(lane_state.window.context.truncator), keeps=keeps)
    available -= truncator.reserved + min(PREAMBLE_TOKENS, int(PREAMBLE_SHARE * lane_state.window.budget.window))
    fixed = lane.epoch.system_tokens + lane.epoch.tools_tokens
    truncator.strategy = near(truncator.strategy, available - fixed - MARKER_ROOM)
    drops = truncator.truncate(lane, available, notes=lambda _: [rewrite_memo(lane_state, before)])
    lane_state.window.estimator.forget()
    lane_state.emit_drops(drops)
