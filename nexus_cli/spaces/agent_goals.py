"""The goals that an agent has beyond one run: set by its owner, or proposed by the agent and accepted.

They are an option of the agent (`Entity.goals`); its runs get the open goals in their block GOALS.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import NotRequired

from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonOf, VersionedReport, to_json_value
from nexus_cli.core.run import GOALS, PERSON, PRIORITY, AgentGoal, Entity, make_goal
from nexus_cli.ledger import Ledger

MAX_GOALS = 20
"""Most open goals of an agent."""
MAX_DONE = 10
"""Most goals that are kept after they are done, the newest."""
LONGEST_GOAL = 200
"""Most characters of a goal."""


class GoalsReport(VersionedReport):
    """The goals of an agent."""

    agent: JsonOf[Entity]
    done: NotRequired[str]
    """The action of the command: `added` or `finished`."""
    goals: list[AgentGoal]
    """The most important goals first, completed goals last."""


def add_goal(
    ledger: Ledger, agent: Entity, text: str, priority: int = PRIORITY, *, long_term: bool = False, by: str = PERSON
) -> Entity:
    """Add a goal of an agent and return the agent, unchanged if it has an open goal with this text; raise
    `UsageError` for an invalid one, for one too many, and if the agent is somebody else's."""
    text = " ".join(text.replace("\0", " ").split())
    if not text or len(text) > LONGEST_GOAL:
        why = f"{len(text):,} characters exceed the maximum of {LONGEST_GOAL}" if text else "the text is missing"
        raise UsageError("the goal", why, "Describe it in one sentence")

    def change(entity: Entity) -> list[AgentGoal]:
        goals = entity.goals
        is_open = [goal["text"] for goal in goals if goal["done"] is None]
        if text in is_open:
            return goals
        if len(is_open) >= MAX_GOALS:
            why = f"{agent.name} has {plural(len(is_open), 'open goal')}"
            raise UsageError(
                "the goal was not added",
                why,
                f"To close a goal: nexus space goal {shlex.quote(agent.name)} done ID",
            )
        number = max((int(goal["id"][1:]) for goal in goals), default=0) + 1
        return [*goals, make_goal(number, text, priority, long_term=long_term, by=by, at=utc_now())]

    return ledger.spaces.change_option(agent, GOALS, change, f"goals of {agent.name}")


def finish_goals(ledger: Ledger, agent: Entity, ids: Collection[str]) -> Entity:
    """Mark open goals of an agent as done and return the agent; raise `UsageError` for an unknown one."""

    def change(entity: Entity) -> list[AgentGoal]:
        goals, now = entity.goals, utc_now()
        is_open = {goal["id"] for goal in goals if goal["done"] is None}
        if unknown := sorted({*ids} - is_open):
            hint = f"To list the goals: nexus space goal {shlex.quote(agent.name)} list"
            raise UsageError(f"goal {unknown[0][:40]!r}", "there is no such open goal", hint)
        goals = [{**goal, "done": now} if goal["id"] in ids else goal for goal in goals]
        finished = sorted((goal for goal in goals if goal["done"]), key=lambda goal: int(goal["id"][1:]))
        return [goal for goal in goals if goal not in finished[:-MAX_DONE]]

    return ledger.spaces.change_option(agent, GOALS, change, f"goals of {agent.name}")


def goals_report(agent: Entity, outcome: str = "") -> GoalsReport:
    """Return the goals of an agent, and the `outcome` of a command: `added`, `finished`, "" for none."""
    report: GoalsReport = {"version": 1, "agent": to_json_value(agent), "goals": agent.goals}
    return {**report, "done": outcome} if outcome else report
