"""`nexus context` and `nexus drops`: the window as bars, its sections, the cached part, the drops."""

from __future__ import annotations

from nexus_cli.reports.text.lines import (
    SHORT_ID,
    Value,
    block,
    cut_line,
    describe_attached,
    filled,
    folded,
    limit,
    name_basis,
    name_cause,
    number,
    paragraphs,
    plural,
    share,
    table,
)
from nexus_cli.text.cells import cells

LAYERS = (("system", "S"), ("tools", "T"), ("history", "H"), ("event", "E"))
"""Layers and their letters in the bar of the whole window."""
FREE, KEPT = ".", "="
"""Marks of free tokens, and of those reserved for the reply and for tool results."""
WIDEST = 60
"""Cells of the longest bar."""
BAR = 10
"""Cells of a section's bar: its share of its layer."""
ROOM = 90
"""Least columns for bars."""
LETTERS = {"system": "S", "history": "H", "event": "E"}
BACK = "back in the window"
"""Note for a drop whose messages are in the window again."""


def context_text(value: Value, width: int) -> str:
    """Draw the window with a bar per layer, its largest items, sections, tools, drops and limits."""
    budget = value["budget"]
    state = "next request" if value.get("pending") else "sent request"
    used, available = int(budget["used"]["total"]), int(budget["available"])
    head = [
        f"session {value.get('session') or '(new)'}, model {value.get('model') or '(none)'}, {state}",
        f"{number(used)} of {number(available)} tokens used ({share(used, max(1, available))}), "
        f"{name_basis(value.get('basis'))}",
    ]
    waiting = value.get("waiting") or {}
    if waiting.get("texts"):
        texts = plural(int(waiting["texts"]), "text")
        goes = "goes" if waiting["texts"] == 1 else "go"
        head.append(f"{texts} of {number(waiting['tokens'])} tokens {goes} with your next message")
    lines = [*paragraphs(head, width), "", *_window(budget, width), "", *_bars(budget, width), *_cached(value, width)]
    if value.get("rewrite"):
        text = f"next rewrite: {describe_rewrite(value['rewrite'])}; stale tool results may be removed earlier"
        lines += filled(text, width, "  ", "")
    largest = value.get("largest", [])
    rows = [(number(item["tokens"]), _place(item), str(item["what"])) for item in largest]
    lines += block("largest items", [("tokens", "entry", "what"), *rows], width)
    files = value.get("attachments", [])
    attached = [(number(one["entry"]), number(one["bytes"]), describe_attached(one)) for one in files]
    lines += block("attached", [("entry", "bytes", "what"), *attached], width)
    lines += section_rows(value, width)
    tools = [(str(tool["name"]), number(tool["tokens"]), "") for tool in value.get("tools", [])]
    lines += block("tools", [("name", "tokens", ""), *tools], width)
    drops = value.get("drops", [])
    left = [(str(d["id"]), number(d["tokens"]), name_cause(d["cause"]), what(d)) for d in drops]
    lines += block("left out", [("id", "tokens", "cause", "what"), *left], width)
    if drops:
        again = asked_again(int(value.get("recalled", 0)), int(value.get("left_out", len(drops))), len(drops))
        again += "; tokens are estimated"
        lines += filled(again, width, "  ")
    bounds = [(str(b["name"]), limit(b["value"], str(b["name"])), str(b["bound_by"])) for b in value.get("limits", [])]
    lines += block("limits", [("name", "value", "set by"), *bounds], width)
    notes = (f"note: {notice}" for notice in value.get("notices", []))
    return "\n".join([*lines, *_history(value, width), *paragraphs(notes, width)])


def _window(budget: Value, width: int) -> list[str]:
    """Draw one bar of the whole window: a letter for each layer, the free part, the reserved part."""
    whole = max(1, int(budget["window"]))
    size = max(10, min(WIDEST, width - 4))
    parts = [(letter, int(budget["used"].get(layer, 0))) for layer, letter in LAYERS]
    parts += [(FREE, max(0, int(budget["remaining"])))]
    parts += [(KEPT, int(budget.get("reserve_reply", 0)) + int(budget.get("reserve_tools", 0)))]
    bar, shown, sum_ = "", 0, 0
    for letter, tokens in parts:
        sum_ += tokens
        end = min(size, max(round(size * sum_ / whole), shown + bool(tokens)))
        bar += letter * (end - shown)
        shown = max(shown, end)
    return [f"  [{bar[:size]}]"]


