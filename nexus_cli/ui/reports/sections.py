"""The sections of a request as rows: form, score, a bar within their layer, where they come from; and why so."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, block, filled, number

BAR = 10
"""Cells of a section's bar: its share of its layer."""
ROOM = 90
"""Columns from which on there is room for bars."""
LETTERS = {"system": "S", "history": "H", "event": "E"}


def section_rows(value: Value, width: int) -> list[str]:
    """Return every section, what of the layer is in none, what was told last where nothing is pending, and the
    reasons."""
    sections, told = value.get("sections", []), value.get("told", [])
    fixed = [one for one in sections if one["layer"] == "system"]
    rows = [_row(one, _layer(value, one), width) for one in fixed]
    if rest := int(value.get("joins", {}).get("system", 0)):
        rows.append(_blank("(no section)", number(rest), width))
    rows += [_row(one, _layer(value, one), width) for one in sections if one["layer"] != "system"]
    lines = block("sections", [_heading(width), *rows], width)
    if rows and (plan := value.get("section_budget")):
        raised = "; raised for the shortest forms of sticky ones" if plan.get("raised") else ""
        part = f"{number(plan['used'])} of {number(plan['tokens'])} tokens"
        text = f"{part} of the section budget by our own count{raised}"
        lines += filled(text, width, "  ")
    last = [_row(one, sum(int(each["tokens"]) for each in told), width) for one in told]
    return lines + block("told last", [_heading(width), *last], width) + _reasons([*sections, *told], width)


def _reasons(sections: list[Value], width: int) -> list[str]:
    """Return why what is not whole is not, and where the whole is."""
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
    """Return tokens of the section's layer."""
    return int(value["budget"]["used"].get(str(section["layer"]), 0))


def _row(section: Value, layer: int, width: int) -> tuple[str, ...]:
    full, tokens = section.get("full_tokens"), int(section["tokens"])
    size = number(tokens)
    if full is not None and full != tokens:
        size += f" of {number(full)}"
    cells = min(BAR, round(BAR * tokens / max(1, layer)) or (1 if tokens else 0))
    bar = ("#" * cells + "." * (BAR - cells),) if width >= ROOM else ()
    form = "off" if section.get("off") else str(section["form"])
    source = ("sticky, " if section.get("sticky") else "") + str(section.get("source") or "")
    letter = LETTERS.get(str(section["layer"]), "")
    return str(section["id"]), letter, size, *bar, form, _score(section), source


def _score(section: Value) -> str:
    score, multiplier = section.get("score"), section.get("multiplier", 1.0)
    return "-" if score is None else f"{score:g}" + ("" if multiplier == 1.0 else f" (x{multiplier:g})")
