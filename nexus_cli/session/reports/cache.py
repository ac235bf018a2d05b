"""Report each request's use of the provider's cache, and why one read less than it could have.

From the ledger alone: each request beside the one before it in its lane that the provider had counted. The verdicts are
those of `nexus_cli.session.cache.diagnosis`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.window.fingerprints import Difference, Fingerprint, fingerprint, first_difference, name_of
from nexus_cli.context.window.groups import flatten, group_tool_calls
from nexus_cli.context.window.lane import item_of
from nexus_cli.context.window.rewrite_cost import miss_cost
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.request import ModelInfo
from nexus_cli.ledger import LaneLog, Ledger, RequestRow, pick_request
from nexus_cli.provider.prompt_cache import CacheLife
from nexus_cli.session.cache.diagnosis import CAUSES, CacheFacts, Diagnosis, diagnose, expected_cached, seconds_between
from nexus_cli.session.cache.last_request import SentRequest, cache_life_of
from nexus_cli.session.cache.request_history import read_requests, reported_tokens, smallest_like, was_answered
from nexus_cli.session.open_session import load_model_info

Value = dict[str, Any]
BLAMED = ("model", "tool", "section", "effort", "message", "order", "expired", "provider", "unknown")
"""Kinds of verdicts that are misses."""
ELSEWHERE = "the first here; another session had sent the same beginning"


@dataclass(frozen=True, slots=True)
class RequestPair:
    """One request, and the newest one before it of which the provider reported what it took."""

    row: RequestRow
    before: RequestRow | None
    used: str
    """When the beginning of the one before was last used, in any lane; ""."""


@dataclass
class Trail:
    """The requests of one lane, oldest first."""

    ledger: Ledger
    settings: Settings
    log: LaneLog
    requests: list[RequestPair]
    proven: bool
    """True if the provider reported use of a cache in the session."""
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _infos: dict[str, ModelInfo] = field(default_factory=dict)
    _facts: dict[int, CacheFacts | None] = field(default_factory=dict)

    def info(self, row: RequestRow) -> ModelInfo:
        """Return the facts of the requested model."""
        name = str(row.manifest.arguments.get("model", ""))
        if name not in self._infos:
            self._infos[name] = load_model_info(self.ledger, name, self.settings)
        return self._infos[name]

    def life(self, row: RequestRow) -> CacheLife | None:
        """Return its cache lifetime."""
        return cache_life_of(self.info(row))

    def facts(self, asked: RequestPair) -> CacheFacts | None:
        """Return the figures of a request before any comparison; None for a first request and for one without
        figures."""
        step = asked.row.manifest.step
        if step not in self._facts:
            self._facts[step] = self._collect_facts(asked)
        return self._facts[step]

    def _collect_facts(self, asked: RequestPair) -> CacheFacts | None:
        usage, before = asked.row.usage, asked.before
        if usage is None or before is None or before.usage is None:
            return None
        last_use = datetime.fromisoformat(asked.used) if asked.used else None
        seconds = seconds_between(last_use, datetime.fromisoformat(asked.row.manifest.at))
        shared = before.usage.input if self._same(asked) else self._shared_tokens(asked, before, before.usage.input)
        fresh = 0 if self._same(asked) else round(usage.input * self._fresh_share(asked, before))
        other = self.info(before).name != self.info(asked.row).name
        return CacheFacts(
            before.usage.input, shared, usage.input, usage.cache_read, seconds, proven=self.proven, fresh=fresh,
            former=self.life(before) if other else None,
        )  # fmt: skip

    def _fresh_share(self, asked: RequestPair, before: RequestRow) -> float:
        """Return the share of a request under a new epoch that came after the request before it."""
        epoch, tail = self._epoch(asked.row.manifest.epoch), self._tail(asked.row)
        items = [*epoch.head, *tail]
        new = sum(item.tokens for item in items if item.entry > before.manifest.last)
        return new / max(1, epoch.system_tokens + epoch.tools_tokens + sum(item.tokens for item in items))

    def with_difference(self, asked: RequestPair, facts: CacheFacts) -> CacheFacts:
        """Return `facts` with the first difference from the request before."""
        found = self.difference(asked)
        if found is None:
            return facts
        return replace(facts, difference=found, cause=self.cause(asked), source=self.source(asked, found))

    def difference(self, asked: RequestPair) -> Difference | None:
        """Return the first part that differs from the request before, by the hashes of what was sent."""
        if asked.before is None:
            return None
        return first_difference(self._print(asked.before), self._print(asked.row))

    def cause(self, asked: RequestPair) -> str:
        """Return the cause of the request's epoch if that is not the epoch of the one before; else ""."""
        return "" if self._same(asked) else self._epoch(asked.row.manifest.epoch).cause

    def source(self, asked: RequestPair, found: Difference) -> str:
        """Return the source of the section that differs."""
        if found.kind != "section" or asked.before is None:
            return ""
        epochs = (self._epoch(row.manifest.epoch) for row in (asked.row, asked.before))
        named = (one for epoch in epochs for one in json.loads(epoch.sections) if one.get("id") == found.what)
        return next((str(one["source"]) for one in named if one.get("source")), "")

    def _same(self, asked: RequestPair) -> bool:
        return asked.before is not None and asked.before.manifest.epoch == asked.row.manifest.epoch

    def _shared_tokens(self, asked: RequestPair, before: RequestRow, tokens: int) -> int:
        """Return the tokens that a request has in common with the one before it under another epoch."""
        epoch, held = self._epoch(asked.row.manifest.epoch), self._epoch(before.manifest.epoch)
        step = asked.row.manifest.step
        rows = [one.before for one in self.requests if one.before and one.row.manifest.step <= step]
        small = smallest_like(rows, held, self._epoch, self.log.read)
        sent = SentRequest(held, self._tail(before), before.manifest.last, tokens, least=small)
        return sent.shares(epoch, [*epoch.head, *self._tail(asked.row)])[0]

    def _epoch(self, number: int) -> Epoch:
        if number not in self._epochs:
            self._epochs[number] = self.log.epoch(number)
        return self._epochs[number]

    def _tail(self, row: RequestRow) -> list[WindowItem]:
        """Return the items of the request after the head of its epoch."""
        first = self._epoch(row.manifest.epoch).base + 1
        return [item_of(entry) for entry in self.log.read(first, row.manifest.last)]

    def _print(self, row: RequestRow) -> Fingerprint:
        """Return the fingerprint of a request from the hashes in the ledger."""
        epoch = self._epoch(row.manifest.epoch)
        head, entries = self.log.line_hashes(epoch.id, row.manifest.last)
        items = flatten(group_tool_calls(epoch.head))
        named = [(name_of(item), line.hex()) for item, line in zip(items, head, strict=False)]
        return fingerprint(epoch, [*named, *((f"entry {entry}", line.hex()) for entry, line in entries)])


