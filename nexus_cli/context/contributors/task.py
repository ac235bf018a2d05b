"""The goals of the session and their open steps (seed E's task, seed D's goals): a section for each goal."""

from __future__ import annotations

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.section import Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line

GOALS = 8
"""Goals that are told, the newest ones."""
DONE = 2
"""Goals that were reached and are said to be, the newest ones: else the model would go on with them."""
STEPS, FEW_STEPS = 6, 1
LONGEST = 160
"""Characters of a goal or a step."""


async def read(sources: Sources) -> Value:
    """One record per goal: `id`, `text`, `done`, `steps` (texts of those that are open), `of` (number of all steps)."""
    found = sources.goals()
    children = {goal.id: [step for step in found if step.parent == goal.id] for goal in found if not goal.parent}
    return [
        {
            "id": one_line(goal.id),
            "text": _short(goal.text),
            "done": goal.done,
            "steps": [_short(step.text) for step in children[goal.id] if not step.done],
            "of": len(children[goal.id]),
        }
        for goal in found
        if not goal.parent
    ]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """`Goal g1: TEXT; open: STEP; STEP (2 of 4)`, in its short form with the next step alone."""
    open_ones = [goal for goal in value if not goal["done"]][-GOALS:]
    done = [goal for goal in value if goal["done"]][-DONE:]
    return tuple(
        Section(
            f"task.{goal['id']}",
            Phase.TASK + slot,
            _forms(goal),
            Layer.EVENT,
            priority=80,
            source="goals of the session",
        )
        for slot, goal in enumerate(goal for goal in value if goal in open_ones or goal in done)
    )


def _forms(goal: Value) -> tuple[str, ...]:
    if goal["done"]:
        return (f"Goal {goal['id']}: done",)
    head = f"Goal {goal['id']}: {goal['text']}"
    if not goal["steps"]:
        return (head,)
    full, short = (_steps(goal, most) for most in (STEPS, FEW_STEPS))
    return (head + full,) if full == short else (head + full, head + short)


def _steps(goal: Value, most: int) -> str:
    steps = goal["steps"]
    return f"; open: {'; '.join(steps[:most])} ({len(steps)} of {goal['of']} steps)"


def _short(text: str) -> str:
    line = " ".join(one_line(text).split())
    return line if len(line) <= LONGEST else line[:LONGEST] + "..."


CONTRIBUTOR = Contributor("task", Layer.EVENT, read, render)
