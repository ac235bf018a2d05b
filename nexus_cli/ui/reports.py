"""The one text form of each report: a JSON value in, lines for people out, at a width in columns.

What stands in the values is decided in `nexus_cli.session.reports`; the text passes the door where it is printed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

Value = Mapping[str, Any]
ENOUGH = 16
"""Characters that the last column of a table needs to say something."""


def number(value: Any) -> str:
    """A number with thousands separated, `-` when it is unknown."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def one_line(text: Any, room: int) -> str:
    """`text` on one line of at most `room` characters."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= room else line[: max(0, room - 1)] + "…"


def table(rows: Sequence[Sequence[str]], width: int, *, right: Sequence[int] = ()) -> list[str]:
    """`rows` (the first is the heading) as aligned lines; the last column takes what is left of `width`.

    Where too little is left for it each row becomes a paragraph instead: its first cell, then the others by name.
    """
    if not rows:
        return []
    columns = list(zip(*rows, strict=True))
    sizes = [max(len(cell) for cell in column) for column in columns[:-1]]
    room = width - sum(sizes) - 2 * len(sizes)
    if room < min(ENOUGH, max(map(len, columns[-1]))):
        return [line for row in rows[1:] for line in _paragraph(rows[0], row, width)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(size) if index in right else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(row, sizes, strict=False))
        ]
        lines.append("  ".join([*cells, one_line(row[-1], room)]).rstrip())
    return lines


def _paragraph(names: Sequence[str], cells: Sequence[str], width: int) -> list[str]:
    named = [f"{name} {one_line(cell, 2 * width)}".strip() for name, cell in zip(names, cells, strict=True)]
    first = 0 if names[0] else 1
    head = " ".join(filter(None, cells[: first + 1]))
    lines = textwrap.wrap(head, width, subsequent_indent="    ", break_on_hyphens=False)
    return [*lines, *_filled(", ".join(filter(None, named[first + 1 :])), width, "    ")]


def _filled(text: str, width: int, indent: str = "") -> list[str]:
    """`text` in lines of at most `width`."""
    wide = max(width, len(indent) + 10)
    return textwrap.wrap(text, wide, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _when(at: Any) -> str:
    return str(at or "")[:16].replace("T", " ")


def sessions_text(value: Value, width: int) -> str:
    """`nexus sessions list`."""
    sessions = value.get("sessions", [])
    if not sessions:
        text = "No sessions here yet. `nexus sessions list --all` shows those of other folders."
        return "\n".join(_filled(text, width))
    rows = [("id", "updated (UTC)", "turns", "what")]
    for s in sessions:
        what = s.get("name") or s.get("first_text") or ""
        rows.append((str(s["id"]), _when(s.get("updated")), number(s.get("turns")), what))
    return "\n".join(table(rows, width, right=(2,)))


def session_text(value: Value, width: int) -> str:
    """`nexus sessions show`: the head of the session, then what happened."""
    known = ("id", "name", "folder", "model", "recipe", "created", "updated", "turns", "parent", "cost_usd")
    lines = [one_line(f"{key:<8}  {value[key]}", width) for key in known if value.get(key) not in (None, "")]
    for entry in value.get("entries", []):
        lines += ["", f"[{entry.get('id')}] {_when(entry.get('at'))} {entry.get('actor', '')}"]
        text = str(entry.get("text") or "").rstrip("\n")
        for line in text.splitlines():
            lines += textwrap.wrap(line, max(20, width), replace_whitespace=False, drop_whitespace=False) or [""]
        for call in entry.get("calls", []):
            lines.append(one_line(f"-> {call.get('name')} {call.get('arguments', '')}", width))
    return "\n".join(lines)


def drops_text(value: Value, width: int) -> str:
    """`nexus drops`."""
    drops = value.get("drops", [])
    if not drops:
        return "Nothing was left out."
    rows = [("id", "tokens", "cause", "asked for", "what")]
    for d in drops:
        recalls = int(d.get("recalls") or 0)
        rows.append(
            (str(d["id"]), number(d.get("tokens")), str(d.get("cause")), f"{recalls} x" if recalls else "-", d["what"])
        )
    lines = table(rows, width, right=(1,))
    beyond = sum(int(d.get("uncounted") or 0) for d in drops)
    if beyond:
        lines += _filled(f"{beyond:,} bytes beyond the hard limits were counted, not kept.", width)
    return "\n".join([*lines, "", f"`nexus drops show {drops[0]['id']}` prints one."])


def context_text(value: Value, width: int) -> str:
    """`nexus context`: the budget with a bar per layer, sections, tools, drops and limits."""
    budget = value["budget"]
    used = budget["used"]
    available = max(1, int(budget["available"]))
    state = "next request" if value.get("pending") else "sent request"
    lines = [
        f"session {value.get('session') or '(new)'}  model {value.get('model') or '(none)'}  "
        f"recipe {value.get('recipe')}  epoch {value.get('epoch')}  {state}",
        f"{number(used['total'])} of {number(budget['available'])} tokens used ({used['total'] / available:.1%}), "
        f"pressure {budget.get('pressure')}, counted by {value.get('basis')}",
    ]
    bar = max(10, min(40, width - 32))
    for layer in ("system", "tools", "history", "event"):
        tokens = int(used.get(layer, 0))
        full = min(bar, round(bar * tokens / available) or (1 if tokens else 0))
        lines.append(f"  {layer:<8} {number(tokens):>10}  {'#' * full}{'.' * (bar - full)}")
    lines += _block("sections", [("id", "layer", "tokens", "form", "source"), *map(_section, value["sections"])], width)
    tools = value.get("tools", [])
    lines += _block("tools", [("name", "tokens", ""), *((t["name"], number(t["tokens"]), "") for t in tools)], width)
    drops = value.get("drops", [])
    rows = [(str(d["id"]), number(d["tokens"]), str(d["cause"]), str(d["what"])) for d in drops]
    lines += _block("left out", [("id", "tokens", "cause", "what"), *rows], width)
    limits = value.get("limits", [])
    bounds = [(str(b["name"]), _bound(b["value"]), str(b["bound_by"])) for b in limits]
    lines += _block("limits", [("name", "value", "set by"), *bounds], width)
    history = value.get("history")
    if history:
        text = (
            f"history: {number(history['entries'])} entries in {number(history['groups'])} groups, "
            f"{number(history.get('hidden_entries', 0))} hidden"
        )
        lines += ["", *_filled(text, width)]
    notices = [line for notice in value.get("notices", []) for line in _filled(f"note: {notice}", width)]
    return "\n".join([*(part for line in lines[:2] for part in _filled(line, width)), *lines[2:], *notices])


def _bound(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _section(section: Value) -> tuple[str, ...]:
    sticky = " sticky" if section.get("sticky") else ""
    full = section.get("full_tokens")
    tokens = number(section["tokens"])
    if full is not None and full != section["tokens"]:
        tokens += f" of {number(full)}"
    return str(section["id"]), str(section["layer"]), tokens, f"{section['form']}{sticky}", str(section["source"])


def _block(title: str, rows: Sequence[Sequence[str]], width: int) -> list[str]:
    if len(rows) < 2:
        return []
    right = tuple(index for index, name in enumerate(rows[0]) if name in ("tokens", "value"))
    return ["", f"{title}:", *("  " + line for line in table(rows, width - 2, right=right))]


def replay_text(value: Value) -> str:
    """`nexus replay`."""
    if value["ok"]:
        return (
            f"{number(value['requests'])} requests of session {value['session']} rebuilt, every line is as it was sent."
        )
    return f"Session {value['session']} differs from what was sent: {value['first_difference']}"


def models_text(value: Value, width: int) -> str:
    """`nexus model list`."""
    models = value["models"]
    if not models:
        return "No model is usable yet: no key in the environment, no local server. `nexus doctor` says what to do."
    rows = [("", "model", "window", "$ in", "$ out", "cache", "because")]
    for m in models:
        mark = "*" if m["name"] == value.get("chosen") else ""
        window = number(m["window"]) if m["known"] else f"{m['window']:,}?"
        prices = (number(m["input_price"]), number(m["output_price"]), "yes" if m["cache"] else "no")
        rows.append((mark, m["name"], window, *prices, ", ".join(m["because"])))
    foot = "$ per million tokens, - is unknown. * is used when none is named."
    return "\n".join([*table(rows, width, right=(2, 3, 4)), "", *textwrap.wrap(foot, max(20, width))])


def doctor_text(value: Value, width: int) -> str:
    """`nexus doctor`."""
    signs = {"ok": "ok     ", "note": "note   ", "broken": "BROKEN "}
    lines = []
    for check in value["checks"]:
        head = f"{signs[check['status']]} {check['name']}: {check['detail']}"
        lines += _wrap(head, width, first="")
        if check["hint"]:
            lines += _wrap(check["hint"], width)
    last = "nexus can work here." if value["ok"] else "Something is broken, see above."
    if value["ok"] and not value["model"]:
        last = "nexus can work here as soon as it has a model, see above."
    return "\n".join([*lines, "", *_filled(last, width)])


def _wrap(text: str, width: int, *, first: str = " " * 8) -> list[str]:
    return textwrap.wrap(
        text,
        max(30, width),
        initial_indent=first,
        subsequent_indent=" " * 8,
        break_on_hyphens=False,
        break_long_words=False,
    )
