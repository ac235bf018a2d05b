"""`/why`: a limit and the layers that spoke of it."""

from __future__ import annotations

from typing import Any

from nexus_cli.ui.reports.lines import Value, filled, plural


def why_text(value: Value, width: int) -> str:
    """Each limit with its value and who bound it; below what each layer said."""
    limits = value["limits"]
    if not limits:
        return "\n".join(filled(f"{value['name'] or 'Nothing'} is not limited by any layer.", width))
    lines = []
    for limit in limits:
        lines += filled(f"{limit['name']} = {_value(limit['value'])}, bound by {limit['bound_by']}", width, "  ")
        for layer, said in limit["said"].items():
            lines += filled(f"{layer} said {_value(said)}", width, " " * 6, "    ")
    signals = value["signals"]
    failed = plural(signals["recent_errors"], "call")
    state = f"Pressure is {signals['token_pressure']}, {failed} in a row could not run"
    state += f", the run is {signals['event_class']}" if signals["event_class"] else ""
    bind = "tightens its limits by this" if signals["bind"] else "changes no limit for this, it is only reported"
    return "\n".join([*lines, "", *filled(f"{state}. The recipe {value['recipe']} {bind}.", width)])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
