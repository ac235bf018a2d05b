"""The goals of a session and their steps, as a value."""

from __future__ import annotations

from typing import Any

from nexus_cli.session.goals import list_goals
from nexus_cli.session.session_state import SessionState


def goals_report(parts: SessionState) -> dict[str, Any]:
    """Every goal that was not dropped, with `id`, `text`, `done` and its `steps` of the same keys."""
    found = list_goals(parts.lane_state.lane.timeline)
    tops = [goal for goal in found if not goal.parent]
    return {
        "version": 1,
        "goals": [
            {
                **_one(goal.id, goal.text, goal.done),
                "steps": [_one(step.id, step.text, step.done) for step in found if step.parent == goal.id],
            }
            for goal in tops
        ],
    }


def _one(name: str, text: str, done: bool) -> dict[str, Any]:
    return {"id": name, "text": text, "done": done}
