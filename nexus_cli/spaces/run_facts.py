"""Read the facts of a structured run from the ledger: agent, cause, space, and its other spaces, plans and runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nexus_cli.core.elide import cut_at_word
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.memo_kinds import ACTIVE_SPACE, SPACE_HISTORY
from nexus_cli.core.memory import FactState
from nexus_cli.core.run import DONE, FAILED, QUEUED, RUNNING, WAITING, Entity, Plan, Run, Space, fold_name
from nexus_cli.core.services import RunFacts
from nexus_cli.ledger import Ledger

MOST = 40
"""Most spaces, plans and runs that are listed, of each."""
COUNTED = 1000
"""Most messages before those in SPACE HISTORY that are counted."""
EARLIER = 100
"""Most earlier runs of a plan whose lessons are sent."""
REPORT = 600
"""Most characters of the report of a plan's previous run."""
MEMBERS = 12
"""Most members of a space that are named."""


@dataclass(frozen=True, slots=True)
class LedgerRunFacts(RunFacts):
    """Implements `RunFacts` over the ledger."""

    ledger: Ledger
    run: Run

    def facts(self) -> JsonObject:
        return run_facts(self.ledger, self.run)


def run_facts(ledger: Ledger, run: Run) -> JsonObject:
    """Return the facts of `run` as plain JSON: `about` (the words of its cause), `identity`, `trigger`, `goals`,
    `space`, `spaces`, `plans` and `runs`; for a plan's run also `previous` (its last run) and `lessons` (ids of facts).

    Only reads the ledger; raises `NexusError("ledger", ...)` if that fails.
    """
    agent = None if run.entity is None else ledger.spaces.get_entity(run.entity)
    spaces = ledger.spaces.list_spaces(agent) if agent else []
    active = find_active_space(_memos(ledger, run, ACTIVE_SPACE), run, spaces)
    names = {space.key: space.name for space in spaces}
    return {
        "about": str(run.trigger.get("message") or run.trigger.get("instruction") or run.title),
        "identity": {"name": agent.name, "entityId": agent.id} if agent else {"name": "nexus"},
        "trigger": dict(run.trigger),
        "goals": [goal for goal in agent.goals if goal["done"] is None] if agent else [],
        "space": _space_facts(ledger, run, active) if active else None,
        "spaces": [_listed_space(space, agent, active) for space in spaces[:MOST]],
        "plans": [_plan_facts(plan) for plan in _plans(ledger, run, agent)[:MOST]],
        "runs": [_run_facts(ledger, other_run, run, names) for other_run in _runs(ledger, run)[:MOST]],
        **_history_facts(ledger, run),
    }


def _history_facts(ledger: Ledger, run: Run) -> JsonObject:
    """Return the findings of earlier runs of the plan of `run`: the last report, and the facts learned in them."""
    if run.plan is None:
        return {}
    earlier = [
        past_run for past_run in ledger.runs.list_runs([DONE, FAILED], EARLIER, plan=run.plan) if past_run.key < run.key
    ]
    if not earlier:
        return {}
    last, sessions = earlier[0], {past_run.session for past_run in earlier if past_run.session}
    project = ledger.project_of(Path(run.options.get("folder") or os.path.expanduser("~")))
    learned = [fact.id for fact in ledger.facts.list_facts(project, (), FactState.KEPT) if fact.session in sessions]
    report = cut_at_word(last.last_words.strip(), REPORT)
    previous = {"id": last.id, "state": last.state, "at": last.updated, "error": last.error, "report": report}
    return {"previous": previous, "lessons": learned}


def _memos(ledger: Ledger, run: Run, kind: str) -> list[Memo]:
    """Return the memos of one kind in a run's session, none if the session was deleted."""
    try:
        return ledger.log(run.session).memos(kind) if run.session else []
    except NexusError as error:
        if error.kind != "usage":
            raise
        return []


