"""The style of a report on a terminal: colours by role, and the characters of bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportStyle:
    """Colours and characters of a terminal; by default plain ASCII."""

    paint: Callable[[str, str], str] = lambda role, text: text
    """Returns a sanitized text in the colours of a role."""
    shades: str = "#+-."
    """Cells of a bar of four parts; the last one means free."""
    below: str = "^"
    """Marks a cell of the bar above it."""


PLAIN = ReportStyle()
