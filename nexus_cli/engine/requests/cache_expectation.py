"""Record the cache hits and misses of a running lane.

`nexus_cli.conversation.cache_diagnosis` explains misses, `nexus_cli.provider.prompt_cache` knows the lifetimes.
"""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.cache_diagnosis import diagnose
from nexus_cli.conversation.fingerprints import Difference, first_difference
from nexus_cli.conversation.request_plan import Outlook
from nexus_cli.conversation.rewrite_cost import miss_cost
from nexus_cli.conversation.sent_requests import (
    MOST_EPOCHS,
    CacheHistory,
    SentRequest,
    cache_life_of,
    compare_requests,
    prefix_hash,
)
from nexus_cli.core.event import CacheResult
from nexus_cli.core.usage import Usage


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
