"""Remove stale tool results from the window before a request if it pays (law 6, reversible).

`nexus_cli.conversation.pruning` finds stale results, `nexus_cli.conversation.rewrite_cost` prices the rewrite.
Works in batches: pruning must free a share of the budget, so it does not recur until that much is stale again.
`engine/compaction/context_fit` decides when to search for a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.epoch_draft import Rewrite
from nexus_cli.conversation.groups import Group
from nexus_cli.conversation.pruning import StaleResult, find_stale, with_stubs
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite_cost import RewritePrice, price_rewrite
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.entry import Cause, Drop, WindowItem
from nexus_cli.core.event import Notice
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.tools.registry import find_tool

PRUNED = str(Cause.PRUNED)
INSTEAD = 1.0
"""Most uncached tokens for each token freed if pruning replaces a compaction. A compaction costs about 0.7, plus its
summary. With a higher limit, long sessions would send more uncached tokens than with compactions alone."""
MARGIN = 0.05
"""Share of the budget by which the window must then be below the compaction threshold."""
STUB = "d000000"
"""Placeholder for the drop id while measuring a stub."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Stale results that are worth pruning together."""

    stale: tuple[StaleResult, ...]
    saved: int
    """Tokens by our count."""

    def describe(self, request: RequestPlan) -> str:
        """Return the notice for `request`, before which it will be taken out. Its message may make more stale."""
        saved = request.tokens - _after(request, self.saved)
        return f"old or stale results will be taken out before the next request, about {saved:,} tokens"


def find_batch(engine: Engine, least: int, *, still_warm: bool) -> Batch | None:
    """Return the stale results to replace with stubs, if that pays and frees at least `least` tokens by our count."""
    groups = engine.conversation.groups()
    found = find_stale(groups, find_tool)
    if sum(one.item.tokens for one in found) < least:
        return None
    request = engine.window_request()
    info = engine.model.info.with_tier_prices(request.upper_bound)
    price = partial(price_rewrite, info, steps=engine.step, warm=still_warm)
    batch = _batch(engine.context, groups, _without_pinned(engine.conversation, found), price)
    if batch is None or batch.saved < least:
        return None
    settings, context = engine.settings, engine.context
    if _after(request, batch.saved) >= settings.compact.at * context.budget.available:
        return None  # the window will be compacted anyway, so pruning would rewrite it twice
    return batch


def find_cheaper_batch(engine: Engine) -> Sequence[StaleResult]:
    """Return the stale results to replace instead of compacting; () if that does not make a compaction needless.

    The window is rewritten either way, so pruning only has to cost no more than a compaction for each token freed, and
    to bring the window well below the threshold.
    """
    if not engine.settings.compact.prune or not can_recall(engine.conversation, engine.spending):
        return ()
    groups = engine.conversation.groups()
    found = _without_pinned(engine.conversation, find_stale(groups, find_tool))
    order = _tokens_from_each(groups, engine.conversation.cursor)
    share = INSTEAD if engine.is_warm else math.inf
    most = (engine.settings.compact.at - MARGIN) * engine.context.budget.available
    best, saved, request = 0, 0, engine.window_request()
    for start in reversed(range(len(found))):
        saved += _freed_tokens(engine.context, found[start])
        cold = max(0, order.get(found[start].item.entry, 0) - saved)
        if cold <= share * saved and _after(request, saved) < most:
            best = len(found) - start
    return found[-best:] if best else ()


def _without_pinned(conversation: Conversation, found: Sequence[StaleResult]) -> list[StaleResult]:
    pinned = {pin.entry for pin in list_pins(conversation)}
    return [one for one in found if one.item.entry not in pinned]


def _freed_tokens(context: ContextManager, one: StaleResult) -> int:
    """Return the tokens freed by replacing a result with its stub, by our count."""
    return max(0, one.item.tokens - one.stub(STUB, context.measure).tokens)


def draft_pruning(engine: Engine, found: Sequence[StaleResult]) -> Rewrite:
    """Return the rewrite that replaces stale results with stubs. Changes nothing but takes the ids of its drops."""
    conversation = engine.conversation
    stubs: dict[int, WindowItem] = {}
    drops: list[Drop] = []
    for one in found:
        name, entry = conversation.log.next_drop(), one.item.entry
        stubs[entry] = one.stub(name, engine.context.measure)
        what = f"result of {one.what} ({one.why})"
        tokens = one.item.tokens - stubs[entry].tokens
        drops.append(Drop(name, what, tokens, Cause.PRUNED, conversation.now(), (entry, entry)))
    epoch = conversation.make_epoch(with_stubs(conversation.groups(), stubs), PRUNED)
    if (anchor := conversation.anchor) is not None:  # the report on the rest is still valid
        saved = conversation.messages_tokens - sum(item.tokens for item in epoch.head)
        gone = round(saved * engine.context.estimate.scale(like=[one.item for one in found]).ratio)
        anchor = Anchor(anchor.last, anchor.reported - gone, anchor.counted - saved, exact=False)
    price = engine.price_epoch(epoch, anchor=anchor, report=anchor)
    results = "1 old or stale result" if len(drops) == 1 else f"{len(drops)} old or stale results"
    line = f"{results} removed from the window, {price.saved:,} tokens: {price.why}"
    return Rewrite(epoch, drops, price=price, anchor=anchor, notice=Notice(line, warning=False))


def _batch(
    context: ContextManager, groups: Sequence[Group], found: Sequence[StaleResult], price: Callable[..., RewritePrice]
) -> Batch | None:
    """Choose the newest stale results up to the age with the best price; None if no choice pays.

    Every token after the first stub is sent uncached, so an old result may cost more than it saves.
    """
    order = _tokens_from_each(groups, context.conversation.cursor)
    best: tuple[float, Batch] | None = None
    saved = 0
    for start in reversed(range(len(found))):
        one = found[start]
        saved += _freed_tokens(context, one)
        priced = price(cold=max(0, order.get(one.item.entry, 0) - saved), saved=saved)
        if priced.pays and (best is None or priced.worth > best[0]):
            best = priced.worth, Batch(tuple(found[start:]), saved)
    return best[1] if best else None


def _tokens_from_each(groups: Sequence[Group], cursor: int) -> dict[int, int]:
    """Return for each entry the sum of the sent tokens from it to the end of the window."""
    behind, total = dict[int, int](), 0
    for item in reversed([item for group in groups for item in group]):
        total += item.tokens if item.entry <= cursor else 0
        behind[item.entry] = total
    return behind


def _after(request: RequestPlan, saved: int) -> int:
    """Estimate the window's tokens after freeing `saved` counted tokens, as the status line will show them."""
    return request.tokens - round(saved * request.tokens / max(1, request.counted.total))
