"""What a request may expect of the provider's cache, what came of it, and what a rewrite of the window costs there.

Owns the bookkeeping of a running session. Leaves the verdict to `nexus_cli.session.miss`, how long providers keep
what to `nexus_cli.provider.prompt_cache`, and the arithmetic of prices to `nexus_cli.context.window.rewrite_cost`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from nexus_cli.context.window.fingerprints import Difference, first_difference, rendered
from nexus_cli.context.window.rewrite_cost import RewritePrice, miss_cost, price_rewrite
from nexus_cli.core.entry import Epoch
from nexus_cli.core.event import CacheResult
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage
from nexus_cli.provider.prompt_cache import CacheLife, cache_life
from nexus_cli.session.engine import Engine
from nexus_cli.session.miss import Facts, age, expected, judge
from nexus_cli.session.sent import Sent, beginning

REWRITE = "rewrite"
"""Memo of a rewrite: its cause, epoch and price."""
MOST_EPOCHS = 4
"""So many epochs before the present one are remembered with what was sent under them: an undo goes back to one."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known before a request is sent."""

    tokens: int
    """What the provider's cache should hold of it: of the request before it, or of one under a former epoch."""
    messages: int
    """How many messages on the wire those are, where a new epoch began; else 0."""
    shared: int
    """Tokens of its beginning that the request before it had too."""
    age: float | None
    """Seconds since the beginning of that one was used last, None where the clock does not tell."""
    at: datetime


def outlook(engine: Engine) -> Outlook:
    """What the next request of the lane may expect, as it stands in the window now."""
    sent, lane, now = engine.sent, engine.lane, engine.clock()
    if sent is None:
        return Outlook(0, 0, 0, None, now)
    if sent.epoch is lane.epoch:
        seconds = age(engine.uses.get(sent.epoch.id), now)
        return Outlook(expected(_life(engine), sent.tokens, seconds), 0, sent.tokens, seconds, now)
    made = []
    for one in _candidates(engine):
        seconds = age(engine.uses.get(one.epoch.id), now)
        shared, messages = one.shares(lane.epoch, lane.slots)
        made.append(Outlook(expected(_life(engine), shared, seconds), messages, shared, seconds, now))
    best = max(made, key=lambda one: one.tokens)
    return replace(made[0], tokens=best.tokens, messages=best.messages)


def _candidates(engine: Engine) -> Iterator[Sent]:
    """The request before, then the newest ones under former epochs: any of them may still be in the cache."""
    if engine.sent is not None:
        yield engine.sent
        yield from (one for one in reversed(engine.earlier.values()) if one.epoch is not engine.sent.epoch)


def ahead(engine: Engine) -> dict[str, int]:
    """Tokens of the next request as the window stands now, and how many of them a cache should hold."""
    tokens = engine.coming()
    return {"tokens": tokens, "cached": min(tokens, outlook(engine).tokens)}


def result(engine: Engine, ahead: Outlook, usage: Usage) -> CacheResult:
    """What came of the request that was just answered, by the provider's own figures; ask before `remember`."""
    sent, made = engine.sent, CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    if sent is None or not usage.input:
        return made
    facts = Facts(
        sent.tokens, ahead.shared, usage.input, usage.cache_read, ahead.age, proven=sent.cached or _cached(usage),
        fresh=_fresh(engine, sent, usage.input), former=sent.life,
    )  # fmt: skip
    verdict = judge(_life(engine), facts)
    if verdict.missed and sent.epoch is not engine.lane.epoch:
        found, source = _difference(engine, sent)
        facts = replace(facts, difference=found, cause=engine.lane.epoch.cause, source=source)
        verdict = judge(_life(engine), facts)
    if not verdict.missed:
        return replace(made, cost_usd=0.0)
    dollars = miss_cost(engine.model.info.with_tier_prices(usage.input), verdict.missed, usage)
    return replace(made, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)


def _fresh(engine: Engine, sent: Sent, reported: int) -> int:
    """Tokens of the request, of which so many were reported, that no request before it held, where it began an
    epoch."""
    lane = engine.lane
    new = sum(slot.tokens for slot in lane.slots if slot.entry > sent.last) if sent.epoch is not lane.epoch else 0
    return round(new * reported / max(1, lane.counted))


