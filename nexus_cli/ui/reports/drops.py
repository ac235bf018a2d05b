"""`nexus drops` and `/drops`: what was left out of requests, and one of these whole."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, folded, number, table

SHORT_ID = 13
"""Characters of a session's id that name it in a hint: its time in milliseconds and three by chance."""
BACK = "back in the window"
"""What is said of a drop whose messages stand in the window again."""


def drops_text(value: Value, width: int, session: str | None = None) -> str:
    """Return every drop of a session. It is read there, or in a shell: of the newest `session` of the folder with
    "", else of
    the one with this id, which what is advised must name."""
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
    asked = asked_again(again, len(out), len(drops))
    lines += ["", *filled(f"{asked[0].upper()}{asked[1:]}. Tokens are by our own count.", width)]
    beyond = sum(int(d.get("uncounted_bytes") or 0) for d in drops)
    if beyond:
        lines += filled(f"{beyond:,} bytes beyond the hard limits were counted, not kept.", width)
    first = drops[0]["id"]
    named = f" --session {session[:SHORT_ID]}" if session else ""
    shell = f"`nexus drops show {first}{named}` prints one; in a session /drops {first}."
    foot = f"/drops {first} prints one." if session is None else shell
    return "\n".join([*lines, "", *filled(foot, width)])


def asked_again(again: int, out: int, drops: int) -> str:
    """Return how many of those that are still left out were asked for again, and how many of all `drops` are back."""
    if not out:
        return f"nothing is left out any more: {'it is' if drops == 1 else f'all {drops:,} are'} {BACK}"
    return f"{again:,} of {out:,} asked for again" + (f", {drops - out:,} {BACK}" if drops > out else "")


def what(drop: Value) -> str:
    """Return what was left out; or that it is back, and what."""
    return f"{BACK}: {drop['what']}" if drop.get("back") else str(drop["what"])


def drop_text(value: Value, width: int) -> str:
    """Return one drop: which characters of it these are, then they."""
    start, end, total = int(value["start"]), int(value["end"]), int(value["total"])
    head = f"{value['id']}: {value['what']}"
    if value.get("tokens") is not None:
        head += f", {number(value['tokens'])} tokens ({value.get('cause')})"
    lines = [*filled(head, width), *filled(f"characters {start:,} to {end:,} of {total:,}", width), ""]
    lines += folded(str(value["text"]).removesuffix("\n"), width)
    if end < total:
        lines += ["", *filled(f"/drops {value['id']} {end}: shows what follows.", width)]
    return "\n".join(lines)
