"""Report the goals of a session."""

from __future__ import annotations

from typing import Any

from nexus_cli.conversation.goals import list_goals, open_until
from nexus_cli.reports.text.lines import Value, filled
from nexus_cli.session.session_state import SessionState


def goals_report(state: SessionState) -> dict[str, Any]:
    """Return every goal except dropped ones, with `id`, `text`, `done` and its `steps` with the same keys; `until` is
    the command that the session works for, or None."""
    timeline = state.engine.conversation
    found, until = list_goals(timeline), open_until(timeline, state.session_id)
    rows = {goal.id: {"id": goal.id, "text": goal.text, "done": goal.done} for goal in found}
    steps = {goal.id: [rows[step.id] for step in found if step.parent == goal.id] for goal in found}
    goals = [{**rows[goal.id], "steps": steps[goal.id]} for goal in found if not goal.parent]
    return {"version": 1, "goals": goals, "until": until.get("command")}


def goals_text(value: Value, width: int) -> str:
    """List each goal and its steps, with a mark for done ones."""
    if not value["goals"]:
        return "\n".join(filled("This session has no goal. /goal TEXT sets one.", width))
    lines = []
    for goal in value["goals"]:
        lines += _line(goal, "", width)
        for step in goal["steps"]:
            lines += _line(step, "  ", width)
    if value.get("until"):
        lines += filled(f"Works until `{value['until']}` exits 0. /goal clear ends that.", width)
    return "\n".join(lines)


def _line(one: Value, indent: str, width: int) -> list[str]:
    mark = "x" if one["done"] else " "
    return filled(f"{one['id']} {one['text']}", width, f"{indent}    ", f"{indent}[{mark}] ")
