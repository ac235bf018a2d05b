"""Text of runs: the list, and one with its wait and its outcome."""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.core.clock import format_local_minute
from nexus_cli.reports.text.lines import Value, cut_line, dollars, filled, table

WIDEST = 60
"""Cells of a title in the list."""


def runs_text(value: Value, width: int) -> str:
    """Return a line for each run, newest first."""
    found = value["runs"]
    if not found:
        return "\n".join(
            filled("No runs: they begin with scheduled work, services, spaces, or a waiting session.", width)
        )
    rows = [("id", "state", "since", "type", "what")]
    rows += [
        (one["id"], one["state"], format_local_minute(str(one["updated"])), one["type"], _what(one)) for one in found
    ]
    return "\n".join(table(rows, width))


def _what(one: Value) -> str:
    title = cut_line(one["title"], WIDEST)
    more = f"waits: {one['waits_for']}" if one["waits_for"] else one["error"] or ""
    return f"{title}; {cut_line(more, 2 * WIDEST)}" if more else title


def run_text(value: Value, width: int) -> str:
    """Show one run after an action on it."""
    return "\n".join(line for part in _parts(value) for line in (filled(part, width) if part else [""]))


def _parts(value: Value) -> Iterator[str]:
    if value.get("done"):
        yield f"{value['id']} {value['done']}."
    yield f"{value['id']} {value['state']} · {value['type']} · {value['title']}".rstrip(" ·")
    if value["waits_for"]:
        until = f", until {format_local_minute(value['wake_at'])}" if value["wake_at"] else ""
        yield f"waits: {value['waits_for']}{until}"
    for one in value["questions"]:
        yield f"asks: {one['what']} ({one['why']})"
    for one in value["signals"]:
        yield f"{format_local_minute(one['at'])} {one['kind']}{'' if one['taken'] else ', not taken yet'}"
    facts = [f"session {value['session']}" if value["session"] else "no session yet"]
    facts += [f"resumed {value['resumes']} times" if value["resumes"] != 1 else "resumed once"]
    facts += [dollars(value["cost_usd"])] if value["cost_usd"] else []
    yield " · ".join(facts)
    if value["error"]:
        yield f"error: {value['error']}"
    if value["report"]:
        yield ""
        yield from value["report"].splitlines()
