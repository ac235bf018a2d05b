"""Tokens and dollars, of one session or of all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Annotated, Literal, NotRequired, TypedDict, assert_never, cast, get_args

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.clock import format_utc
from nexus_cli.core.elide import first_words
from nexus_cli.core.errors import UsageError
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, ReportOfSession, VersionedReport, to_json_value
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.core.option import Option
from nexus_cli.core.usage import UsageSum, round_dollars
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.ledger.sessions import list_memos
from nexus_cli.ledger.usage_totals import UsageTotal, list_totals, names_of_sessions
from nexus_cli.provider.model_names import split_key_name, split_model_name
from nexus_cli.provider.model_table import is_covered, price_command
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.text.blocks import Blocks, Drawn, Paragraph, TitledTable
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import dollars, list_components, number, plural, share
from nexus_cli.reports.text.style import PLAIN, ReportStyle, plot

TURNS = 10
WORDS = 80
KINDS = {"main": "conversation", "compact": "compaction"}
"""Kinds of requests by the agent of their conversation; others are named after the agent."""
WORKERS = "workers"
"""Kind of the requests of all workers."""
BARS = 60
"""Columns of the widest plot."""


class CostTotal(JsonOf[UsageSum]):
    """The usage of all requests of a session and its workers."""

    estimated: int
    """Requests whose usage nexus estimated, because the provider reported none."""
    unanswered: int


class CostByName(JsonOf[UsageSum]):
    """The usage of one model, or of one kind of request."""

    name: str


class CostOfTurn(JsonOf[UsageSum]):
    """The usage of one turn."""

    turn: int
    at: str
    text: str
    """The beginning of its message."""


class RequestCost(TypedDict):
    """The usage of one request."""

    at: str
    tokens: int
    cost_usd: float | None


class CostReport(ReportOfSession):
    """With `--session` and no other option: tokens and cost of one session."""

    total: CostTotal
    models: list[CostByName]
    kinds: list[CostByName]
    turns: list[CostOfTurn]
    """The newest turns that sent a request, oldest first; of a fork only its own."""
    series: list[RequestCost]
    """The answered requests in the order in which they were sent."""


def cost_report(ledger: Ledger, session: str) -> CostReport:
    """Return the sums of a session's own requests and those of its workers, without those that a fork shares with its
    source.

    A refused request counts but adds nothing. An unknown price makes a `cost_usd` None; `known_usd` sums the known
    ones.
    """
    info = ledger.session(session)
    logs = ledger.logs(session)
    rows = {log.lane: log.requests() for log in logs}
    theirs = _worker_requests(ledger, session)
    every = [*chain(*rows.values()), *theirs]
    kinds = [(KINDS.get(log.agent, log.agent), row) for log in logs for row in rows[log.lane]]
    series = [
        {"at": row.manifest.at, "tokens": row.usage.tokens, "cost_usd": row.usage.cost_usd}
        for row in every
        if row.usage
    ]
    value = {
        "version": 1,
        "session": info.id,
        "total": {
            **_sum_requests(every),
            "estimated": sum(1 for row in every if row.was_answered and not row.reported),
            "unanswered": sum(1 for row in every if not row.was_answered),
        },
        "models": _sum_by_name((row.model, row) for row in every),
        "kinds": _sum_by_name([*kinds, *((WORKERS, row) for row in theirs)]),
        "turns": _turns(logs[0], info.turns, rows, theirs),
        "series": sorted(series, key=itemgetter("at")),
    }
    return cast("CostReport", value)


def _worker_requests(ledger: Ledger, session: str) -> list[RequestRow]:
    """Return the requests of a session's workers, nested ones included."""
    workers = [worker.id for worker in ledger.workers(session)]
    rows = [row for worker in workers for log in ledger.logs(worker) for row in log.requests()]
    return rows + [row for worker in workers for row in _worker_requests(ledger, worker)]


def _sum_by_name(named_rows: Iterable[tuple[str, RequestRow]]) -> list[JsonObject]:
    """Sum up rows by their name; the name with the most input comes first."""
    sums = [{"name": name, **_sum_requests(rows)} for name, rows in group_pairs(named_rows).items()]
    return sorted(sums, key=lambda group: -group["input"])


def _sum_requests(rows: Sequence[RequestRow]) -> JsonObject:
    return dict(to_json_value(UsageSum.of([row.counted for row in rows], sum(row.is_unfinished for row in rows))))


def _turns(
    main: LaneLog, count: int, rows: Mapping[int, Sequence[RequestRow]], workers: Sequence[RequestRow]
) -> list[JsonObject]:
    """Return the newest turns, oldest first, each with the requests of every conversation and of `workers` that were
    sent during it. A turn without any is left out: a fork shares it with its source."""
    begun = list(islice(Replay(main).messages(), TURNS))[::-1]
    starts, times = [entry.id for entry, _ in begun], [entry.at for entry, _ in begun]
    requests_by_turn: list[list[RequestRow]] = [[] for _ in begun]
    for lane, several in rows.items():
        forked = several[0].manifest.last - 1 if several else 0  # a side conversation begins with one instruction
        for row in several:
            entry = row.manifest.last if lane == main.lane else forked
            place = (bisect_right(starts, entry) if entry else bisect_right(times, row.manifest.at)) - 1
            if place >= 0:
                requests_by_turn[place].append(row)
    for row in workers:
        if (place := bisect_right(times, row.manifest.at) - 1) >= 0:
            requests_by_turn[place].append(row)
    first = count - len(begun) + 1
    return [
        {"turn": number, "at": entry.at, "text": first_words(text, WORDS), **_sum_requests(requests)}
        for number, ((entry, text), requests) in enumerate(zip(begun, requests_by_turn, strict=True), first)
        if requests
    ]


