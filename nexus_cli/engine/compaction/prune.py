"""Remove stale tool results from the window before a request if it pays (law 6, reversible).

`nexus_cli.conversation.pruning` finds stale results and drafts the window without them,
`nexus_cli.core.rewrite_cost` prices the rewrite. Works in batches: pruning must free a share of the budget, so
it does not recur until that much is stale again. `engine/compaction/context_fit` decides when to search for a batch.
"""

from __future__ import annotations

import math

from nexus_cli.conversation.pruning import StaleBatch
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import Cause, sum_tokens
from nexus_cli.core.event import Notice
from nexus_cli.core.rewrite_cost import price_rewrite
from nexus_cli.engine.requests.engine import Engine

PRUNED = str(Cause.PRUNED)
MAX_PRUNING_COST = 1.0
"""Most uncached tokens for each token freed if pruning replaces a compaction. A compaction costs about 0.7, plus its
summary. With a higher limit, long sessions would send more uncached tokens than with compactions alone."""
MARGIN = 0.05
"""Share of the budget by which the window must then be below the compaction threshold."""


def draft_pruning(engine: Engine, least: int, *, still_warm: bool) -> Rewrite | None:
    """Return the rewrite that replaces stale results with stubs, if that pays and frees at least `least` tokens by our
    count; else None. Takes the ids of its drops; nothing else changes.

    They are the newest ones up to the age with the best price: every token after the first stub is sent uncached, so an
    old result may cost more than it saves.
    """
    request = engine.window_request()
    info = engine.model.info.with_tier_prices(request.upper_bound)
    worth, best = 0.0, StaleBatch()
    for batch in engine.compactor.stale_batches():
        price = price_rewrite(info, cold=batch.cold, saved=batch.saved, steps=engine.step, warm=still_warm)
        if price.pays and price.worth > worth:
            worth, best = price.worth, batch
    threshold = engine.settings.compact.at * engine.context.budget.available
    if best.saved < least or _after(request, best.saved) >= threshold:  # above it the window will be compacted anyway
        return None
    return _draft(engine, best)


def draft_cheaper_pruning(engine: Engine) -> Rewrite | None:
    """Return the rewrite that replaces stale results instead of a compaction; None if that does not make one needless.

    The window is rewritten either way, so pruning must only cost no more than a compaction for each token freed, and
    bring the window well below the threshold.
    """
    if not engine.settings.compact.prune or not engine.can_recall:
        return None
    share = MAX_PRUNING_COST if engine.is_warm else math.inf
    threshold = (engine.settings.compact.at - MARGIN) * engine.context.budget.available
    request, best = engine.window_request(), StaleBatch()
    for batch in engine.compactor.stale_batches():
        if batch.cold <= share * batch.saved and _after(request, batch.saved) < threshold:
            best = batch
    return _draft(engine, best)


def _draft(engine: Engine, stale: StaleBatch) -> Rewrite | None:
    """Return the rewrite that replaces the results of a batch with stubs, None for an empty batch."""
    if not stale.results:
        return None
    conversation = engine.conversation
    head, drops = stale.draft(conversation, engine.context.measure)
    epoch = conversation.make_epoch(head, PRUNED)
    if (anchor := conversation.anchor) is not None:  # the report on the rest is still valid
        saved = conversation.messages_tokens - sum_tokens(epoch.head)
        saved_by_report = round(saved * engine.context.estimate.scale(like=stale.by_kind).ratio)
        anchor = Anchor(anchor.last, anchor.reported - saved_by_report, anchor.counted - saved, exact=False)
    price = engine.price_epoch(epoch, anchor=anchor, report=anchor)
    line = (
        f"nexus removed {plural(len(drops), 'old or stale result')} ({price.saved:,} tokens) from the window: "
        f"{price.why}"
    )
    return Rewrite(epoch, drops, price=price, anchor=anchor, notice=Notice(line, warning=False))


def _after(request: RequestPlan, saved: int) -> int:
    """Estimate the window's tokens after freeing `saved` counted tokens, as the status line will show them."""
    return request.tokens - round(saved * request.tokens / max(1, request.counted.total))
