"""`nexus cache` and `/cache`: what each request had from the provider's cache, and why one missed it."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, block, dollars, filled, number, plural, share, when

HEADING = ("request", "input", "expected", "cached", "written", "missed", "cost", "why")


def cache_text(value: Value, width: int) -> str:
    """A row per request, and what the misses cost."""
    rows = value["requests"]
    if not rows:
        return "\n".join(filled("This session has sent no request yet.", width))
    lines = filled(_summed(value["total"]), width)
    lines += block("requests", [HEADING, *map(_row, rows)], width)
    rewrites = value.get("rewrites") or []
    if rewrites:
        heading = ("cold", "saved", "cost", "rewrite")
        lines += block("rewrites", [heading, *map(_rewrite, rewrites)], width)
    if value["total"]["misses"]:
        lines += ["", *filled("`nexus cache why STEP` tells more of one; in a session /cache why STEP.", width)]
    return "\n".join(lines)


def miss_text(value: Value, width: int) -> str:
    """One request: what it had, what it missed, and what is to blame."""
    head = f"Request {value['step']} ({when(value['at'])}, {value['model']}): "
    if value["read"] is None:
        return "\n".join(filled(f"{head}{value['why']}.", width))
    head += f"{number(value['read'])} of {number(value['input'])} tokens from the cache ({share(value['hit'], 1)})"
    lines = filled(f"{head}, {number(value['expected'])} were expected.", width)
    lines += filled(_blame(value), width)
    found = value.get("difference")
    if found:
        told = f"First difference from request {value['previous']}: {found['kind']} {found['what']}"
        told += f" ({found['source']})" if found.get("source") else ""
        lines += filled(f"{told}, by {found['by']}." if found["by"] else f"{told}.", width)
    elif value["previous"]:
        lines += filled(f"Nothing differs from request {value['previous']}: it goes on where that one ended.", width)
    return "\n".join(lines)


def _blame(value: Value) -> str:
    if not value["missed"]:
        return f"Nothing was missed{': ' + value['why'] if value['why'] else ''}."
    whose = {True: "Ours", False: "Not ours"}.get(value["ours"], "Unknown")
    cost = f" for {dollars(value['cost_usd'])}" if value["cost_usd"] is not None else ""
    return f"{number(value['missed'])} tokens were sent anew{cost}. {whose}: {value['why']}."


def _summed(total: Value) -> str:
    sent = plural(int(total["requests"]), "request")
    if total["hit"] is None:
        return f"{sent}; the provider reported no figures."
    text = f"{share(total['hit'], 1)} of the prompt tokens of {sent} were read from the cache."
    if not total["misses"]:
        return f"{text} Nothing was missed."
    cost = f"cost {dollars(total['cost_usd'])} (" if total["cost_usd"] is not None else "(price unknown; "
    unknown = f", unknown: {total['unknown']}" if total["unknown"] else ""
    missed = "1 miss" if total["misses"] == 1 else f"{number(total['misses'])} misses"
    return f"{text} {missed} {cost}ours: {total['ours']}, not ours: {total['not_ours']}{unknown})."


def _row(row: Value) -> tuple[str, ...]:
    name = str(row["step"]) if row["lane"] == "main" else f"{row['lane']} {row['step']}"
    cost = dollars(row["cost_usd"]) if row["missed"] else "-"
    missed = number(row["missed"]) if row["missed"] else "-"
    whose = "ours: " if row["ours"] else ""
    return (
        name, number(row["input"]), number(row["expected"]), share(row["read"], row["input"]),
        number(row["written"]), missed, cost, whose + str(row["why"]),
    )  # fmt: skip


def _rewrite(one: Value) -> tuple[str, ...]:
    pays = "" if one["pays"] else " (not for its price)"
    return number(one["cold"]), number(one["saved"]), dollars(one["cost"]), f"{one['cause']}: {one['why']}{pays}"
