"""Report the usage of all sessions: tokens and dollars by day, model and project."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Literal, NotRequired, TypedDict, assert_never, cast

from nexus_cli.core.clock import format_utc
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.core.usage import UsageSum, round_dollars
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.sessions import list_memos
from nexus_cli.ledger.usage_totals import UsageTotal, list_totals, names_of_sessions
from nexus_cli.provider.model_names import split_key_name, split_model_name
from nexus_cli.provider.model_table import is_covered, price_command
from nexus_cli.reports.text.blocks import Blocks, Paragraph, TitledTable, aligns
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import dollars, list_components, number, plural, share

UsageBy = Literal["project", "model", "key", "day", "recipe", "person", "agent", "plan"]
BAR, WITH_BARS, WIDE = 20, 80, 1000
"""Cells of a bar, the least width for it, and a width that only a pipe has."""
DAYS, PROJECTS = 30, 20
"""Most days and projects that are listed."""
IMPORTED_TOKENS = ("input", "output", "cache_read", "cache_write")


class UsageSumObject(JsonOf[UsageSum]):
    """The usage of several requests."""

    sessions: int


class UsageByDay(UsageSumObject):
    day: str


class UsageByModel(UsageSumObject):
    model: str


class UsageByProject(UsageSumObject):
    project: str


class UsageByName(UsageSumObject):
    """The usage grouped by `--by`."""

    name: str
    """"" for the sessions of no agent or plan."""


ImportedUsage = TypedDict(
    "ImportedUsage", {"from": str, "sessions": int, "input": int, "output": int, "cache_read": int, "cache_write": int}
)
"""What sessions of another program had used before they were imported; in no sum."""


class UsageReport(VersionedReport):
    """Tokens and cost of all sessions."""

    zone: Literal["local", "UTC"]
    since: str | None
    total: UsageSumObject
    days: list[UsageByDay]
    models: list[UsageByModel]
    projects: list[UsageByProject]
    by: NotRequired[UsageBy]
    """With `--by`: whose usage `named` has."""
    named: NotRequired[list[UsageByName]]
    imported: NotRequired[list[ImportedUsage]]
    """The programs that sessions were imported from; without `--since`."""


def usage_report(
    ledger: Ledger, since: datetime | None = None, *, local: bool = False, by: UsageBy | None = None
) -> UsageReport:
    """Return the sums of every request in the ledger since a moment; `zone` says whose days they are counted by.

    A fork counts only its own requests. A refused request counts but adds nothing. An unknown price makes a
    `cost_usd` None; `known_usd` sums the known ones. With `by` there are also sums by that, as `named`.
    """
    start = "" if since is None else format_utc(since)
    totals = list_totals(ledger.db, start, local=local)
    report: JsonDict = {
        "version": 1,
        "zone": "local" if local else "UTC",
        "since": start or None,
        "total": _sum(totals),
        **{f"{name}s": _sum_by(totals, name, attrgetter(name)) for name in ("day", "model", "project")},
    }
    if not start and (imported := _imported(ledger)):
        report["imported"] = imported
    if by is not None:
        report |= {"by": by, "named": _sum_by(totals, "name", _namer(ledger, by), in_order=by == "day")}
    return cast("UsageReport", report)


def _namer(ledger: Ledger, by: UsageBy) -> Callable[[UsageTotal], str]:
    """Return the function that names the sum to which a total belongs."""
    match by:
        case "project" | "model" | "day":
            return attrgetter(by)
        case "key":
            return lambda total: _key_of(total.model)
        case "recipe" | "person" | "agent" | "plan":
            names, nobody = names_of_sessions(ledger.db, by), "you" if by == "person" else ""
            return lambda total: names.get(total.session, nobody)
        case _:
            assert_never(by)


def _key_of(model: str) -> str:
    """Return the key that pays for a model: its provider, behind the name of the key if it has one."""
    name, plain = split_key_name(model)
    provider = split_model_name(plain)[0] or plain
    return f"{name}:{provider}" if name else provider


def _imported(ledger: Ledger) -> list[ImportedUsage]:
    """Sum up what imported sessions had used in the other programs; of a session the newest memo counts."""
    memos = dict(list_memos(ledger.db, IMPORTED_SESSION)).values()
    rows = []
    for program in dict.fromkeys(memo["from"] for memo in memos):
        used = [memo["usage"].values() for memo in memos if memo["from"] == program]
        sums = {name: sum(usage[name] for usages in used for usage in usages) for name in IMPORTED_TOKENS}
        rows.append({"from": program, "sessions": len(used), **sums})
    return cast("list[ImportedUsage]", rows)


def _sum_by(
    totals: Sequence[UsageTotal], name: str, key: Callable[[UsageTotal], str], *, in_order: bool = False
) -> Sequence[JsonObject]:
    """Return the sums by `key`, which they have as `name`, the most expensive first; days, and all sums `in_order`, in
    the order of `totals`."""
    groups = group_pairs((key(total), total) for total in totals)
    sums = [{name: group, **_sum(rows)} for group, rows in groups.items()]
    return sums if in_order or name == "day" else sorted(sums, key=lambda row: (-row["known_usd"], -row["input"]))


def _sum(totals: Sequence[UsageTotal]) -> JsonObject:
    total = sum((usage_total.total for usage_total in totals), UsageSum())
    return {"sessions": len({usage_total.session for usage_total in totals}), **to_json_value(total)}


def usage_text(value: JsonObject, width: int) -> Blocks:
    """Show the usage of all sessions by day, model and project."""
    total, since = value["total"], value["since"] or ""
    imported = (
        f"Not included: {plural(row['sessions'], 'session')} imported from {row['from']}, with"
        f" {number(row['input'])} input and {number(row['output'])} output tokens"
        for row in value.get("imported", ())
    )
    if not total["requests"]:
        none = "No session has sent a request" + (" in this period." if since else " yet.")
        yield from [none, *imported]
        return
    requests = f"{count_requests(total)} in {plural(total['sessions'], 'session')}"
    yield from usage_lines(total, requests)
    if value.get("by"):
        yield _sums_by(value, width)
        yield from imported
        return
    days = value["days"]
    shown = days if since else days[-DAYS:]
    yield usage_table("day", _with_bars(shown) if width >= WITH_BARS and len(shown) > 1 else shown)
    if len(days) > len(shown):
        earlier = plural(len(days) - len(shown), "earlier day")
        yield Paragraph(f"{earlier} not listed: --since {days[0]['day']} lists all", "  ")
    yield usage_table("model", value["models"])
    projects = value["projects"][:PROJECTS]
    yield usage_table("project", projects)
    if hidden := len(value["projects"]) - len(projects):
        yield Paragraph(f"{plural(hidden, 'project')} with less usage not listed: `nexus usage --json` lists all", "  ")
    yield from price_hint(value["models"])
    yield from imported


def _sums_by(value: JsonObject, width: int) -> TitledTable:
    """Return the sums of `--by`; in a terminal with bars, which scripts would have to cut off."""
    by = value["by"]
    rows = [{**row, by: row["name"] or f"(no {by})"} for row in value["named"]]
    table = usage_table(by, rows)
    if WITH_BARS <= width < WIDE and len(rows) > 1:
        for longest in (BAR, BAR // 2, BAR // 4):
            drawn = [{**row, "bar": bar.ljust(longest)} for row, bar in zip(rows, _bars(rows, longest), strict=True)]
            columns = {**dict(list(table.columns.items())[:-1]), "": "bar", by: by}
            if aligns(columns, drawn, width - 2):
                return TitledTable(table.title, columns, drawn)
    return table


def _with_bars(days: Sequence[JsonObject]) -> list[JsonObject]:
    """Append a bar to each day."""
    return [{**day, "day": f"{day['day']}  {bar}"} for day, bar in zip(days, _bars(days), strict=True)]


def _bars(rows: Sequence[JsonObject], longest: int = BAR) -> list[str]:
    """Return a bar for each row: its share of the most expensive one, or of the one with the most tokens."""
    key = "known_usd" if any(row["known_usd"] for row in rows) else "input"
    highest = max(row[key] for row in rows) or 1
    return ["#" * math.ceil(longest * (row[key] / highest)) for row in rows]


def count_requests(total: JsonObject) -> str:
    """Count the requests of a sum, and those without an answer."""
    unanswered = total.get("unanswered") or total.get("unfinished")
    without = f" ({number(unanswered)} without an answer)" if unanswered else ""
    return plural(total["requests"], "request") + without


def usage_lines(total: JsonObject, requests: str) -> Blocks:
    """Describe a sum in one sentence, in which `requests` says of what, and the components of its cost in another."""
    cost = format_cost(total)
    cached = f" ({share(total['cache_read'], total['input'])} cached)" if total["input"] else ""
    text = f"{requests}: {number(total['input'])} tokens in{cached}, {number(total['output'])} out"
    yield f"{cost} for {text}" if cost else text
    components = total.get("known_cost", {})
    if listed := list_components(components):
        unknown_cost = round_dollars(total["known_usd"] - sum(components.values()))
        listed += f", {dollars(unknown_cost)} unknown (recorded by an older nexus)" if unknown_cost else ""
        saved = f" The cache saved {dollars(total['saved_usd'])}." if total["saved_usd"] > 0 else ""
        yield f"By component: {listed}.{saved}"


def format_cost(row: JsonObject) -> str:
    """Format the known part of a cost: `$0.0070`, `$0.0070+` if another part has no known price, "" if none has."""
    if not row["unpriced"]:
        return dollars(row["cost_usd"])
    return f"{dollars(row['known_usd'])}+" if row["known_usd"] else ""


def price_hint(rows: Sequence[JsonObject]) -> Blocks:
    """Return the way to set the price of models whose requests have none; the command is on its own line."""
    models = [row.get("model", row.get("name")) for row in rows if row["unpriced"] > row["unfinished"]]
    covered = [name for name in models if is_covered(name)]
    models = [name for name in models if name not in covered]
    lines = ["", f"Covered by a subscription, at no cost per token: {', '.join(covered)}."] if covered else []
    if not models:
        return lines
    others = f" (and {plural(len(models) - 1, 'other model')})" if len(models) > 1 else ""
    text = f"No known price for requests to {models[0]}{others}. "
    text += "To set a price for later requests (output_price in the same way):"
    return [*lines, "", text, Paragraph(name_commands(price_command(models[0])), "  ")]


def usage_table(name: str, rows: Sequence[JsonObject], title: str = "") -> TitledTable:
    """Return the table of some sums `by` their `name`, without the column of costs if none is known."""
    columns: JsonDict = {
        "requests": "requests",
        "input": "input",
        "cached": lambda row: share(row["cache_read"], row["input"]),
        "output": "output",
    }
    if any(map(format_cost, rows)):
        columns["cost"] = lambda row: format_cost(row) or "-"
    columns[name] = lambda row: str(row.get(name, row.get("name")))
    return TitledTable(title or f"by {name}", columns, rows)
