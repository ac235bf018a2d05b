"""Report the usage of a session: tokens and dollars by model, by kind of request, and of its newest turns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TypedDict, cast

from nexus_cli.core.elide import first_words
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession, to_json_value
from nexus_cli.core.usage import UsageSum
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.text.blocks import Blocks, Drawn
from nexus_cli.reports.text.lines import dollars, number, plural
from nexus_cli.reports.text.look import PLAIN, ReportStyle, plot
from nexus_cli.reports.usage import count_requests, price_hint, usage_lines, usage_table

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
    own = [row for several in rows.values() for row in several]
    theirs = _worker_requests(ledger, session)
    every = [*own, *theirs]
    kinds = [(KINDS.get(log.agent, log.agent), row) for log in logs for row in rows[log.lane]]
    value = {
        "version": 1,
        "session": info.id,
        "total": {
            **_sum(every),
            "estimated": sum(1 for row in every if row.was_answered and not row.reported),
            "unanswered": sum(1 for row in every if not row.was_answered),
        },
        "models": _by((row.model, row) for row in every),
        "kinds": _by([*kinds, *((WORKERS, row) for row in theirs)]),
        "turns": _turns(logs[0], info.turns, rows, theirs),
        "series": _series(every),
    }
    return cast("CostReport", value)


def _worker_requests(ledger: Ledger, session: str) -> list[RequestRow]:
    """Return the requests of a session's workers, nested ones included."""
    workers = [worker.id for worker in ledger.workers(session)]
    rows = [row for worker in workers for log in ledger.logs(worker) for row in log.requests()]
    return rows + [row for worker in workers for row in _worker_requests(ledger, worker)]


def _by(named_rows: Iterable[tuple[str, RequestRow]]) -> list[JsonObject]:
    """Sum by name, the name with the most input first."""
    sums = [{"name": name, **_sum(rows)} for name, rows in group_pairs(named_rows).items()]
    return sorted(sums, key=lambda group: -group["input"])


def _sum(rows: Sequence[RequestRow]) -> JsonObject:
    return dict(to_json_value(UsageSum.of([row.counted for row in rows], sum(row.is_unfinished for row in rows))))


def _series(rows: Sequence[RequestRow]) -> list[JsonObject]:
    """Return the answered requests in the order in which they were sent."""
    answered = [
        {"at": row.manifest.at, "tokens": row.usage.tokens, "cost_usd": row.usage.cost_usd} for row in rows if row.usage
    ]
    return sorted(answered, key=itemgetter("at"))


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
        {"turn": number, "at": entry.at, "text": first_words(text, WORDS), **_sum(requests)}
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
    title = f"the last {len(turns)} turns" if len(turns) > 1 else "the turn"
    yield usage_table("turn", turns, title)
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