def read_trails(ledger: Ledger, session: str, settings: Settings) -> list[Trail]:
    """Return the lanes of a session that sent something, its main lane first."""
    told = read_requests(ledger, session)
    main = [*told.source, *next(iter(told.lanes.values()))]
    made: list[Trail] = []
    for lane, rows in told.lanes.items():
        asked: list[RequestPair] = []
        before = None if made else _newest(told.source)
        for row in rows:
            before = before or (_forked_from(row, main) if made else None)
            asked.append(RequestPair(row, before, _last_use(before, row, told.used)))
            before = row if reported_tokens(row) else before
        made.append(Trail(ledger, settings, ledger.log(session, lane), asked, told.proven))
    return [made[0], *(trail for trail in made[1:] if trail.requests)]


def _newest(rows: Sequence[RequestRow]) -> RequestRow | None:
    """Return the newest request with reported input."""
    return next((row for row in reversed(rows) if reported_tokens(row)), None)


def _forked_from(row: RequestRow, main: Sequence[RequestRow]) -> RequestRow | None:
    """Return the request of the main lane that a side lane's first one continues: they share an epoch."""
    epoch, last, at = row.manifest.epoch, row.manifest.last, row.manifest.at
    earlier = (one for one in main if one.manifest.epoch == epoch and one.manifest.last <= last)
    return _newest([one for one in earlier if one.manifest.at <= at])


def _last_use(before: RequestRow | None, row: RequestRow, times: Mapping[int, Sequence[str]]) -> str:
    """Return the newest use of the epoch of `before`, by it or by a fork, before `row` was sent."""
    if before is None:
        return ""
    used = times[before.manifest.epoch]
    place = bisect_left(used, row.manifest.at)
    return max(before.manifest.at, used[place - 1]) if place else before.manifest.at


def cache_report(ledger: Ledger, session: str, settings: Settings) -> Value:
    """Return a row per request, the main lane first, and the sums; raise `NexusError("usage", ...)` for an unknown
    session."""
    rows = [_row(trail, asked) for trail in read_trails(ledger, session, settings) for asked in trail.requests]
    return {
        "version": 1,
        "session": ledger.session(session).id,
        "requests": rows,
        "total": _total(rows),
        "rewrites": _rewrites(ledger, session),
    }


