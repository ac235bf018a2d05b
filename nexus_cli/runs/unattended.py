"""Limits of unattended runs: level, dollars per run and per day; and the reflection after a run."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from nexus_cli.config.settings import RunSettings
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import Outcome
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ASK, LEVELS, Limits
from nexus_cli.core.memo_kinds import RESULT
from nexus_cli.core.run import PLAIN, RUNNING, UNATTENDED, Run
from nexus_cli.ledger import Ledger
from nexus_cli.session.acts.memory import reflection
from nexus_cli.session.session import Session

UNSPENT = "left"
"""Option of a claimed run: the dollars that are left for it, whatever it has cost so far."""
NEWEST = 50
"""Most facts that are checked."""
MIN_SHARE = 0.25
"""Share of a day's dollars. A run begins only if this much, or all that it may cost, is left: else it would fail
midway."""
NEEDS = "needs"
"""Option of a run whose first request would have cost more than was left of its day: dollars to wait for."""
COLLEAGUE = "colleague"
"""Value of the option `by` of a claimed run whose options another person may have written."""
ALL_RESERVED = "the rest of today's budget is reserved for active runs"
"""Reason to hold back a run that may start when another one has ended."""


@dataclass(frozen=True, slots=True)
class UnattendedRules:
    """The rules of one person for unattended runs."""

    settings: RunSettings
    clock: Clock = local_now

    def holds_back(self, ledger: Ledger, run: Run) -> str:
        """Return the reason that a run must not start now (the dollars of the day are spent), "" if it may."""
        if not _is_bound(ledger, run):
            return ""
        for unspent, reserved, cap, whose in self._list_day_caps(ledger, run):
            cap_of_run = self._cap(run.options)
            least = max(min(cap_of_run, cap * MIN_SHARE), min(cap_of_run, cap, float(run.options.get(NEEDS) or 0.0)))
            if unspent < least:
                spent = f"{max(0.0, cap - unspent):.4g} of {cap:g} USD for {whose} have been spent today"
                return f"{spent}; the rest is not enough for {run.id}; queued runs continue tomorrow"
            if unspent - reserved < least:
                return ALL_RESERVED
        return ""

    def bind_options(self, ledger: Ledger, run: Run) -> JsonObject:
        """Return the options of a claimed run, bound by the settings and by what is left of the day's dollars."""
        if not _is_bound(ledger, run):
            return run.options
        rights, requested_level = Limits.from_json(run.options.get("limits") or {}), run.options.get("allow")
        level = min(requested_level if requested_level in LEVELS else ASK, self.settings.allow, key=LEVELS.index)
        bound = rights & Limits(allow=level, max_cost=self._cap(run.options))
        limit_values = {name: value for name, value in asdict(bound).items() if value is not None}
        return {
            **run.options,
            **limit_values,
            UNSPENT: min(unspent - reserved for unspent, reserved, _, _ in self._list_day_caps(ledger, run)),
        }

    def needs_more(self, run: Run, unspent: float) -> float:
        """Return the dollars for which a run should wait that could do nothing with the `unspent` ones; 0.0 if no day
        has more for it."""
        cap = min(self._cap(run.options), self.settings.max_cost_day, run.options.get("max_cost_day") or math.inf)
        return unspent * 1.01 if float(run.options.get(NEEDS) or 0.0) < unspent and unspent * 1.01 < cap else 0.0

    def _cap(self, options: JsonObject) -> float:
        requested_cost, most_cost = float(options.get("max_cost") or self.settings.max_cost), self.settings.max_cost
        if not 0 < requested_cost < math.inf:
            return most_cost
        return min(requested_cost, most_cost) if options.get("by") == COLLEAGUE else requested_cost

    def _list_day_caps(self, ledger: Ledger, run: Run) -> list[tuple[float, float, float, str]]:
        """Return for each cap of the day: dollars not spent, the part reserved for active runs, cap, owner."""
        midnight = format_utc(self.clock().replace(hour=0, minute=0, second=0, microsecond=0))
        running = [
            other_run for other_run in ledger.runs.list_runs([RUNNING], limit=1000) if _is_bound(ledger, other_run)
        ]
        other_runs = [other_run for other_run in running if other_run.key != run.key and ledger.runs.is_own(other_run)]
        reserved = sum(self._cap(other_run.options) for other_run in other_runs)
        cap = self.settings.max_cost_day
        caps = [(cap - ledger.runs.spent_since(midnight), reserved, cap, "unattended runs")]
        if own_cap := run.options.get("max_cost_day"):
            filters: JsonObject = {"plan": run.plan} if run.plan else {"type": run.type, "title": run.title}
            spent = ledger.runs.spent_since(midnight, **filters)
            theirs = [
                other_run
                for other_run in other_runs
                if all(getattr(other_run, name) == value for name, value in filters.items())
            ]
            caps.append(
                (
                    float(own_cap) - spent,
                    sum(self._cap(other_run.options) for other_run in theirs),
                    own_cap,
                    f'"{run.title}"',
                )
            )
        return caps


