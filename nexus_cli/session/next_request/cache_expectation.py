"""Predict what the provider's cache holds of a request, compare it with the report, and price rewrites of the window.

Does the bookkeeping of a running session. `nexus_cli.session.cache.diagnosis` gives the verdict,
`nexus_cli.provider.prompt_cache` knows the lifetimes, `nexus_cli.context.window.rewrite_cost` does the arithmetic.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from nexus_cli.context.window.fingerprints import Difference, first_difference, render_fingerprint
from nexus_cli.context.window.lane import Lane
from nexus_cli.context.window.rewrite_cost import RewritePrice, miss_cost, price_rewrite
from nexus_cli.core.entry import Epoch
from nexus_cli.core.event import CacheResult
from nexus_cli.core.usage import Usage
from nexus_cli.session.cache.diagnosis import CacheFacts, diagnose, seconds_between
from nexus_cli.session.cache.last_request import MOST_EPOCHS, SentRequest, cache_life_of, prefix_hash
from nexus_cli.session.lane_state import LaneState
from nexus_cli.session.next_request.current import unreported_tokens, window_request
from nexus_cli.session.next_request.next_request import Outlook

REWRITE = "rewrite"
"""Memo of a rewrite: its cause, epoch and price."""


def cache_result(lane_state: LaneState, ahead: Outlook, usage: Usage) -> CacheResult:
    """Return what came of the request that was just answered, by the provider's figures; ask before `record_use`."""
    sent, made = lane_state.cache.last, CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    if sent is None or not usage.input:
        return made
    facts = CacheFacts(
        sent.tokens, ahead.shared, usage.input, usage.cache_read, ahead.age,
        proven=sent.cached or _reports_cache(usage), fresh=_fresh_tokens(lane_state.lane, sent, usage.input),
        former=sent.life,
    )  # fmt: skip
    verdict = diagnose(cache_life_of(lane_state.model.info), facts)
    if verdict.missed and sent.epoch is not lane_state.lane.epoch:
        found, source = _difference(lane_state.lane, sent)
        facts = replace(facts, difference=found, cause=lane_state.lane.epoch.cause, source=source)
        verdict = diagnose(cache_life_of(lane_state.model.info), facts)
    if not verdict.missed:
        return replace(made, cost_usd=0.0)
    dollars = miss_cost(lane_state.model.info.with_tier_prices(usage.input), verdict.missed, usage)
    return replace(made, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)


def _fresh_tokens(lane: Lane, sent: SentRequest, reported: int) -> int:
    """Return tokens of the request, of which so many were reported, that no request before it held, where it began an
    epoch."""
    new = sum(item.tokens for item in lane.items if item.entry > sent.last) if sent.epoch is not lane.epoch else 0
    return round(new * reported / max(1, lane.counted))


def record_use(lane_state: LaneState, ahead: Outlook, usage: Usage) -> None:
    """Record that the request reached the provider; `usage` are the figures it reported, empty if none."""
    lane, cache = lane_state.lane, lane_state.cache
    cache.uses[lane.epoch.id] = ahead.at
    if usage.input:
        cache.cold += max(0, usage.input - usage.cache_read)
        before, mine = cache.last, (usage.input, lane.counted)
        cached = _reports_cache(usage) or (before is not None and before.cached)
        begins = prefix_hash(lane.epoch) if before is None or before.epoch is not lane.epoch else before.begins
        least = cache.least[begins] = min(mine, cache.least.get(begins, mine))
        cache.last = SentRequest(lane.epoch, lane.tail, lane.cursor, usage.input, cached, least, begins)
        cache.earlier.pop(lane.epoch.id, None)
        cache.earlier[lane.epoch.id] = cache.last
        while len(cache.earlier) > MOST_EPOCHS:
            del cache.earlier[next(iter(cache.earlier))]


def _reports_cache(usage: Usage) -> bool:
    """True if the provider reported use of a cache."""
    return bool(usage.cache_read or usage.cache_write)


def is_warm(lane_state: LaneState) -> bool:
    """True if the provider's cache may still hold what the lane sent last, for the model that is asked now."""
    last = lane_state.cache.last
    return _is_cached(lane_state) and (last is None or last.epoch.model == lane_state.lane.epoch.model)


def _is_cached(lane_state: LaneState) -> bool:
    """True if the provider may still cache the last request (any model), or its lifetime is unknown."""
    return lane_state.cache.last is None or _may_be_cached(lane_state, lane_state.cache.last)


def _may_be_cached(lane_state: LaneState, sent: SentRequest) -> bool:
    """True if a request may still be in a cache."""
    life = cache_life_of(lane_state.model.info)
    if life is None:
        return True
    if sent.tokens < life.min_tokens:
        return False
    seconds = seconds_between(lane_state.cache.uses.get(sent.epoch.id), lane_state.clock())
    return seconds is None or seconds <= life.max_seconds


def record_rewrite(lane_state: LaneState, before: int) -> RewritePrice:
    """Price the rewrite that has just begun the lane's epoch and keep its figures as a memo; see `rewrite_memo`.

    The meter already knows the window that came of it.
    """
    priced = _priced(lane_state, before, window_request(lane_state).tokens)
    lane_state.lane.timeline.memo(*_rewrite(lane_state.lane, priced))
    return priced


def rewrite_memo(lane_state: LaneState, before: int) -> tuple[str, dict[str, Any]]:
    """Return the memo of the rewrite that begins the lane's epoch, to be recorded with it: its price.

    `before` is the estimate of the whole window until then, in tokens. Without the rewrite it would have been read from
    the cache as far as it had been sent; what it now has in common with that still is.
    """
    return _rewrite(lane_state.lane, _priced(lane_state, before, unreported_tokens(lane_state)))


def _rewrite(lane: Lane, priced: RewritePrice) -> tuple[str, dict[str, Any]]:
    figures = {name: value for name, value in asdict(priced).items() if name != "worth"}
    return REWRITE, {"cause": lane.epoch.cause, "epoch": lane.epoch.id, **figures}


def _priced(lane_state: LaneState, before: int, after: int) -> RewritePrice:
    """Price a rewrite; `before` and `after` are estimates of the whole window in tokens."""
    lane = lane_state.lane
    still_warm = _is_cached(lane_state) if lane.epoch.cause == "model" else is_warm(lane_state)
    held = (one for one, _ in lane_state.cache.candidates() if _may_be_cached(lane_state, one)) if still_warm else ()
    shared = max((one.common(lane.epoch, lane.items) for one in held), default=0)
    fresh = sum(item.tokens for item in lane.items if item.entry > lane.cursor)
    tokens = lane_state.meter.scale().tokens
    cold = max(0, round(tokens(lane.counted - fresh) - tokens(shared))) if still_warm else 0
    saved = max(0, before - after)
    info = lane_state.model.info.with_tier_prices(after)
    return price_rewrite(info, cold=cold, saved=saved, steps=lane_state.step, warm=still_warm)


def source_of(epoch: Epoch, section: str) -> str:
    """Return where a section of the epoch comes from: a file, or ""."""
    named = (one for one in json.loads(epoch.sections) if one.get("id") == section)
    return next((str(one.get("source") or "") for one in named), "")


def _difference(lane: Lane, sent: SentRequest) -> tuple[Difference | None, str]:
    """Return what differs first from the request before, and where it comes from."""
    items = [item for item in lane.items if item.entry <= lane.cursor]
    found = first_difference(sent.fingerprint(), render_fingerprint(lane.epoch, items))
    if found is None or found.kind != "section":
        return found, ""
    return found, source_of(lane.epoch, found.what) or source_of(sent.epoch, found.what)
