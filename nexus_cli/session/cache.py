"""What a request may expect of the provider's cache, what came of it, and what a rewrite of the window costs there.

Owns the bookkeeping of a running session. Leaves the verdict to `nexus_cli.session.miss`, how long providers keep
what to `nexus_cli.provider.cache_life`, and the arithmetic of prices to `nexus_cli.context.economy`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from nexus_cli.context.economy import Rewrite, miss_cost, price_rewrite
from nexus_cli.context.fingerprints import Difference, first_difference, rendered
from nexus_cli.context.lane import slot_of
from nexus_cli.core.entry import Epoch
from nexus_cli.core.event import CacheResult
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import RequestRow
from nexus_cli.provider.cache_life import CacheLife, cache_life
from nexus_cli.session.engine import Engine
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.miss import Facts, age, expected, judge
from nexus_cli.session.sent import Sent

REWRITE = "rewrite"
"""Memo of a rewrite: its cause, epoch and price."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known before a request is sent."""

    tokens: int
    """What the provider's cache should hold of it."""
    shared: int
    """Tokens of its beginning that the request before it had too."""
    messages: int
    """How many messages on the wire those are, where a new epoch began; else 0."""
    age: float | None
    """Seconds since that beginning was used last, None where the clock does not tell."""
    at: datetime


def outlook(engine: Engine) -> Outlook:
    """What the next request of the lane may expect, as it stands in the window now."""
    sent, lane, now = engine.sent, engine.lane, engine.clock()
    if sent is None:
        return Outlook(0, 0, 0, None, now)
    seconds = age(engine.uses.get(sent.epoch.id), now)
    shared, messages = (sent.tokens, 0) if sent.epoch is lane.epoch else sent.shares(lane.epoch, lane.slots)
    return Outlook(expected(_life(engine), shared, seconds), shared, messages, seconds, now)


def result(engine: Engine, ahead: Outlook, usage: Usage) -> CacheResult:
    """What came of the request that was just answered, by the provider's own figures; ask before `remember`."""
    sent, made = engine.sent, CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    if sent is None or not usage.input:
        return made
    proven = sent.cached or _cached(usage)
    facts = Facts(sent.tokens, ahead.shared, usage.input, usage.cache_read, ahead.age, proven=proven)
    verdict = judge(_life(engine), facts)
    if verdict.missed and sent.epoch is not engine.lane.epoch:
        found, source = _difference(engine, sent)
        facts = replace(facts, difference=found, cause=engine.lane.epoch.cause, source=source)
        verdict = judge(_life(engine), facts)
    if not verdict.missed:
        return replace(made, cost_usd=0.0)
    dollars = miss_cost(engine.model.info.priced(usage.input), verdict.missed)
    return replace(made, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)


def remember(engine: Engine, ahead: Outlook, usage: Usage) -> None:
    """The request that was just sent reached the provider; `usage` are its own figures, empty where it gave none."""
    lane = engine.lane
    engine.uses[lane.epoch.id] = ahead.at
    if usage.input:
        engine.cold += max(0, usage.input - usage.cache_read)
        cached = _cached(usage) or (engine.sent is not None and engine.sent.cached)
        engine.sent = Sent(lane.epoch, lane.tail, lane.cursor, usage.input, cached)


def _cached(usage: Usage) -> bool:
    """Whether the provider told of a cache."""
    return bool(usage.cache_read or usage.cache_write)


def resume(engine: Engine, row: RequestRow, log: SessionLogger) -> None:
    """Go on from the newest request of an earlier process."""
    lane, sent = engine.lane, row.manifest
    if row.usage is None or not row.reported:
        return
    epoch, tail = lane.epoch, lane.tail
    if sent.epoch != epoch.id:
        epoch = log.epoch(sent.epoch)
        tail = [slot_of(entry) for entry in log.read(epoch.base + 1, sent.last)]
    engine.sent = Sent(epoch, tail, sent.last, row.usage.input, _cached(row.usage))
    engine.cold = row.usage.input  # what stands in the window was sent once at least
    engine.uses[sent.epoch] = datetime.fromisoformat(sent.at)


def warm(engine: Engine) -> bool:
    """Whether the provider's cache may still hold what the lane sent last, for the model that is asked now."""
    return _kept(engine) and (engine.sent is None or engine.sent.epoch.model == engine.lane.epoch.model)


def _kept(engine: Engine) -> bool:
    """Whether what the lane sent last may still be in a cache, for whichever model; also where nobody knows."""
    sent, life = engine.sent, _life(engine)
    if sent is None or life is None:
        return True
    if sent.tokens < life.minimum:
        return False
    seconds = age(engine.uses.get(sent.epoch.id), engine.clock())
    return seconds is None or seconds <= life.most


def record_rewrite(engine: Engine, cause: str, before: int, after: int) -> Rewrite:
    """Price the rewrite that has just begun the lane's epoch and keep its figures as a memo.

    `before` and `after` are our counts of the whole window. The window without the rewrite would have been read from
    the cache as far as it had been sent; what it now has in common with that still is.
    """
    lane = engine.lane
    still_warm = _kept(engine) if cause == "model" else warm(engine)
    shared = engine.sent.shares(lane.epoch, lane.slots)[0] if engine.sent and still_warm else 0
    fresh = sum(slot.tokens for slot in lane.slots if slot.entry > lane.cursor)
    cold = max(0, engine.meter.estimate(after - fresh) - shared) if still_warm else 0
    saved = max(0, before - after)
    info = engine.model.info.priced(engine.meter.estimate(after))
    priced = price_rewrite(info, cold=cold, saved=saved, steps=engine.step, warm=still_warm)
    figures = {name: value for name, value in asdict(priced).items() if name != "worth"}
    lane.timeline.memo(REWRITE, {"cause": cause, "epoch": lane.epoch.id, **figures})
    return priced


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
    info = engine.model.info
    return cache_life(info.name, info.provider, caches=info.cache)
