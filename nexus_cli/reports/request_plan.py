"""Text of the plan of a request before it is sent (`nexus ask --explain-context`)."""

from __future__ import annotations

from collections.abc import Iterable

from nexus_cli.reports.text.lines import (
    Value,
    limit,
    name_basis,
    name_cause,
    number,
    plural,
    share,
)

LAYERS = ("system", "tools", "history", "event")


def plan_lines(plan: Value, drops: Iterable[Value]) -> list[str]:
    """List the plan of a request: budget, each section with its form and reason, drops, limits."""
    sections = plan.get("sections", [])
    lines = [brief(plan)]
    lines += [_section(one) for one in sections]
    left = [f"left out: {d['id']} {d['what']}, {number(d['tokens'])} tokens ({name_cause(d['cause'])})" for d in drops]
    lines += left or ["left out: nothing"]
    limits = plan.get("limits") or {}
    named = "; ".join(f"{name} {limit(value, name)}" for name, value in limits.items())
    return [*lines, f"limits: {named or 'none'}"]


def brief(plan: Value) -> str:
    """Describe a request in one line."""
    budget = plan["budget"]
    used, available = int(budget["used"]["total"]), max(1, int(budget["available"]))
    layers = ", ".join(f"{layer} {number(budget['used'][layer])}" for layer in LAYERS)
    entries = plural(int(plan.get("entries", 0)), "entry", "entries")
    return (
        f"request {plan.get('step', '')}: {number(used)} of {number(available)} tokens "
        f"({share(used, available)}: {layers}), {entries}, {name_basis(plan['basis'])}"
    )


def told_lines(plan: Value) -> list[str]:
    """List the event sections of this request."""
    return [_section(one) for one in plan.get("sections", []) if one["layer"] == "event"]


def _section(one: Value) -> str:
    whole = "what was read" if one.get("unread_bytes") else "the whole"
    drop = f" ({whole} is {one['drop']})" if one.get("drop") else ""
    return f"{one['layer']} {one['id']}: {one.get('reason') or one['form']}{drop}"
