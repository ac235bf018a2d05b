"""What a request may expect of the provider's cache, what came of it, and what a rewrite of the window costs there.

Owns the bookkeeping of a running session. Leaves the verdict to `nexus_cli.session.miss`, how long providers keep
what to `nexus_cli.provider.cache_life`, and the arithmetic of prices to `nexus_cli.context.economy`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
MOST_EPOCHS = 4
"""So many epochs before the present one are remembered with what was sent under them: an undo goes back to one."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known before a request is sent."""

    tokens: int
    """What the provider's cache should hold of it."""
    shared: int
    """Tokens of its beginning that an earlier request had too: the one before it, or one under a former epoch."""
    messages: int
    """How many messages on the wire those are, where a new epoch began; else 0."""
    age: float | None
    """Seconds since that beginning was used last, None where the clock does not tell."""
    at: datetime
    fresh: int = 0
    """Our count of what no request before it held, where a new epoch began; else 0."""


def outlook(engine: Engine) -> Outlook:
    """What the next request of the lane may expect, as it stands in the window now."""
    sent, lane, now = engine.sent, engine.lane, engine.clock()
    if sent is None:
        return Outlook(0, 0, 0, None, now)
    if sent.epoch is lane.epoch:
        seconds = age(engine.uses.get(sent.epoch.id), now)
        return Outlook(expected(_life(engine), sent.tokens, seconds), sent.tokens, 0, seconds, now)
    fresh = sum(slot.tokens for slot in lane.slots if slot.entry > sent.last)
    made = []
    for one in _candidates(engine):
        seconds = age(engine.uses.get(one.epoch.id), now)
        shared, messages = one.shares(lane.epoch, lane.slots)
        made.append(Outlook(expected(_life(engine), shared, seconds), shared, messages, seconds, now, fresh))
    return max(made, key=lambda one: one.tokens)


def _candidates(engine: Engine) -> Iterator[Sent]:
    """The request before, then the newest ones under former epochs: any of them may still be in the cache."""
    if engine.sent is not None:
        yield engine.sent
        yield from (one for one in reversed(engine.earlier.values()) if one.epoch is not engine.sent.epoch)


def ahead(engine: Engine) -> dict[str, int]:
    """Tokens of the next request as the window stands now, and how many of them a cache should hold."""
    tokens = engine.meter.estimate(engine.lane.counted)
    return {"tokens": tokens, "cached": min(tokens, outlook(engine).tokens)}


def result(engine: Engine, ahead: Outlook, usage: Usage) -> CacheResult:
    """What came of the request that was just answered, by the provider's own figures; ask before `remember`."""
    sent, made = engine.sent, CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    if sent is None or not usage.input:
        return made
    proven = sent.cached or _cached(usage)
    fresh = round(ahead.fresh * usage.input / max(1, engine.lane.counted))
    facts = Facts(sent.tokens, ahead.shared, usage.input, usage.cache_read, ahead.age, proven=proven, fresh=fresh)
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
        engine.earlier.pop(lane.epoch.id, None)
        engine.earlier[lane.epoch.id] = engine.sent
        while len(engine.earlier) > MOST_EPOCHS:
            del engine.earlier[next(iter(engine.earlier))]


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
    return engine.sent is None or _still(engine, engine.sent)


def _still(engine: Engine, sent: Sent) -> bool:
    """Whether a request may still be in a cache."""
    life = _life(engine)
    if life is None:
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
    held = (one for one in _candidates(engine) if _still(engine, one)) if still_warm else ()
    shared = max((one.shares(lane.epoch, lane.slots)[0] for one in held), default=0)
    fresh = sum(slot.tokens for slot in lane.slots if slot.entry > lane.cursor)
    cold = max(0, engine.meter.estimate(after - fresh) - shared) if still_warm else 0
    saved = max(0, engine.meter.estimate(before) - engine.meter.estimate(after))
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
