"""`nexus drops` and `/drops`: what was left out of requests, and one of these whole."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, folded, number, table

BACK = "back in the window"
"""What is said of a drop whose compaction was undone."""


def drops_text(value: Value, width: int) -> str:
    """Every drop of a session."""
    drops = value.get("drops", [])
    if not drops:
        return "\n".join(filled("Nothing was left out.", width))
    rows = [("id", "tokens", "cause", "asked for", "what")]
    out = [d for d in drops if not d.get("back")]
    for d in drops:
        recalls = int(d.get("recalls") or 0)
        rows.append(
            (str(d["id"]), number(d.get("tokens")), str(d.get("cause")), f"{recalls} x" if recalls else "-", what(d))
        )
    lines = table(rows, width, right=(1,))
    again = sum(1 for d in out if d.get("recalls"))
    returned = f", {len(drops) - len(out):,} {BACK}" if len(drops) > len(out) else ""
    lines += ["", *filled(f"{again:,} of {len(out):,} asked for again{returned}.", width)]
    beyond = sum(int(d.get("uncounted_bytes") or 0) for d in drops)
    if beyond:
        lines += filled(f"{beyond:,} bytes beyond the hard limits were counted, not kept.", width)
    first = drops[0]["id"]
    foot = f"`nexus drops show {first}` prints one; in a session /drops {first}."
    return "\n".join([*lines, "", *filled(foot, width)])


def what(drop: Value) -> str:
    """What was left out; or that it is back, and what."""
    return f"{BACK}: {drop['what']}" if drop.get("back") else str(drop["what"])


def drop_text(value: Value, width: int) -> str:
    """One drop: which characters of it these are, then they."""
    start, end, total = int(value["start"]), int(value["end"]), int(value["total"])
    head = f"{value['id']}: {value['what']}"
    if value.get("tokens") is not None:
        head += f", {number(value['tokens'])} tokens ({value.get('cause')})"
    lines = [*filled(head, width), *filled(f"characters {start:,} to {end:,} of {total:,}", width), ""]
    lines += folded(str(value["text"]).removesuffix("\n"), width)
    if end < total:
        lines += ["", *filled(f"/drops {value['id']} {end}: shows what follows.", width)]
    return "\n".join(lines)