def miss_report(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> Value:
    """Return why request `step` of the main lane missed; without `step` the newest miss, else the newest request.

    Raise `NexusError("usage", ...)` if the request does not exist.
    """
    main = next(iter(read_trails(ledger, session, settings)))
    requests = main.requests
    if not requests:
        raise NexusError("usage", f"session {session}", "it has sent nothing yet", "Ask something first")
    if step is None:
        missed = (asked for asked in reversed(requests) if main.facts(asked) and _verdict(main, asked).missed)
        asked = next(missed, requests[-1])
    else:
        asked = pick_request(requests, step, f"request {step}", "`nexus cache` lists them")
    return {"version": 1, "session": ledger.session(session).id, **_row(main, asked), **_details(main, asked)}


def _row(trail: Trail, asked: RequestPair) -> Value:
    row, usage = asked.row, asked.row.usage
    facts, life = trail.facts(asked), trail.life(row)
    verdict = _verdict(trail, asked)
    missed = verdict.missed
    dollars = miss_cost(trail.info(row).with_tier_prices(usage.input), missed, usage) if usage and missed else 0.0
    foreseen = row.manifest.cached or (expected_cached(life, facts.shared, facts.age) if facts else 0)
    return {
        "lane": trail.log.agent,
        "step": row.manifest.step,
        "at": row.manifest.at,
        "model": str(row.manifest.arguments.get("model", "")),
        "epoch": row.manifest.epoch,
        "input": usage.input if usage else None,
        "reported": row.reported,
        "expected": foreseen,
        "read": usage.cache_read if usage and row.reported else None,
        "written": usage.cache_write if usage and row.reported else None,
        "missed": missed,
        "hit": round(usage.cache_read / usage.input, 4) if usage and row.reported and usage.input else None,
        "cost_usd": None if dollars is None else round(dollars, 8),
        "cause": verdict.kind,
        "ours": verdict.ours,
        "why": verdict.why,
    }


def _verdict(trail: Trail, asked: RequestPair) -> Diagnosis:
    """Return the diagnosis of one request; differences are searched for only if something was missed."""
    if asked.row.usage is None or not was_answered(asked.row):
        why = f" ({asked.row.finish})" if asked.row.finish else ""
        return Diagnosis("unanswered", why=f"it was not answered{why}")
    if not asked.row.reported:
        return Diagnosis("unreported", why="the provider reported no figures for it")
    facts, life = trail.facts(asked), trail.life(asked.row)
    if facts is None:
        first = diagnose(life, CacheFacts(0, 0, asked.row.usage.input, asked.row.usage.cache_read, None))
        return replace(first, why=_first_reason(asked.row.manifest.step, asked.row.usage.cache_read) or first.why)
    verdict = diagnose(life, facts)
    return diagnose(life, trail.with_difference(asked, facts)) if verdict.missed else verdict


def _first_reason(step: int, read: int) -> str:
    """Return why there is no earlier request to compare with; "" if the verdict says it."""
    if step > 1:
        return "no request before it brought figures"
    return ELSEWHERE if read else ""


def _details(trail: Trail, asked: RequestPair) -> Value:
    """Return the basis of a verdict: the request before, the first difference, time and cache lifetime."""
    found, facts, life = trail.difference(asked), trail.facts(asked), trail.life(asked.row)
    # A compaction or cut right after a switch begins one more epoch; the switch changed the model.
    cause = "model" if found and found.kind in ("model", "effort") else trail.cause(asked)
    by = CAUSES.get(cause, cause) if cause else ""
    different = {
        "kind": found.kind,
        "what": found.what,
        "before": found.before,
        "after": found.after,
        "source": trail.source(asked, found),
        "by": by,
    } if found else None  # fmt: skip
    return {
        "previous": asked.before.manifest.step if asked.before else None,
        "previous_session": asked.before.session or None if asked.before else None,
        "previous_input": facts.before if facts else None,
        "shared": facts.shared if facts else 0,
        "difference": different,
        "age_seconds": None if facts is None or facts.age is None else round(facts.age, 3),
        "cache": _life_value(life),
    }


def _life_value(life: CacheLife | None) -> Value | None:
    if life is None:
        return None
    return {
        "kept_seconds": [life.min_seconds, life.max_seconds],
        "minimum": life.min_tokens,
        "step": life.step,
        "automatic": life.automatic,
        "documented": life.documented,
    }


def _total(rows: Sequence[Value]) -> Value:
    told = [row for row in rows if row["read"] is not None]
    missed = [row for row in told if row["cause"] in BLAMED]
    costs = [row["cost_usd"] for row in missed]
    total, read = sum(row["input"] for row in told), sum(row["read"] for row in told)
    return {
        "requests": len(rows),
        "unanswered": sum(1 for row in rows if row["cause"] == "unanswered"),
        "input": total,
        "read": read,
        "written": sum(row["written"] for row in told),
        "hit": round(read / total, 4) if total else None,
        "missed": sum(row["missed"] for row in missed),
        "cost_usd": None if None in costs else round(sum(costs), 8),
        "misses": len(missed),
        "ours": _count(missed, True),
        "not_ours": _count(missed, False),
        "unknown": _count(missed, None),
    }


def _count(rows: Iterable[Value], ours: bool | None) -> int:
    return sum(1 for row in rows if row["ours"] is ours)


def _rewrites(ledger: Ledger, session: str) -> list[Value]:
    """Return the recorded price of every rewrite of the session's own."""
    found = ledger.log(session).memos("rewrite", own=True)
    return [{"at": memo.at, **memo.value} for memo in found]