def _bars(budget: Value, width: int) -> list[str]:
    """Draw a bar of the budget for each layer and for the free part; figures alone if there is no room for bars."""
    available = max(1, int(budget["available"]))
    rows = [(letter, layer, int(budget["used"].get(layer, 0))) for layer, letter in LAYERS]
    rows.append((FREE, "free", max(0, int(budget["remaining"]))))
    lines = []
    for letter, name, tokens in rows:
        line = f"  {letter} {name:<8}{number(tokens):>9}{share(tokens, available):>8}"
        room = min(40, width - cells(line) - 2)
        if room >= 8:
            full = min(room, round(room * tokens / available) or (1 if tokens else 0))
            line += f"  {'#' * full}{'.' * (room - full)}"
        lines.append(line if cells(line) <= width else cut_line(f"{letter} {name} {number(tokens)}", width))
    reply, tools = number(budget.get("reserve_reply", 0)), number(budget.get("reserve_tools", 0))
    kept = f"{KEPT} kept free: {reply} for the reply, {tools} for tool results; window {number(budget['window'])}"
    return [*lines, *filled(kept, width, "    ", "  ")]


def _cached(value: Value, width: int) -> list[str]:
    cached = value.get("cached")
    if not cached:
        return []
    total = int(value["budget"]["used"]["total"])
    tokens = int(cached["tokens"])
    if not tokens:
        text = "cache: nothing was sent before"
    else:
        text = f"cached: {number(tokens)} of {number(total)} tokens ({share(tokens, total)})"
    return ["", *filled(text, width, "  ", "")]


def describe_rewrite(rewrite: Value) -> str:
    """Describe the next rewrite of the window: when and by what."""
    if rewrite["by"] == "epoch":
        return f"with your next message, which misses the cache: {rewrite['why']}"
    at = f"at {number(rewrite['at'])} tokens"
    if rewrite["by"] == "truncation":
        return f"{at} the oldest messages are left out"
    return f"{at} older messages are summarized"


def _place(item: Value) -> str:
    return "-" if item.get("entry") is None else str(item["entry"])


def _history(value: Value, width: int) -> list[str]:
    history = value.get("history")
    if not history:
        return []
    text = (
        f"history: {plural(history['entries'], 'entry', 'entries')} in {plural(history['groups'], 'group')}, "
        f"{number(history.get('hidden_entries', 0))} hidden"
    )
    return ["", *filled(text, width)]


def section_rows(value: Value, width: int) -> list[str]:
    """List every section, the rest of the layer, the event sections sent last, and the reasons for their forms."""
    sections, told = value.get("sections", []), value.get("told", [])
    fixed = [one for one in sections if one["layer"] == "system"]
    rows = [_row(one, _layer(value, one), width) for one in fixed]
    if rest := int(value.get("joins", {}).get("system", 0)):
        rows.append(_blank("(no section)", number(rest), width))
    rows += [_row(one, _layer(value, one), width) for one in sections if one["layer"] != "system"]
    lines = block("sections", [_heading(width), *rows], width)
    if rows and (plan := value.get("section_budget")):
        raised = "; raised for sections that are always sent" if plan.get("raised") else ""
        part = f"{number(plan['used'])} of {number(plan['tokens'])} tokens"
        text = f"{part} of the section budget (estimated){raised}"
        lines += filled(text, width, "  ")
    last = [_row(one, sum(int(each["tokens"]) for each in told), width) for one in told]
    return lines + block("sent last", [_heading(width), *last], width) + _reasons([*sections, *told], width)


def _reasons(sections: list[Value], width: int) -> list[str]:
    """Return the reasons that sections are not whole, and the places of the whole texts."""
    lines: list[str] = []
    for one in sections:
        why = str(one.get("reason") or "")
        beyond = one.get("unread_bytes")
        if why and (one["form"] != "full" or beyond):
            drop = f"; {'what was read' if beyond else 'the whole'} is {one['drop']}" if one.get("drop") else ""
            lines += filled(f"{one['id']}: {why}{drop}", width, "    ", "  ")
    return ["", "why:", *lines] if lines else []


