"""One request in lines: its plan (`nexus ask --explain-context`), and its difference from the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexus_cli.reports.text.lines import (
    Value,
    block,
    filled,
    limit,
    name_basis,
    name_cause,
    number,
    paragraphs,
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


def between_text(value: Value, width: int) -> str:
    """List the sections, entries and tools that were added, removed or changed, and the cause of a new epoch."""
    step, before = value["step"], value.get("before")
    tokens, epoch, model = value["tokens"], value["epoch"], value["model"]
    change = int(tokens["after"]) - int(tokens["before"])
    against = f"against request {before}" if before else "the first of its session"
    head = [
        f"request {step} {against}: {number(tokens['after'])} tokens, {change:+,}",
        f"The window was rewritten: {epoch['cause']}."
        if epoch.get("cause")
        else "The window continues the one before.",
    ]
    if before and model["before"] != model["after"]:
        head.append(f"model {model['after']}, before {model['before']}")
    lines = paragraphs(head, width)
    sections, entries, tools = value["sections"], value["entries"], value["tools"]
    rows = [("+", str(one["id"]), *_seen(one)) for one in sections["added"]]
    rows += [("-", str(one["id"]), *_seen(one)) for one in sections["removed"]]
    rows += [("~", str(one["id"]), *_changed(one["before"], one["after"])) for one in sections["changed"]]
    lines += block("system sections", [("", "id", "tokens", "form"), *rows], width)
    told = [("+", str(one["id"]), *_seen(one)) for one in value.get("told", [])]
    lines += block("sent with it", [("", "id", "tokens", "form"), *told], width)
    named = [(sign, str(name), "") for sign, key in _SIGNS for name in tools[key]]
    lines += block("tools", [("", "name", ""), *named], width)
    moved = [_entry("+", one) for one in entries["added"]] + [_entry("-", one) for one in entries["removed"]]
    lines += block("entries", [("", "entry", "tokens", "form", "what"), *moved], width)
    if not (rows or told or named or moved):
        lines += ["", *filled("Nothing differs.", width)]
    return "\n".join(lines)


_SIGNS = (("+", "added"), ("-", "removed"), ("~", "changed"))


def _seen(one: Value) -> tuple[str, str]:
    return number(one["tokens"]), str(one["form"])


def _changed(before: Value, after: Value) -> tuple[str, str]:
    tokens = f"{number(before['tokens'])} to {number(after['tokens'])}"
    form = str(after["form"]) if before["form"] == after["form"] else f"{before['form']} to {after['form']}"
    return tokens, form


def _entry(sign: str, one: Value) -> Sequence[str]:
    return sign, str(one["entry"]), number(one["tokens"]), str(one["form"]), str(one["what"])