def _is_bound(ledger: Ledger, run: Run) -> bool:
    """True if the settings bind a run: an unattended one, and every run of a ledger that others write to."""
    return run.type in UNATTENDED or ledger.db.is_shared


def trust_options(ledger: Ledger, run: Run) -> JsonObject:
    """Return the options of a claimed run without those that another person may have set in a shared ledger.

    A run of this role has the options of its row, but a message starts an agent only in a folder of the shared project.
    A run without a principal, or of a `nexus` that somebody else made, has no rules, and at most the dollars of the
    settings. Raises `UsageError` for an unknown type, and for another folder.
    """
    if run.type not in (*UNATTENDED, *PLAIN):
        why = f"unknown run type {run.type[:40]!r}"
        raise UsageError(f"{run.id} is refused", why, "Upgrade nexus, or ask whoever queued it")
    if not ledger.db.is_shared:
        return run.options
    if run.principal and run.type != "space_message":
        return run.options
    project, is_own = ledger.runs.origin(run)
    if project and not _is_of_project(ledger, run.options, project):
        folder = run.options.get("folder") or os.path.expanduser("~")
        why = f"its folder {str(folder)[:200]} is not part of the shared project {project}"
        raise UsageError(f"{run.id} is refused", why, "Ask whoever queued it")
    return run.options if run.principal and is_own else {**run.options, "rules": (), "counted": {}, "by": COLLEAGUE}


def _is_of_project(ledger: Ledger, options: JsonObject, project: str) -> bool:
    """True if the folder in `options` belongs to `project`; rows from before its first use here name it by its path."""
    folder = Path(options.get("folder") or os.path.expanduser("~"))
    return project in (ledger.project_of(folder), str(project_identity(folder)))


async def look_back(session: Session, run: Run, outcome: Outcome) -> None:
    """Let the model review an unattended run that changed something and in which a call failed, paid from the rest of
    its dollars and requests.

    A run that went as expected, or remembered its lessons itself, has nothing to add. The review is a fork of the
    session: `reflection`, and `reflection_cont` after its first calls.
    """
    if not (outcome.ok and outcome.changed and _has_failures(session)) or _has_learned(session):
        return
    limits, cost = session.dispatcher.limits, outcome.usage.cost_usd
    requests = None if limits.max_steps is None else limits.max_steps - outcome.steps
    if requests is not None and requests < 1:
        return
    if limits.max_cost is not None:
        remaining = limits.max_cost - (cost or 0.0)
        if cost is None or remaining < limits.max_cost / 4:
            return
        session.dispatcher.limits = limits & Limits(max_cost=remaining)
    try:
        async for _ in session.act(reflection(lambda words: None, goes_on=True, most=requests)):
            pass
    except NexusError:
        pass  # the work itself is done


def _has_failures(session: Session) -> bool:
    """True if a call of the session failed or was refused, or a command exited with another status than 0."""
    results = session.record.memos(RESULT)
    return any(memo.value.get(name) for memo in results for name in ("error", "status", "pipe"))


def _has_learned(session: Session) -> bool:
    facts = session.ledger.facts.list_facts(limit=NEWEST)
    return any(fact.session == session.id for fact in facts)
