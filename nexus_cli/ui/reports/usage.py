"""`/cache` and `/cost`: what requests read from the provider's cache, why one missed it, tokens and dollars."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.ui.reports.lines import Value, aligns, block, dollars, filled, number, plural, share, when

HEADING = ("request", "input", "expected", "cached", "written", "missed", "cost", "why")
LEAVES = ("written", "expected", "input")
"""Columns that leave in this order where the width is too small."""
FOR = {
    "compact": "for summaries",
    "pre_compaction": "for facts before a summary",
    "reflection": "of looks back",
    "goal_decompose": "for goals",
    "title": "for the title",
}
"""Purposes of lanes beside the conversation, by their agent; others have the agent's name."""
FIGURES = ("requests", "input", "cached", "output", "cost")


def cache_text(value: Value, width: int) -> str:
    """Return a row per request of the conversation, a line for those beside it, and what the misses cost."""
    rows = value["requests"]
    if not rows:
        return "\n".join(filled("This session has sent no request yet.", width))
    lines = filled(_summary(value["total"]), width)
    lines += block("requests", _fit_table([row for row in rows if row["lane"] == "main"], width - 2), width)
    lines += _beside([row for row in rows if row["lane"] != "main"], width)
    rewrites = value.get("rewrites") or []
    if rewrites:
        heading = ("cold", "saved", "cost", "rewrite")
        lines += block("rewrites", [heading, *map(_rewrite, rewrites)], width, whole=True)
    if value["total"]["misses"]:
        lines += ["", *filled("`nexus cache why N` tells all of request N; in a session /cache why N.", width)]
    return "\n".join(lines)


def miss_text(value: Value, width: int) -> str:
    """Return one request: what it had, what it missed, and what is to blame."""
    head = f"Request {value['step']} ({when(value['at'])}, {value['model']}): "
    if value["read"] is None:
        return "\n".join(filled(f"{head}{value['why']}.", width))
    head += f"{number(value['read'])} of {number(value['input'])} tokens from the cache ({share(value['hit'], 1)})"
    lines = filled(f"{head}, {number(value['expected'])} were expected.", width)
    lines += filled(_blame(value), width)
    found, before = value.get("difference"), f"request {value['previous']}"
    if value.get("previous_session"):
        before += f" of session {value['previous_session']}"
    if found:
        told = f"First difference from {before}: {found['kind']} {found['what']}"
        told += f" ({found['source']})" if found.get("source") else ""
        lines += filled(f"{told}, by {found['by']}." if found["by"] else f"{told}.", width)
    elif value["previous"]:
        lines += filled(f"Nothing differs from {before}: it goes on where that one ended.", width)
    return "\n".join(lines)


def _blame(value: Value) -> str:
    if not value["missed"]:
        return f"Nothing was missed{': ' + value['why'] if value['why'] else ''}."
    whose = {True: "Ours", False: "Not ours"}.get(value["ours"], "Unknown")
    cost = f" for {dollars(value['cost_usd'])}" if value["cost_usd"] is not None else ""
    return f"{number(value['missed'])} tokens were sent anew{cost}. {whose}: {value['why']}."


def _sent(total: Value) -> str:
    unanswered = f" ({number(total['unanswered'])} without an answer)" if total.get("unanswered") else ""
    return plural(int(total["requests"]), "request") + unanswered


def _summary(total: Value) -> str:
    sent = _sent(total)
    if total["hit"] is None:
        silent = total.get("unanswered") != total["requests"]
        return f"{sent}; the provider reported no figures." if silent else f"{sent}."
    text = f"{share(total['hit'], 1)} of the prompt tokens of {sent} were read from the cache."
    if not total["misses"]:
        return f"{text} Nothing was missed."
    cost = f"cost {dollars(total['cost_usd'])} (" if total["cost_usd"] is not None else "(price unknown; "
    unknown = f", unknown: {total['unknown']}" if total["unknown"] else ""
    missed = "1 miss" if total["misses"] == 1 else f"{number(total['misses'])} misses"
    return f"{text} {missed} {cost}ours: {total['ours']}, not ours: {total['not_ours']}{unknown})."


def _fit_table(rows: Sequence[Value], width: int) -> list[tuple[str, ...]]:
    """Return the table of some requests, without the columns for which `width` has no room; all of them where there is
    none for a table."""
    made = every = [HEADING, *map(_row, rows)]
    for name in ("", *LEAVES):
        place = made[0].index(name) if name else len(HEADING)
        made = [(*row[:place], *row[place + 1 :]) for row in made]
        if aligns(made, width):
            return made
    return [HEADING, *((f"request {row[0]}", *row[1:]) for row in every[1:])]


def _beside(rows: Sequence[Value], width: int) -> list[str]:
    """Return what was sent beside the conversation: one line for each purpose."""
    lines: list[str] = []
    for lane in dict.fromkeys(row["lane"] for row in rows):
        these = [row for row in rows if row["lane"] == lane]
        told = [row for row in these if row["read"] is not None]
        total, read = sum(row["input"] for row in told), sum(row["read"] for row in told)
        cached = f", {share(read, total)} of them cached" if total else ""
        text = f"{plural(len(these), 'request')} {FOR.get(lane, f'of {lane}')}: {number(total)} tokens in{cached}"
        missed = sum(row["missed"] for row in these)
        lines += filled(text + (f", {number(missed)} missed" if missed else ""), width, "    ", "  ")
    return ["", "beside them:", *lines] if lines else []


def _row(row: Value) -> tuple[str, ...]:
    cost = dollars(row["cost_usd"]) if row["missed"] else "-"
    missed = number(row["missed"]) if row["missed"] else "-"
    whose = "ours: " if row["ours"] else ""
    return (
        str(row["step"]), number(row["input"]), number(row["expected"]), share(row["read"], row["input"]),
        number(row["written"]), missed, cost, whose + str(row["why"]),
    )  # fmt: skip


def _rewrite(one: Value) -> tuple[str, ...]:
    pays = "" if one["pays"] else " (not for its price)"
    return number(one["cold"]), number(one["saved"]), dollars(one["cost"]), f"{one['cause']}: {one['why']}{pays}"


def cost_text(value: Value, width: int) -> str:
    """Return what the session used so far."""
    total = value["total"]
    if not total["requests"]:
        return "\n".join(filled("This session has sent no request yet.", width))
    sent = _sent(total)
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
