"""The goals of the session and their open steps: a section for each of the
newest goals, and one for all the others."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.elide import Count, one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

GOALS = 8
"""Most open goals with their own section, the newest ones."""
MAX_DONE = 2
"""Most reached goals with their own section, the newest ones, so that the model does not continue them."""
STEPS, FEW_STEPS = 6, 1
LONGEST = 160
"""Most characters of a goal or a step that are sent."""
WHOLE_HINT = f' [whole: recall("{DROP}")]'
"""Appended to a shortened text."""


def read(sources: Sources) -> Value:
    """Return one record per goal: `id`, `text`, `done`, `steps` (texts of the open ones), `of` (number of all
    steps)."""
    goals = sources.goals()
    children = {goal.id: [step for step in goals if step.parent == goal.id] for goal in goals if not goal.parent}
    return [
        {
            "id": one_line(goal.id),
            "text": _plain(goal.text),
            "done": goal.done,
            "steps": [_plain(step.text) for step in children[goal.id] if not step.done],
            "of": len(children[goal.id]),
        }
        for goal in goals
        if not goal.parent
    ]


def render(value: Value, view: View) -> Sections:
    """Render `Goal g1: TEXT; open: STEP; STEP (2 of 4)`, in its short form only with the next step; and the number of
    other goals."""
    open_ones = [goal for goal in value if not goal["done"]][-GOALS:]
    reached = [goal for goal in value if goal["done"]][-MAX_DONE:]
    listed = [goal for goal in value if goal in open_ones or goal in reached]
    unlisted = [goal for goal in value if goal not in listed]
    sections = [_section(goal["id"], slot, *_forms(goal, view.count)) for slot, goal in enumerate(listed)]
    return (*sections, *([_section("more", len(listed), _list_other_goals(unlisted), 1)] if unlisted else []))


def _section(name: str, slot: int, forms: tuple[str, ...], least: int) -> Section:
    order, source = Phase.TASK + slot, "goals of the session"
    return Section(f"task.{name}", order, forms, Layer.EVENT, priority=80, source=source, least=least)


def _forms(goal: Value, count: Count) -> tuple[tuple[str, ...], int]:
    """Return the forms of one goal, and the index of the fullest one that may be sent: a text longer than a line is
    shortened."""
    if goal["done"]:
        return (_line(goal),), 0
    full, capped, few = _line(goal), _line(goal, LONGEST, STEPS), _line(goal, LONGEST, FEW_STEPS)
    short = few + WHOLE_HINT if few != full else few
    if capped == full:
        return shrink_forms((full, short), count), 0
    return (full, *shrink_forms((capped + WHOLE_HINT, short), count)), 1


def _list_other_goals(unlisted: Sequence[Value]) -> tuple[str, ...]:
    """List all goals without their own section, and their number."""
    still = sum(1 for goal in unlisted if not goal["done"])
    pointer = f'[{plural(len(unlisted), "older goal")}, {still} of them open: recall("{DROP}")]'
    return "\n".join(map(_line, unlisted)), pointer


def _line(goal: Value, longest: int | None = None, most: int | None = None) -> str:
    if goal["done"]:
        return f"Goal {goal['id']}: done"
    head, steps = f"Goal {goal['id']}: {_short(goal['text'], longest)}", goal["steps"]
    open_steps = "; ".join(_short(step, longest) for step in steps[:most])
    return head + (f"; open: {open_steps} ({len(steps)} of {goal['of']} steps)" if steps else "")


def _plain(text: str) -> str:
    return " ".join(one_line(text).split())


def _short(line: str, longest: int | None) -> str:
    return line if longest is None or len(line) <= longest else line[:longest] + "..."


CONTRIBUTORS = (Contributor("task", Layer.EVENT, read, render),)
