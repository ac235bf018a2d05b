"""What each request of a session had from the provider's cache, and why one had less than it could have had.

From the ledger alone: what was expected, reported and missed, with the first part that differed from the request
before in its lane. The verdicts are those of `nexus_cli.session.cache.diagnosis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.window.rewrite_cost import miss_cost
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger, pick_request
from nexus_cli.provider.prompt_cache import CacheLife
from nexus_cli.session.cache.diagnosis import CAUSES, CacheFacts, Diagnosis, diagnose, expected_cached
from nexus_cli.session.cache.request_history import was_answered
from nexus_cli.session.reports.requests import Asked, Trail, read_trails

Value = dict[str, Any]
BLAMED = ("model", "tool", "section", "effort", "message", "order", "expired", "provider", "unknown")
"""Kinds of verdicts that are misses."""
ELSEWHERE = "the first here; another session had sent the same beginning"


def cache_report(ledger: Ledger, session: str, settings: Settings) -> Value:
    """A row per request, those of the main lane first, and the sums; `NexusError("usage", ...)` for no such session."""
    rows = [_row(trail, asked) for trail in read_trails(ledger, session, settings) for asked in trail.requests]
    return {
        "version": 1,
        "session": ledger.session(session).id,
        "requests": rows,
        "total": _total(rows),
        "rewrites": _rewrites(ledger, session),
    }


def miss_report(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> Value:
    """What made request `step` of the main lane miss; without `step` the newest that missed, else the newest.

    `NexusError("usage", ...)` for a request that is not there.
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


def _row(trail: Trail, asked: Asked) -> Value:
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


def _verdict(trail: Trail, asked: Asked) -> Diagnosis:
    """The verdict on one request; what differed is looked for only where something was missed."""
    if asked.row.usage is None or not was_answered(asked.row):
        why = f" ({asked.row.finish})" if asked.row.finish else ""
        return Diagnosis("unanswered", why=f"it was not answered{why}")
    if not asked.row.reported:
        return Diagnosis("unreported", why="the provider reported no figures for it")
    facts, life = trail.facts(asked), trail.life(asked.row)
    if facts is None:
        first = diagnose(life, CacheFacts(0, 0, asked.row.usage.input, asked.row.usage.cache_read, None))
        return replace(first, why=_first(asked.row.manifest.step, asked.row.usage.cache_read) or first.why)
    verdict = diagnose(life, facts)
    return diagnose(life, trail.compared(asked, facts)) if verdict.missed else verdict


def _first(step: int, read: int) -> str:
    """Why a request has none before it to be compared with; "" where the verdict says it."""
    if step > 1:
        return "no request before it brought figures"
    return ELSEWHERE if read else ""


def _details(trail: Trail, asked: Asked) -> Value:
    """What stands behind a verdict: the request before, the first difference, time and what is known of the cache."""
    found, facts, life = trail.difference(asked), trail.facts(asked), trail.life(asked.row)
    # What was compacted or cut right after a switch began one more epoch: the model is another one by the switch.
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
        "cache": _known(life),
    }


def _known(life: CacheLife | None) -> Value | None:
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
    """The price of every rewrite of the session's own, as it was recorded when it was made."""
    found = ledger.log(session).memos("rewrite", own=True)
    return [{"at": memo.at, **memo.value} for memo in found]
