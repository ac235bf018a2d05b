"""Text of the warm start of one-shots."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, filled, number, plural


def warm_line(value: Value) -> str:
    """Describe the warm start of one-shots in one line."""
    if not value["running"]:
        return _describe_idle(value)
    size = f", {number(round(value['memory'] / 1e6))} MB" if value["memory"] else ""
    calls = plural(value["calls"], "call")
    saved = f" that saved about {value['saved']:.1f} s" if value["calls"] else ""
    unused = f"; not used here: {value['unused']}" if value["unused"] else ""
    return f"process {value['pid']}{size}, {calls}{saved}; ends after {value['minutes']:g} idle minutes{unused}"


def _describe_idle(value: Value) -> str:
    if not value["minutes"]:
        return "off"
    if value["unused"]:
        return f"not running; not used here: {value['unused']}"
    if value["auto"]:
        return "not running; the second nexus ask from a terminal within ten minutes starts it"
    return "not running; the next nexus ask starts it"


def warm_text(value: Value, width: int) -> str:
    """Describe the warm start as a report of its own."""
    return "\n".join(filled(f"Warm start: {warm_line(value)}", width))
