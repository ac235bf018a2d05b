"""The text form of each report: converts a JSON value to lines for people at a width in columns.

The values are made in `nexus_cli.reports`; texts are sanitized when they are printed. No line is wider than asked, from
20 columns on. The forms of `PAINTED` take a `ReportStyle` and sanitize their text; all others have no colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nexus_cli.reports.text import (
    compaction,
    context,
    context_summary,
    memory,
    permissions,
    plan,
    runs,
    schedule,
    sessions,
    spaces,
    status,
    timeline,
    transcript,
    usage,
    workers,
    worktrees,
)
from nexus_cli.reports.text.lines import Value
from nexus_cli.reports.text.look import ReportStyle
from nexus_cli.text.terminal_sanitizer import sanitize

_MODULES = (
    compaction,
    context,
    context_summary,
    memory,
    permissions,
    plan,
    runs,
    schedule,
    sessions,
    spaces,
    status,
    timeline,
    transcript,
    usage,
    workers,
    worktrees,
)
FORMS: Mapping[str, Callable[[Value, int], str]] = MappingProxyType(
    {name.removesuffix("_text"): form for one in _MODULES for name, form in vars(one).items() if name.endswith("_text")}
)
"""Every form by the name under which a command shows it: the name of its function without `_text`."""
PAINTED: Mapping[str, Callable[[Value, int, ReportStyle], str]] = MappingProxyType(
    {"context_summary": context_summary.context_summary_text, "cost": usage.cost_text}
)
"""Forms that sanitize their text and add the codes of a look."""


def draw_report(form: str, value: Value, width: int, look: ReportStyle) -> str:
    """Return a report as text that cannot harm a terminal, without a newline at its end."""
    text = PAINTED[form](value, width, look) if form in PAINTED else sanitize(FORMS[form](value, width))
    return text.rstrip("\n")
