"""The goals of a session, stored as memos of kind `goal`. Forks inherit them; deleting the session deletes them.

One memo holds a goal with its steps; later memos mark them as done or dropped. `session/acts/goal.py` records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nexus_cli.core.entry import MemoSource
from nexus_cli.core.memo_kinds import GOAL, UNTIL
from nexus_cli.core.services import Goal


def list_goals(source: MemoSource) -> tuple[Goal, ...]:
    """Return the goals and steps that were not dropped; each goal is followed by its steps."""
    goals: dict[str, Goal] = {}
    for memo in source.memos(GOAL):
        value = memo.value
        for goal in value.get("goals", ()):
            goals[goal["id"]] = Goal(goal["id"], goal["text"], parent=goal.get("parent", ""))
        for name in value.get("done", ()):
            if name in goals:
                goals[name] = replace(goals[name], done=True)
        for name in value.get("dropped", ()):
            goals.pop(name, None)
    tops = [goal for goal in goals.values() if goal.parent not in goals]
    return tuple(item for goal in tops for item in (goal, *(step for step in goals.values() if step.parent == goal.id)))


def open_until(source: MemoSource, session: str) -> Mapping[str, str]:
    """Return the newest memo of a command that the session works for, {} without one. A fork inherits the memos of its
    source, but does not continue that work."""
    commands = [memo.value for memo in source.memos(UNTIL) if memo.value["session"] == session]
    return commands[-1] if commands and commands[-1]["command"] else {}