def _heading(width: int) -> tuple[str, ...]:
    bar = ("share",) if width >= ROOM else ()
    return ("id", "in", "tokens", *bar, "form", "score", "from")


def _blank(name: str, tokens: str, width: int) -> tuple[str, ...]:
    bar = ("",) if width >= ROOM else ()
    return (name, "S", tokens, *bar, "", "", "")


def _layer(value: Value, section: Value) -> int:
    """Return the tokens of the section's layer."""
    return int(value["budget"]["used"].get(str(section["layer"]), 0))


def _row(section: Value, layer: int, width: int) -> tuple[str, ...]:
    full, tokens = section.get("full_tokens"), int(section["tokens"])
    size = number(tokens)
    if full is not None and full != tokens:
        size += f" of {number(full)}"
    cells = min(BAR, round(BAR * tokens / max(1, layer)) or (1 if tokens else 0))
    bar = ("#" * cells + "." * (BAR - cells),) if width >= ROOM else ()
    form = "off" if section.get("off") else str(section["form"])
    source = ("always sent, " if section.get("sticky") else "") + str(section.get("source") or "")
    letter = LETTERS.get(str(section["layer"]), "")
    return str(section["id"]), letter, size, *bar, form, _score(section), source


def _score(section: Value) -> str:
    score, multiplier = section.get("score"), section.get("multiplier", 1.0)
    return "-" if score is None else f"{score:g}" + ("" if multiplier == 1.0 else f" (x{multiplier:g})")


def drops_text(value: Value, width: int, session: str | None = None) -> str:
    """List every drop of a session, with the command that reads it.

    `session` is None inside the session. In a shell, "" means the folder's newest session; any other id must be part of
    the command.
    """
    drops = value.get("drops", [])
    if not drops:
        return "\n".join(filled("Nothing was left out.", width))
    rows = [("id", "tokens", "cause", "asked for", "what")]
    out = [d for d in drops if not d.get("back")]
    for d in drops:
        recalls = int(d.get("recalls") or 0)
        rows.append(
            (
                str(d["id"]),
                number(d.get("tokens")),
                name_cause(d.get("cause")),
                f"{recalls} x" if recalls else "-",
                what(d),
            )
        )
    lines = table(rows, width, right=(1,))
    again = sum(1 for d in out if d.get("recalls"))
    asked = asked_again(again, len(out), len(drops))
    lines += ["", *filled(f"{asked[0].upper()}{asked[1:]}. Tokens are estimated.", width)]
    beyond = sum(int(d.get("uncounted_bytes") or 0) for d in drops)
    if beyond:
        lines += filled(f"{beyond:,} bytes beyond the hard limits were counted, not kept.", width)
    first = drops[0]["id"]
    named = f" --session {session[:SHORT_ID]}" if session else ""
    shell = f"`nexus drops show {first}{named}` prints one; in a session /drops {first}."
    foot = f"/drops {first} prints one." if session is None else shell
    return "\n".join([*lines, "", *filled(foot, width)])


def asked_again(again: int, out: int, drops: int) -> str:
    """Count the drops still left out that were recalled, and those of all `drops` that are back."""
    if not out:
        return f"nothing is left out now: {'it is' if drops == 1 else f'all {drops:,} are'} {BACK}"
    return f"{again:,} of {out:,} recalled" + (f", {drops - out:,} {BACK}" if drops > out else "")


def what(drop: Value) -> str:
    """Describe a drop, or that it is back in the window."""
    return f"{BACK}: {drop['what']}" if drop.get("back") else str(drop["what"])


def drop_text(value: Value, width: int) -> str:
    """Show one drop: the range of characters, then the text."""
    start, end, total = int(value["start"]), int(value["end"]), int(value["total"])
    head = f"{value['id']}: {value['what']}"
    if value.get("tokens") is not None:
        head += f", {number(value['tokens'])} tokens ({name_cause(value.get('cause'))})"
    lines = [*filled(head, width), *filled(f"characters {start:,} to {end:,} of {total:,}", width), ""]
    lines += folded(str(value["text"]).removesuffix("\n"), width)
    if end < total:
        lines += ["", *filled(f"/drops {value['id']} {end}: shows the rest.", width)]
    return "\n".join(lines)
