"""The style of a report on a terminal: colours by role, and the characters of bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PLOT_ROWS = 3


@dataclass(frozen=True, slots=True)
class ReportStyle:
    """Colours and characters of a terminal; by default plain ASCII."""

    paint: Callable[[str, str], str] = lambda role, text: text
    """Returns a sanitized text in the colours of a role."""
    levels: str = " .:#"
    """A cell of a plot, from empty to full."""
    shades: str = "#+-."
    """Cells of a bar of four parts; the last one means free."""
    below: str = "^"
    """Marks a cell of the bar above it."""


PLAIN = ReportStyle()


def plot(values: Sequence[float], width: int, look: ReportStyle) -> tuple[list[str], int]:
    """Draw `values` as bars of `PLOT_ROWS` rows in at most `width` columns; return the rows and the number of values
    per bar."""
    per_bar = math.ceil(len(values) / max(1, width)) or 1
    sums = [sum(values[start : start + per_bar]) for start in range(0, len(values), per_bar)]
    steps = len(look.levels) - 1
    highest = max(sums, default=0) or 1
    heights = [max(round(value / highest * PLOT_ROWS * steps), int(value > 0)) for value in sums]
    rows = range(PLOT_ROWS - 1, -1, -1)
    lines = ["".join(look.levels[min(steps, max(0, size - row * steps))] for size in heights).rstrip() for row in rows]
    return [look.paint("accent", line) for line in lines], per_bar