def find_active_space(entered: Sequence[Memo], run: Run | None, spaces: Sequence[Space]) -> Space | None:
    """Return the space that the agent entered last, else the trigger's; None if it is a member of neither."""
    key = entered[-1].value["space"] if entered else run.space if run else None
    return next((space for space in spaces if space.key == key), None)


def _space_facts(ledger: Ledger, run: Run, space: Space) -> JsonDict:
    facts: JsonDict = {"id": space.id, "name": space.name, "auto": space.key == run.space}
    if facts["auto"] and run.message is not None:
        key_lists = [
            memo.value["messages"] for memo in _memos(ledger, run, SPACE_HISTORY) if memo.value["space"] == space.key
        ]
        newest = max([run.message, *(key for keys in key_lists for key in keys)])
        facts["newer"] = ledger.spaces.count(space, after=newest, most=COUNTED)
    return facts


def _listed_space(space: Space, agent: Entity | None, active: Space | None) -> JsonObject:
    members = [
        {"you": True} if agent and member.key == agent.key else {"name": member.name, "type": member.kind}
        for member in space.members
    ]
    return {
        "id": space.id,
        "name": space.name,
        "active": active is not None and space.key == active.key,
        "members": members[:MEMBERS],
        "more": max(0, len(members) - MEMBERS),
    }


def _plans(ledger: Ledger, run: Run, agent: Entity | None) -> list[Plan]:
    """Return the active plans of the run's folder that are no other agent's, and those of the run and its agent."""
    folder, plans = run.options.get("folder"), [plan for plan in ledger.plans.list_plans() if plan.next_at is not None]
    return [plan for plan in plans if plan.key == run.plan or _is_own(plan, agent, folder)]


def _is_own(plan: Plan, agent: Entity | None, folder: str | None) -> bool:
    if owner := fold_name(str(plan.options.get("agent", ""))):
        return agent is not None and owner == fold_name(agent.name)
    return bool(folder) and plan.options.get("folder") == folder


def _plan_facts(plan: Plan) -> JsonObject:
    next_time = None if plan.next_at is None else datetime.fromtimestamp(plan.next_at, UTC).isoformat()
    facts = {
        "id": plan.id,
        "name": plan.name or plan.prompt[:80],
        "cron": plan.cron,
        "zone": plan.zone,
        "next": next_time,
    }
    return facts | {"paused": plan.paused, "runAfter": plan.options.get("run_after", "")}


def _runs(ledger: Ledger, run: Run) -> list[Run]:
    """Return the open runs of the same agent, or of the folder if no agent of a space works; this run first."""
    states = (QUEUED, RUNNING, WAITING)
    if run.entity is not None:
        runs = ledger.runs.list_runs(states, entity=run.entity)
    else:
        folder = run.options.get("folder")
        runs = [
            other_run
            for other_run in ledger.runs.list_runs(states)
            if folder and other_run.options.get("folder") == folder
        ]
    return [run, *(other_run for other_run in runs if other_run.key != run.key)]


def _run_facts(ledger: Ledger, run: Run, current: Run, names: Mapping[int, str]) -> JsonDict:
    facts: JsonDict = {"id": run.id, "state": run.state, "space": names.get(run.space or 0, "")}
    if run.key == current.key:
        return facts | {"this": True, "by": _starter(run)}
    return facts | {"for": _awaited(ledger, run)}


def _starter(run: Run) -> str:
    """Return the person, agent or service that started a run."""
    trigger = run.trigger
    sender, plan = trigger.get("sender"), trigger.get("plan")
    if isinstance(sender, Mapping):
        return str(sender.get("name", ""))
    if isinstance(plan, Mapping):
        return f'plan "{plan.get("name", "")}"'
    return f'service "{trigger["service"]}"' if "service" in trigger else run.type


def _awaited(ledger: Ledger, run: Run) -> str:
    """Return the event or answer that a run waits for, "" if it does not wait."""
    wait = run.waits
    if wait is None:
        return ""
    senders = wait.value.get("from", ()) if wait.kind == "reply" else ()
    return ", ".join(ledger.spaces.get_entity(key).name for key in senders) or wait.why
