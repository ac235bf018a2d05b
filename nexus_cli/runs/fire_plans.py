"""Queue a run for each plan that is due, exactly once. Missed times become one run or none, depending on the plan."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.clock import format_moment, utc_now
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.run import WAITING, Plan
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ledger import Ledger
from nexus_cli.runs.plan_times import MAX_COUNTED, CronTimes

TITLE = 120
"""Characters of a title made from a prompt."""
PUNCTUAL = 15 * 60.0
"""Seconds by which a run may be late and count as punctual: `nexus serve --once` may be called every few minutes."""


@dataclass(frozen=True, slots=True)
class Firing:
    """The outcome of a plan that is due."""

    facts: JsonObject | None
    """The trigger of its run; None for no run."""
    next_at: float | None


def instruction_facts(plan: Plan, moment: float) -> JsonDict:
    """Return the facts of the TRIGGER block for a run started by a plan."""
    plan_facts = {"name": plan.name or one_line(plan.prompt)[:TITLE], "id": plan.id}
    return {"type": "plan", "plan": plan_facts, "instruction": plan.prompt, "scheduledAt": format_moment(moment)}


def decide_firing(plan: Plan, now: float) -> Firing:
    """Decide on the run of a plan that is due at `now`, perhaps for several times.

    A time is missed if it is more than some minutes past, or another one came after it. With `skip` there is no run
    once the first of them is that late, not even for the last.
    """
    first = plan.next_at
    assert first is not None and first <= now, "the plan is due"
    count, latest, next_at = 1, first, None
    if plan.cron:
        times = CronTimes.of(plan.cron, plan.zone)
        (count, latest), next_at = times.count(first, now), times.next_after(now)
    count = max(count, 1)
    missed = min(count - 1 if now - latest <= PUNCTUAL else count, MAX_COUNTED)
    if plan.missed == "skip" and now - first > PUNCTUAL:
        return Firing(None, next_at)
    facts = instruction_facts(plan, latest)
    if missed and plan.missed == "once":
        facts |= {"missed": missed, "missedSince": format_moment(first)}
        at_least = "at least " * (missed == MAX_COUNTED)
        which = f"{at_least}{plural(missed, 'run')} of this plan since {facts['missedSince']}"
        note = f"[nexus: missed {which}. This run replaces all missed runs.]"
        facts["instruction"] += f"\n\n{note}"
    return Firing(facts, next_at)


def fire_due(ledger: Ledger, warn: TakeText) -> list[int]:
    """Queue the runs of plans that are due, and set each plan's next time; return the keys of the runs.

    A plan whose times are no longer valid, or whose folder is gone, is paused. `warn` gets a line about that, and about
    a plan that has no new run because its last one waits.
    """
    now, queued_at, queued = ledger.runs.now(), utc_now(), list[int]()
    for plan in ledger.plans.due(now):
        try:
            if plan.next_at is None or plan.next_at > now:
                _follow_clock(ledger, plan, now)
                continue
            firing = decide_firing(plan, now)
        except NexusError as error:  # a time zone that no longer exists
            ledger.plans.change(plan.key, paused=True)
            warn(f"{plan.id} was paused: {error.message}. Add it again with another --zone: nexus schedule add")
            continue
        runs = [] if firing.facts is None else [(f"{plan.id} {plan.next_at}", firing.facts)]
        keys = ledger.plans.fire(plan, firing.next_at, queued_at, runs)
        if runs and not keys and (waits := ledger.runs.list_runs([WAITING], 1, plan=plan.key)):
            run = waits[0].id
            warn(f"{plan.id} was not started: {run} is still waiting. To resume it: nexus runs resume {run}")
        folder = plan.options.get("folder")
        if keys and plan.cron and folder and not Path(folder).is_dir():  # the run that was just queued fails
            ledger.plans.change(plan.key, paused=True)
            warn(
                f"{plan.id} is paused: folder {folder} no longer exists. Restore the folder, then: "
                f"nexus schedule resume {plan.id}"
            )
        queued += keys
    return queued


def _follow_clock(ledger: Ledger, plan: Plan, now: float) -> None:
    """Make a plan due again after the clock was set back. A time that already had its run gets no second one."""
    next_at = CronTimes.of(plan.cron, plan.zone).next_after(now)
    if next_at is not None and (plan.next_at is None or next_at < plan.next_at):
        ledger.plans.change(plan.key, next_at=next_at)


@dataclass(frozen=True, slots=True)
class PlanProducer:
    """Fires plans for a `Runner`."""

    warn: TakeText

    async def look(self, ledger: Ledger) -> float | None:
        """Queue the runs that are due; return the next time of a plan."""
        await asyncio.to_thread(fire_due, ledger, self.warn)
        return ledger.plans.next_time()
