"""Record the cache hits and misses of a running lane, and price rewrites of its window.

`nexus_cli.conversation.cache_diagnosis` explains misses, `nexus_cli.provider.prompt_cache` knows the lifetimes,
`nexus_cli.conversation.rewrite_cost` does the arithmetic.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.cache_diagnosis import diagnose, seconds_between
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.fingerprints import Difference, first_difference
from nexus_cli.conversation.request_plan import Outlook
from nexus_cli.conversation.rewrite_cost import RewritePrice, miss_cost, price_rewrite
from nexus_cli.conversation.sent_requests import (
    MOST_EPOCHS,
    CacheHistory,
    SentRequest,
    cache_life_of,
    compare_requests,
    prefix_hash,
)
from nexus_cli.core.event import CacheResult
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.engine import Engine

REWRITE = "rewrite"
"""Kind of the memo of a rewrite: its cause, epoch and price."""


def record_use(context: ContextManager, cache: CacheHistory, ahead: Outlook, usage: Usage) -> CacheResult:
    """Record that the request reached the provider; return its cache result by the reported `usage`, if any."""
    conversation, before = context.conversation, cache.last
    cache.uses[conversation.epoch.id] = ahead.at
    result = CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    if not usage.input:
        return result
    mine = (usage.input, conversation.counted)
    cached = bool(usage.cache_read or usage.cache_write) or (before is not None and before.cached)
    begins = (
        prefix_hash(conversation.epoch) if before is None or before.epoch is not conversation.epoch else before.begins
    )
    least = cache.least[begins] = min(mine, cache.least.get(begins, mine))
    life = cache_life_of(context.model.info)
    now = cache.last = SentRequest(
        conversation.epoch, conversation.tail, conversation.cursor, usage.input, cached, least, begins, life
    )
    cache.earlier.pop(conversation.epoch.id, None)
    cache.earlier[conversation.epoch.id] = now
    while len(cache.earlier) > MOST_EPOCHS:
        del cache.earlier[next(iter(cache.earlier))]
    if before is None:
        return result

    def differ() -> Difference | None:  # requests of one epoch share their prefix (law 1)
        same = before.epoch is now.epoch
        return None if same else first_difference(before.fingerprint(), now.fingerprint())

    verdict = diagnose(
        compare_requests(before, now, usage, shared=ahead.shared, age=ahead.age, proven=cached, differ=differ)
    )
    if not verdict.missed:
        return replace(result, cost_usd=0.0)
    dollars = miss_cost(context.model.info, verdict.missed, usage)
    return replace(result, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)


def is_warm(context: ContextManager, cache: CacheHistory, *, any_model: bool = False) -> bool:
    """True if the lane's last request may still be cached, or its cache lifetime is unknown. A request to another
    model than the epoch's counts only with `any_model`."""
    last, now = cache.last, context.conversation.clock()
    same = last is None or any_model or last.epoch.model == context.conversation.epoch.model
    return same and (last is None or _may_be_cached(cache, last, context.model.info, now))


def _may_be_cached(cache: CacheHistory, sent: SentRequest, info: ModelInfo, now: datetime) -> bool:
    life = cache_life_of(info)
    if life is None:
        return True
    if sent.tokens < life.min_tokens:
        return False
    seconds = seconds_between(cache.uses.get(sent.epoch.id), now)
    return seconds is None or seconds <= life.max_seconds


def record_rewrite(engine: Engine, before: int) -> RewritePrice:
    """Record the price of the rewrite that began this epoch, whose window the estimator describes already."""
    priced = _priced(engine, before, engine.window_request().tokens)
    engine.conversation.memo(*_rewrite(engine.conversation, priced))
    return priced


def rewrite_memo(engine: Engine, before: int) -> tuple[str, dict[str, Any]]:
    """Make the memo with the price of the rewrite that begins the lane's epoch, to be recorded with it.

    `before` is the estimate of the old window in tokens. Without the rewrite its sent part would be read from the
    cache; with it only the common prefix is.
    """
    return _rewrite(engine.conversation, _priced(engine, before, engine.context.unreported_tokens()))


def _rewrite(conversation: Conversation, priced: RewritePrice) -> tuple[str, dict[str, Any]]:
    figures = {name: value for name, value in asdict(priced).items() if name != "worth"}
    return REWRITE, {"cause": conversation.epoch.cause, "epoch": conversation.epoch.id, **figures}


def _priced(engine: Engine, before: int, after: int) -> RewritePrice:
    """Price a rewrite from estimates of the whole window `before` and `after` it, in tokens."""
    conversation = engine.conversation
    cache, info, now = engine.cache, engine.model.info, conversation.clock()
    still_warm = is_warm(engine.context, cache, any_model=conversation.epoch.cause == "model")
    earlier = cache.earlier_requests(info, now).requests if still_warm else ()
    held = (one for one, _ in earlier if _may_be_cached(cache, one, info, now))
    shared = max((one.common(conversation.epoch, conversation.items) for one in held), default=0)
    fresh = sum(item.tokens for item in conversation.items if item.entry > conversation.cursor)
    tokens = engine.context.estimator.scale().tokens
    cold = max(0, round(tokens(conversation.counted - fresh) - tokens(shared))) if still_warm else 0
    saved = max(0, before - after)
    return price_rewrite(info.with_tier_prices(after), cold=cold, saved=saved, steps=engine.step, warm=still_warm)
