"""Report the goals of a session."""

from __future__ import annotations

from nexus_cli.core.entry import MemoSource
from nexus_cli.core.goals import list_goals, open_until
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession, to_json_value
from nexus_cli.core.services import Goal
from nexus_cli.reports.text.blocks import Blocks, Paragraph


class GoalObject(JsonOf[Goal]):
    """A goal."""

    steps: list[JsonOf[Goal]]


class SessionGoals(ReportOfSession):
    """The goals of a session."""

    goals: list[GoalObject]
    until: str | None
    """The command of `--until` that the session works for; null without one."""


def goals_report(source: MemoSource, session: str) -> SessionGoals:
    """Return every goal of a session, except dropped ones."""
    goals: dict[str, GoalObject] = {}
    for goal in list_goals(source):
        if goal.parent:
            goals[goal.parent]["steps"].append(to_json_value(goal))
        else:
            goals[goal.id] = GoalObject(**to_json_value(goal), steps=[])
    until = open_until(source, session).get("command")
    return {"version": 1, "session": session, "goals": [*goals.values()], "until": until}


def goals_text(value: JsonObject) -> Blocks:
    """List each goal and its steps, with a mark for done ones."""
    if not value["goals"]:
        yield "No goals. /goal TEXT sets a goal."
        return
    for goal in value["goals"]:
        yield _line(goal, "")
        yield from (_line(step, "  ") for step in goal["steps"])
    if value.get("until"):
        yield f"The --until command is `{value['until']}`. To remove it: /goal clear"


def _line(goal: JsonObject, indent: str) -> Paragraph:
    mark = "x" if goal["done"] else " "
    return Paragraph(f"{goal['id']} {goal['text']}", f"{indent}    ", f"{indent}[{mark}] ")