def remember(engine: Engine, ahead: Outlook, usage: Usage) -> None:
    """The request that was just sent reached the provider; `usage` are its own figures, empty where it gave none."""
    lane = engine.lane
    engine.uses[lane.epoch.id] = ahead.at
    if usage.input:
        engine.cold += max(0, usage.input - usage.cache_read)
        before, mine = engine.sent, (usage.input, lane.counted)
        cached = _cached(usage) or (before is not None and before.cached)
        begins = beginning(lane.epoch) if before is None or before.epoch is not lane.epoch else before.begins
        least = engine.least[begins] = min(mine, engine.least.get(begins, mine))
        engine.sent = Sent(lane.epoch, lane.tail, lane.cursor, usage.input, cached, least, begins)
        engine.earlier.pop(lane.epoch.id, None)
        engine.earlier[lane.epoch.id] = engine.sent
        while len(engine.earlier) > MOST_EPOCHS:
            del engine.earlier[next(iter(engine.earlier))]


def _cached(usage: Usage) -> bool:
    """Whether the provider told of a cache."""
    return bool(usage.cache_read or usage.cache_write)


def known_life(info: ModelInfo) -> CacheLife | None:
    """What is known of the cache of a model."""
    return cache_life(info.name, info.provider, caches=info.cache)


def warm(engine: Engine) -> bool:
    """Whether the provider's cache may still hold what the lane sent last, for the model that is asked now."""
    return _kept(engine) and (engine.sent is None or engine.sent.epoch.model == engine.lane.epoch.model)


def _kept(engine: Engine) -> bool:
    """Whether what the lane sent last may still be in a cache, for whichever model; also where nobody knows."""
    return engine.sent is None or _still(engine, engine.sent)


def _still(engine: Engine, sent: Sent) -> bool:
    """Whether a request may still be in a cache."""
    life = _life(engine)
    if life is None:
        return True
    if sent.tokens < life.min_tokens:
        return False
    seconds = age(engine.uses.get(sent.epoch.id), engine.clock())
    return seconds is None or seconds <= life.max_seconds


def record_rewrite(engine: Engine, before: int) -> RewritePrice:
    """Price the rewrite that has just begun the lane's epoch and keep its figures as a memo; see `rewritten`.

    The meter already knows the window that came of it.
    """
    priced = _priced(engine, before, engine.meter.estimate(engine.lane.counted))
    engine.lane.timeline.memo(*_rewrite(engine, priced))
    return priced


def rewritten(engine: Engine, before: int) -> tuple[str, dict[str, Any]]:
    """The memo of the rewrite that begins the lane's epoch, to be recorded with it: its price.

    `before` is the estimate of the whole window until then, in tokens. Without the rewrite it would have been read from
    the cache as far as it had been sent; what it now has in common with that still is.
    """
    return _rewrite(engine, _priced(engine, before, round(engine.meter.unanchored(engine.lane.counted))))


def _rewrite(engine: Engine, priced: RewritePrice) -> tuple[str, dict[str, Any]]:
    figures = {name: value for name, value in asdict(priced).items() if name != "worth"}
    return REWRITE, {"cause": engine.lane.epoch.cause, "epoch": engine.lane.epoch.id, **figures}


def _priced(engine: Engine, before: int, after: int) -> RewritePrice:
    """`before` and `after` are estimates of the whole window, in tokens."""
    lane = engine.lane
    still_warm = _kept(engine) if lane.epoch.cause == "model" else warm(engine)
    held = (one for one in _candidates(engine) if _still(engine, one)) if still_warm else ()
    shared = max((one.common(lane.epoch, lane.slots) for one in held), default=0)
    fresh = sum(slot.tokens for slot in lane.slots if slot.entry > lane.cursor)
    tokens = engine.meter.density().tokens
    cold = max(0, round(tokens(lane.counted - fresh) - tokens(shared))) if still_warm else 0
    saved = max(0, before - after)
    info = engine.model.info.with_tier_prices(after)
    return price_rewrite(info, cold=cold, saved=saved, steps=engine.step, warm=still_warm)


def source_of(epoch: Epoch, section: str) -> str:
    """Where a section of the epoch comes from: a file, or ""."""
    named = (one for one in json.loads(epoch.sections) if one.get("id") == section)
    return next((str(one.get("source") or "") for one in named), "")


def _difference(engine: Engine, sent: Sent) -> tuple[Difference | None, str]:
    """What differs first from the request before, and where it comes from."""
    lane = engine.lane
    slots = [slot for slot in lane.slots if slot.entry <= lane.cursor]
    found = first_difference(sent.fingerprint(), rendered(lane.epoch, slots))
    if found is None or found.kind != "section":
        return found, ""
    return found, source_of(lane.epoch, found.what) or source_of(sent.epoch, found.what)


def _life(engine: Engine) -> CacheLife | None:
    return known_life(engine.model.info)
