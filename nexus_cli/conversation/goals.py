"""The goals of a session, stored as memos of kind `goal`. Forks inherit them; deleting the session deletes them.

One memo holds a goal with its steps; later memos mark them as done or dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nexus_cli.conversation.conversation import Conversation
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


def set_goal(conversation: Conversation, text: str, steps: Sequence[str]) -> Goal:
    """Record a goal with its steps. Ids are never reused."""
    number = sum(len(memo.value.get("goals", ())) for memo in conversation.memos(GOAL)) + 1
    goal = Goal(f"g{number}", text)
    goals = [{"id": goal.id, "text": text}]
    goals += [{"id": f"g{number + place}", "text": step, "parent": goal.id} for place, step in enumerate(steps, 1)]
    conversation.memo(GOAL, {"goals": goals})
    return goal


def finish_goal(conversation: Conversation, name: str) -> tuple[Goal, ...]:
    """Mark an open goal with its steps, or one step, as done; the last open step also completes its goal. Returns the
    goals and steps marked, () if none with this id is open."""
    now = list_goals(conversation)
    these = {goal.id: goal for goal in now if not goal.done and name in (goal.id, goal.parent)}
    if these and name in {goal.id for goal in now}:
        parent = next((goal for goal in now if goal.id == next(g.parent for g in now if g.id == name)), None)
        steps = [goal for goal in now if parent and goal.parent == parent.id]
        if parent and not parent.done and all(step.done or step.id in these for step in steps):
            these[parent.id] = parent
        conversation.memo(GOAL, {"done": list(these)})
    return tuple(these.values())


def drop_goal(conversation: Conversation, name: str) -> tuple[Goal, ...]:
    """Drop a goal with its steps, or one step. Returns the dropped ones, () for an unknown id."""
    these = tuple(goal for goal in list_goals(conversation) if name in (goal.id, goal.parent))
    if these:
        conversation.memo(GOAL, {"dropped": [goal.id for goal in these]})
    return these


def set_until(conversation: Conversation, session: str, command: str, goal: str = "") -> None:
    """Record the command that a session works for from now on, "" for none."""
    conversation.memo(UNTIL, {"session": session, "command": command, "goal": goal})


def open_until(source: MemoSource, session: str) -> Mapping[str, str]:
    """Return the newest memo of a command that the session works for, {} without one. A fork has memos of its source,
    but none of their work."""
    own = [memo.value for memo in source.memos(UNTIL) if memo.value["session"] == session]
    return own[-1] if own and own[-1]["command"] else {}


def end_until(conversation: Conversation, session: str) -> str:
    """Drop the goal that a session works for, and return its command, "" without one. A running round is ended by its
    own reply."""
    if until := open_until(conversation, session):
        set_until(conversation, session, "")
        drop_goal(conversation, until["goal"])
    return until.get("command", "")
