"""`/goal` and `/reflect`: the goals with their steps; what a look back gave."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled


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
    """What the model said."""
    lines = [line for text in value["text"].splitlines() for line in filled(text, width)]
    return "\n".join(lines or ["(no answer)"])


def _line(one: Value, indent: str, width: int) -> list[str]:
    mark = "x" if one["done"] else " "
    return filled(f"{one['id']} {one['text']}", width, f"{indent}    ", f"{indent}[{mark}] ")
