"""`/cost`: tokens and dollars of a session, by model, by kind of request, and for the newest turns."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.ui.reports.lines import Value, block, dollars, filled, number, plural, share

FIGURES = ("requests", "input", "cached", "output", "cost")


def cost_text(value: Value, width: int) -> str:
    """Return what the session used so far."""
    total = value["total"]
    if not total["requests"]:
        return "\n".join(filled("This session has sent no request yet.", width))
    sent = plural(int(total["requests"]), "request")
    if total.get("unanswered"):
        sent += f" ({number(total['unanswered'])} without an answer)"
    text = (
        f"{dollars(total['cost_usd'])} for {sent}: {number(total['input'])} tokens in "
        f"({share(total['cache_read'], total['input'])} of them from the cache), {number(total['output'])} out"
    )
    lines = filled(text, width)
    lines += block("by model", _rows("model", value["models"]), width)
    lines += block("by kind", _rows("kind", value["kinds"]), width)
    turns = value["turns"]
    rows = [(*_figures(turn), f"{turn['turn']}. {turn['text']}") for turn in turns]
    lines += block(f"the last {len(turns)} turns" if len(turns) > 1 else "the turn", [(*FIGURES, "turn"), *rows], width)
    if total["cost_usd"] is None:
        note = "? is unknown: a price is missing. `nexus config set models.NAME.input_price ...` sets one."
        lines += ["", *filled(note, width)]
    if total.get("estimated"):
        note = f"{number(total['estimated'])} of the requests brought no figures: theirs are estimates."
        lines += ["", *filled(note, width)]
    return "\n".join(lines)


def _rows(name: str, rows: Sequence[Value]) -> list[tuple[str, ...]]:
    return [(*FIGURES, name), *((*_figures(row), str(row["name"])) for row in rows)]


def _figures(row: Value) -> tuple[str, ...]:
    cached = share(row["cache_read"], row["input"])
    return number(row["requests"]), number(row["input"]), cached, number(row["output"]), dollars(row["cost_usd"])
