"""`/cache`, `/cost`, `nexus usage`: use of the provider's cache, causes of misses, tokens and dollars."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nexus_cli.provider.model_table import price_command
from nexus_cli.reports.text.lines import Value, aligns, block, dollars, filled, number, plural, share, when
from nexus_cli.reports.text.look import PLAIN, ReportStyle, plot

HEADING = ("request", "input", "expected", "cached", "written", "missed", "cost", "why")
LEAVES = ("written", "expected", "input")
"""Columns to leave out, in this order, if the width is too small."""
FOR = {
    "compact": "for summaries",
    "pre_compaction": "for facts before a summary",
    "reflection": "for reflections",
    "goal_decompose": "for goals",
    "title": "for the title",
}
"""Purposes of lanes beside the conversation, by agent; other lanes have the agent's name."""
FIGURES = ("requests", "input", "cached", "output", "cost")
BARS = 60
"""Columns of the widest plot."""
BAR, WITH_BARS = 20, 80
"""Cells of a day's bar, and the least width for it."""
DAYS, PROJECTS = 30, 20
"""Most days and projects that are listed."""


def cache_text(value: Value, width: int) -> str:
    """Return a row per request of the conversation, a line for those beside it, and the cost of the misses."""
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
        lines += ["", *filled("`nexus cache why N` explains request N; in a session /cache why N.", width)]
    return "\n".join(lines)


def miss_text(value: Value, width: int) -> str:
    """Describe one request: its cached part, the missed part, and the cause."""
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
        lines += filled(f"Nothing differs from {before}: it continues where that one ended.", width)
    return "\n".join(lines)


def _blame(value: Value) -> str:
    if not value["missed"]:
        return f"No miss{': ' + value['why'] if value['why'] else ''}."
    whose = {True: "Ours", False: "Not ours"}.get(value["ours"], "Unknown")
    cost = f" for {dollars(value['cost_usd'])}" if value["cost_usd"] is not None else ""
    return f"{number(value['missed'])} tokens missed the cache{cost}. {whose}: {value['why']}."


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
    """Return the table of some requests without the columns that do not fit into `width`; all columns if no table
    fits."""
    made = every = [HEADING, *map(_row, rows)]
    for name in ("", *LEAVES):
        place = made[0].index(name) if name else len(HEADING)
        made = [(*row[:place], *row[place + 1 :]) for row in made]
        if aligns(made, width):
            return made
    return [HEADING, *((f"request {row[0]}", *row[1:]) for row in every[1:])]


def _beside(rows: Sequence[Value], width: int) -> list[str]:
    """Sum up the requests beside the conversation: one line for each purpose."""
    lines: list[str] = []
    for lane in dict.fromkeys(row["lane"] for row in rows):
        these = [row for row in rows if row["lane"] == lane]
        told = [row for row in these if row["read"] is not None]
        total, read = sum(row["input"] for row in told), sum(row["read"] for row in told)
        cached = f", {share(read, total)} of them cached" if total else ""
        text = f"{plural(len(these), 'request')} {FOR.get(lane, f'of {lane}')}: {number(total)} tokens in{cached}"
        missed = sum(row["missed"] for row in these)
        lines += filled(text + (f", {number(missed)} missed" if missed else ""), width, "    ", "  ")
    return ["", "in addition:", *lines] if lines else []


def _row(row: Value) -> tuple[str, ...]:
    cost = dollars(row["cost_usd"]) if row["missed"] else "-"
    missed = number(row["missed"]) if row["missed"] else "-"
    whose = "ours: " if row["ours"] else ""
    return (
        str(row["step"]),
        number(row["input"]),
        number(row["expected"]),
        share(row["read"], row["input"]),
        number(row["written"]),
        missed,
        cost,
        whose + str(row["why"]),
    )


def _rewrite(one: Value) -> tuple[str, ...]:
    pays = "" if one["pays"] else " (not for its price)"
    return number(one["cold"]), number(one["saved"]), dollars(one["cost"]), f"{one['cause']}: {one['why']}{pays}"


def cost_text(value: Value, width: int, look: ReportStyle = PLAIN) -> str:
    """Show the usage of the session so far, with a plot of its requests."""
    total = value["total"]
    if not total["requests"]:
        return "\n".join(filled("This session has sent no request yet.", width))
    lines = filled(_used(total, _sent(total)), width)
    lines += _plot_requests(value.get("series", []), width, look)
    lines += block("by model", _rows("model", value["models"]), width)
    if len(value["kinds"]) > 1:
        lines += block("by kind", _rows("kind", value["kinds"]), width)
    turns = [{**turn, "turn": f"{turn['turn']}. {turn['text']}"} for turn in value["turns"]]
    lines += block(f"the last {len(turns)} turns" if len(turns) > 1 else "the turn", _rows("turn", turns), width)
    lines += _price_hint([row["name"] for row in value["models"] if row["unpriced"]], width)
    if total.get("estimated"):
        note = f"{number(total['estimated'])} of the requests reported no usage: theirs is estimated."
        lines += ["", *filled(note, width)]
    return "\n".join(lines)