def cost_text(value: JsonObject, width: int, look: ReportStyle = PLAIN) -> Blocks:
    """Show the usage of the session so far, with a plot of its requests."""
    total = value["total"]
    if not total["requests"]:
        yield "This session has not sent a request yet."
        return
    yield from usage_lines(total, count_requests(total))
    yield from _plot_requests(value["series"], width, look)
    yield usage_table("model", value["models"])
    if len(value["kinds"]) > 1:
        yield usage_table("kind", value["kinds"])
    turns = [{**turn, "turn": f"{turn['turn']}. {turn['text']}"} for turn in value["turns"]]
    yield usage_table("turn", turns, f"the last {len(turns)} turns" if len(turns) > 1 else "the turn")
    yield from price_hint(value["models"])
    if total.get("estimated"):
        estimated = plural(total["estimated"], "request")
        yield from ["", f"The usage of {estimated} is estimated, because the provider did not report it."]


def _plot_requests(series: Sequence[JsonObject], width: int, look: ReportStyle) -> Blocks:
    """Draw the cost of each request as a bar, or its tokens if a price is unknown; nothing for fewer than two."""
    if len(series) < 2:
        return
    costs = [row["cost_usd"] for row in series]
    priced = None not in costs and any(costs)
    bars, per_bar = plot(costs if priced else [row["tokens"] for row in series], max(1, min(BARS, width - 2)), look)
    highest = max(costs) if priced else max(row["tokens"] for row in series)
    title = (
        f"cost per request (highest {dollars(highest)})" if priced else f"tokens per request (most {number(highest)})"
    )
    title += f"; a bar is {per_bar} requests" if per_bar > 1 else ""
    yield from ["", f"{title}:"]
    yield from (Drawn(f"  {bar}") for bar in bars)


UsageBy = Literal["project", "model", "key", "day", "recipe", "person", "agent", "plan"]
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
        "total": _sum_totals(totals),
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
            return _key_of
        case "recipe" | "person" | "agent" | "plan":
            names, nobody = names_of_sessions(ledger.db, by), "you" if by == "person" else ""
            return lambda total: names.get(total.session, nobody)
        case _:
            assert_never(by)


def _key_of(total: UsageTotal) -> str:
    """Return the key that pays for a model: its provider, behind the name of the key if it has one."""
    name, plain = split_key_name(total.model)
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
    sums = [{name: group, **_sum_totals(rows)} for group, rows in groups.items()]
    return sums if in_order or name == "day" else sorted(sums, key=lambda row: (-row["known_usd"], -row["input"]))


def _sum_totals(totals: Sequence[UsageTotal]) -> JsonObject:
    total = sum((usage_total.total for usage_total in totals), UsageSum())
    return {"sessions": len({usage_total.session for usage_total in totals}), **to_json_value(total)}


def usage_text(value: JsonObject) -> Blocks:
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
    yield from usage_lines(total, f"{count_requests(total)} in {plural(total['sessions'], 'session')}")
    if by := value.get("by"):
        yield usage_table(by, [{**row, by: row["name"] or f"(no {by})"} for row in value["named"]])
        yield from imported
        return
    days = value["days"]
    listed_days = days if since else days[-DAYS:]
    yield usage_table("day", listed_days)
    if len(days) > len(listed_days):
        earlier = plural(len(days) - len(listed_days), "earlier day")
        yield Paragraph(f"{earlier} not listed: --since {days[0]['day']} lists all", "  ")
    yield usage_table("model", value["models"])
    projects = value["projects"][:PROJECTS]
    yield usage_table("project", projects)
    if hidden := len(value["projects"]) - len(projects):
        yield Paragraph(f"{plural(hidden, 'project')} with less usage not listed: `nexus usage --json` lists all", "  ")
    yield from price_hint(value["models"])
    yield from imported


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
    other_models = f" (and {plural(len(models) - 1, 'other model')})" if len(models) > 1 else ""
    text = f"No known price for requests to {models[0]}{other_models}. "
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


GROUPINGS = get_args(UsageBy)


def build_usage(
    source: Source,
    since: Annotated[str, Option("DATE", "First day to count: YYYY-MM-DD.")] = "",
    by: Annotated[str, Option("KIND", f"Sum by {', '.join(GROUPINGS)}.")] = "",
    every: Annotated[bool, Option(None, "All sessions.", "--all")] = False,
) -> Report[UsageReport | CostReport]:
    """Show tokens and cost of all sessions, by day, model and project.

    Days and DATE are in local time, with --json in UTC. With --session alone, and in a session without options, show
    one session: a plot of its requests, and sums by model, kind of request and recent turn.
    """
    if by and by not in GROUPINGS:
        raise UsageError(f"--by {by}", f"must be one of {', '.join(GROUPINGS)}")
    if not (every or since or by) and (source.live or source.session_name):
        return Report("cost", cost_report(source.ledger, source.session()))
    is_local = not source.is_json
    moment = _parse_date(since, local=is_local) if since else None
    value = usage_report(source.ledger, moment, local=is_local, by=cast("UsageBy | None", by or None))
    return Report("usage", value, uncut=bool(by))


def _parse_date(text: str, *, local: bool) -> datetime:
    """Parse a day, or a time with a zone, as a moment in UTC. Raises `UsageError` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone() if local else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text}", "not a valid date", "Write it as YYYY-MM-DD") from error


NOUN = Noun(
    "usage",
    "context",
    (Verb(build_usage, of_session=True, complete=[f"--by {name}" for name in GROUPINGS]),),
    "Show tokens and cost of one or all sessions.",
    aliases=("cost", "stats"),
    is_first=True,
)
