"""`nexus context` and `/context`: the window as bars, what the cache covers, what is largest, what was left out."""

from __future__ import annotations

from nexus_cli.ui.reports.drops import asked_again, what
from nexus_cli.ui.reports.lines import Value, block, cells, filled, limit, number, one_line, paragraphs, plural, share
from nexus_cli.ui.reports.sections import section_rows

LAYERS = (("system", "S"), ("tools", "T"), ("history", "H"), ("event", "E"))
"""Layers and their letters in the bar of the whole window."""
FREE, KEPT = ".", "="
"""What is still free, and what is kept free for the reply and for tool results."""
WIDEST = 60
"""Cells of the longest bar."""


def context_text(value: Value, width: int) -> str:
    """Return the window with a bar per layer, its largest items, sections, tools, drops and limits."""
    budget = value["budget"]
    state = "next request" if value.get("pending") else "sent request"
    used, available = int(budget["used"]["total"]), int(budget["available"])
    head = [
        f"session {value.get('session') or '(new)'}, model {value.get('model') or '(none)'}, "
        f"recipe {value.get('recipe')}, epoch {value.get('epoch')}, {state}",
        f"{number(used)} of {number(available)} tokens used ({share(used, max(1, available))}), "
        f"pressure {budget.get('pressure')}, counted by {value.get('basis')}",
    ]
    waiting = value.get("waiting") or {}
    if waiting.get("texts"):
        texts = plural(int(waiting["texts"]), "text")
        goes = "goes" if waiting["texts"] == 1 else "go"
        head.append(f"{texts} of {number(waiting['tokens'])} tokens {goes} with your next message")
    lines = [*paragraphs(head, width), "", *_window(budget, width), "", *_bars(budget, width), *_cached(value, width)]
    largest = value.get("largest", [])
    rows = [(number(item["tokens"]), _place(item), str(item["what"])) for item in largest]
    lines += block("largest items", [("tokens", "entry", "what"), *rows], width)
    lines += section_rows(value, width)
    tools = [(str(tool["name"]), number(tool["tokens"]), "") for tool in value.get("tools", [])]
    lines += block("tools", [("name", "tokens", ""), *tools], width)
    drops = value.get("drops", [])
    left = [(str(d["id"]), number(d["tokens"]), str(d["cause"]), what(d)) for d in drops]
    lines += block("left out", [("id", "tokens", "cause", "what"), *left], width)
    if drops:
        again = asked_again(int(value.get("recalled", 0)), int(value.get("left_out", len(drops))), len(drops))
        again += "; tokens by our own count"
        lines += filled(again, width, "  ")
    bounds = [(str(b["name"]), limit(b["value"]), str(b["bound_by"])) for b in value.get("limits", [])]
    lines += block("limits", [("name", "value", "set by"), *bounds], width)
    return "\n".join([*lines, *_history(value, width), *_notices(value, width)])


def _window(budget: Value, width: int) -> list[str]:
    """Return one bar of the whole window: a letter for each layer, what is free, what is kept free."""
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
    """Return a bar for each layer and for what is free, of the budget; where there is no room for bars, figures
    alone."""
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
        lines.append(line if cells(line) <= width else one_line(f"{letter} {name} {number(tokens)}", width))
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
        text = "cache: nothing of it was sent before in this epoch"
    else:
        part = f"{number(tokens)} of {number(total)} tokens ({share(tokens, total)})"
        text = f"cache: {part} were sent before, in the same words"
    return ["", *filled(text, width, "  ", "")]


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


def _notices(value: Value, width: int) -> list[str]:
    return paragraphs((f"note: {notice}" for notice in value.get("notices", [])), width)
