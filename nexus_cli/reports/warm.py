"""Text of the warm start of one-shots."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, filled, number, plural


def warm_line(value: Value) -> str:
    """Describe the warm start of one-shots in one line."""
    if not value["running"]:
        return "not running; the next nexus ask starts it" if value["minutes"] else "off"
    size = f", {number(round(value['memory'] / 1e6))} MB" if value["memory"] else ""
    calls = plural(value["calls"], "call")
    return f"process {value['pid']}{size}, {calls}; ends after {value['minutes']:g} idle minutes"


def warm_text(value: Value, width: int) -> str:
    """Describe the warm start as a report of its own."""
    return "\n".join(filled(f"Warm start: {warm_line(value)}", width))
