"""`/goal` and `/reflect`: the goals with their steps; what a look back gave."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled

SHOWN = 5
"""Facts that are named by their ids."""


def goals_text(value: Value, width: int) -> str:
    """Each goal, and its steps below it; what is done has a mark."""
    if not value["goals"]:
        return "\n".join(filled("This session has no goal. /goal TEXT sets one.", width))
    lines = []
    for goal in value["goals"]:
        lines += _line(goal, "", width)
        for step in goal["steps"]:
            lines += _line(step, "  ", width)
    return "\n".join(lines)


def reflection_text(value: Value, width: int) -> str:
    """What the model said, and which of its lessons wait."""
    lines = [line for text in value["text"].splitlines() for line in filled(text, width)]
    lines = lines or ["(no answer)"]
    if new := value.get("waiting"):
        every = "all" if len(new) > 1 and not value.get("older") else "ID" if len(new) > 1 else new[0]
        names = ", ".join(new) if len(new) <= SHOWN else f"{new[0]} to {new[-1]}"
        lessons = "1 lesson waits" if len(new) == 1 else f"{len(new):,} lessons wait"
        lines += ["", *filled(f"{lessons} for you ({names}): /memory shows them, /memory accept {every} keeps.", width)]
    return "\n".join(lines)


def _line(one: Value, indent: str, width: int) -> list[str]:
    mark = "x" if one["done"] else " "
    return filled(f"{one['id']} {one['text']}", width, f"{indent}    ", f"{indent}[{mark}] ")
