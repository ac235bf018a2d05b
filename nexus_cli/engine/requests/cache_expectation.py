"""Track the cache hits and misses of a running conversation, in memory: the ledger has each request and its usage.

`nexus_cli.conversation.cache_diagnosis` explains misses, `nexus_cli.provider.prompt_cache` knows the lifetimes.
"""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.sent_requests import SentRequest
from nexus_cli.core.event import CacheResult
from nexus_cli.core.rewrite_cost import miss_cost
from nexus_cli.core.usage import Usage
from nexus_cli.provider.prompt_cache import cache_life_of


def track_cache_use(context: ContextManager, plan: RequestPlan, usage: Usage) -> CacheResult:
    """Keep the request, which reached the provider, for the comparison with later ones, and return its cache result by
    the reported `usage`, if any."""
    conversation, info, ahead = context.conversation, context.model.info, plan.outlook
    before = conversation.sent.last
    result = CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    life, last = cache_life_of(info), conversation.cursor
    request = SentRequest(plan.epoch, conversation.tail, last, usage.input, life=life)
    now = conversation.sent.record(request, plan.counted.total, usage, ahead.at)
    if before is None or now is None:
        return result

    facts = now.compare(before, usage, shared=ahead.shared, age=ahead.age, proven=now.cached)
    verdict = facts.diagnose()
    if not verdict.missed:
        return replace(result, cost_usd=0.0)
    dollars = miss_cost(info, verdict.missed, usage)
    return replace(result, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)