def usage_text(value: Value, width: int) -> str:
    """Show the usage of all sessions by day, model and project."""
    total, since = value["total"], str(value.get("since") or "")
    if not total["requests"]:
        return "\n".join(filled("No session has sent a request" + (" since then." if since else " yet."), width))
    requests = f"{_sent(total)} of {plural(int(total['sessions']), 'session')}"
    lines = filled(_used(total, requests), width)
    days = value["days"]
    shown = days if since else days[-DAYS:]
    lines += block("by day", _rows("day", _with_bars(shown) if width >= WITH_BARS and len(shown) > 1 else shown), width)
    if len(days) > len(shown):
        earlier = plural(len(days) - len(shown), "earlier day")
        lines += filled(f"{earlier} not listed: --since {days[0]['day']} lists all", width, "  ")
    lines += block("by model", _rows("model", value["models"]), width)
    projects = value["projects"][:PROJECTS]
    lines += block("by project", _rows("project", projects), width)
    if hidden := len(value["projects"]) - len(projects):
        lines += filled(f"{plural(hidden, 'project')} with less not listed: --json has all", width, "  ")
    lines += _price_hint([row["model"] for row in value["models"] if row["unpriced"]], width)
    return "\n".join(lines)


def _used(total: Value, requests: str) -> str:
    cost = _cost(total)
    cached = f" ({share(total['cache_read'], total['input'])} cached)" if total["input"] else ""
    text = f"{requests}: {number(total['input'])} tokens in{cached}, {number(total['output'])} out"
    return f"{cost} for {text}" if cost else text


def _cost(row: Value) -> str:
    """Format the known part of a cost: `$0.0070`, `$0.0070+` if another part has no known price, "" if none has."""
    if not row["unpriced"]:
        return dollars(row["cost_usd"])
    return f"{dollars(row['known_usd'])}+" if row["known_usd"] else ""


def _plot_requests(series: Sequence[Value], width: int, look: ReportStyle) -> list[str]:
    """Draw the cost of each request as a bar, or its tokens if a price is unknown; [] for fewer than two."""
    if len(series) < 2:
        return []
    costs = [one["cost_usd"] for one in series]
    priced = None not in costs and any(costs)
    bars, per_bar = plot(costs if priced else [one["tokens"] for one in series], max(1, min(BARS, width - 2)), look)
    most = max(costs) if priced else max(one["tokens"] for one in series)
    figure = f"{dollars(most)} at most" if priced else f"{number(most)} at most"
    title = f"{'dollars' if priced else 'tokens'} of each request, {figure}"
    title += f"; a bar is {per_bar} requests" if per_bar > 1 else ""
    return ["", *filled(f"{title}:", width), *(f"  {bar}" for bar in bars)]


def _with_bars(days: Sequence[Value]) -> list[Value]:
    """Append a bar to each day: its share of the most expensive day, or of the one with the most tokens."""
    key = "known_usd" if any(day["known_usd"] for day in days) else "input"
    most = max(day[key] for day in days) or 1
    return [{**day, "day": f"{day['day']}  {'#' * math.ceil(BAR * day[key] / most)}"} for day in days]


def _price_hint(models: Sequence[str], width: int) -> list[str]:
    """Return the way to set the price of models without a known one; the command is on its own line."""
    if not models:
        return []
    others = f" (and of {plural(len(models) - 1, 'other model')})" if len(models) > 1 else ""
    text = f"The price of {models[0]}{others} is unknown; to set it (and output_price likewise):"
    return ["", *filled(text, width), *filled(price_command(models[0]), width, "  ")]


def _rows(name: str, rows: Sequence[Value]) -> list[tuple[str, ...]]:
    """Return the table of some sums with its heading, without the column of costs if none is known."""
    table = [(*FIGURES, name), *((*_figures(row), str(row.get(name, row.get("name")))) for row in rows)]
    if any(map(_cost, rows)):
        return table
    place = FIGURES.index("cost")
    return [(*row[:place], *row[place + 1 :]) for row in table]


def _figures(row: Value) -> tuple[str, ...]:
    cached = share(row["cache_read"], row["input"])
    return number(row["requests"]), number(row["input"]), cached, number(row["output"]), _cost(row) or "-"
