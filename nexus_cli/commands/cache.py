"""The cache use of each request, why one missed, and the rewrites of the window: price, break-even and outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from nexus_cli.commands.usage import count_requests
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.cache_diagnosis import CAUSES
from nexus_cli.conversation.fingerprints import Difference
from nexus_cli.core.entry import Cause, Memo
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession, to_json_value
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.memo_kinds import REWRITE
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.rewrite_cost import RewritePrice, break_even
from nexus_cli.core.usage import Usage, round_dollars
from nexus_cli.engine.requests.request_history import RequestPair
from nexus_cli.ledger import Ledger, RequestRow, pick_request
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.prompt_cache import CacheLife
from nexus_cli.reports.text.blocks import Blocks, Columns, Paragraph, TitledTable, aligns, paragraphs
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import PURPOSES, dollars, number, plural, share, when

MISS_CAUSES = ("model", "tool", "section", "effort", "message", "order", "expired", "provider", "unknown")
"""Kinds of verdicts that count as misses."""
COLUMNS: Columns = {
    "request": lambda row: str(row["step"]),
    "input": "input",
    "expected": "expected",
    "cached": lambda row: share(row["read"], row["input"]),
    "written": "written",
    "missed": lambda row: row["missed"] or "-",
    "cost": lambda row: dollars(row["cost_usd"]) if row["missed"] else "-",
    "why": lambda row: ("by nexus: " if row["ours"] else "") + row["why"],
}
OPTIONAL_COLUMNS = ("written", "expected", "input")
"""Columns to leave out, in this order, if the width is too small."""

SUMMARY = "compact"
"""Agent of the conversations that request summaries."""
LISTED = 5
"""Most rewrites that the text lists."""


class RewriteRow(JsonOf[RewritePrice]):
    """A rewrite of the window: compaction, truncation, removal of stale results, a new system text."""

    at: str
    cause: str
    epoch: int
    summary_usd: float | None
    """Dollars for the requests of the summary, 0 without a summary."""
    saved_usd_each: float | None
    """Dollars saved in each later request."""
    break_even: int | None
    """Number of requests after which the rewrite pays for itself; null: never."""
    requests: int
    """Requests that followed, up to the next compaction, truncation or new system text."""
    uncached: int | None
    """Tokens of the first request after the rewrite that were not read from the cache."""
    net_usd: float | None
    """The balance so far: dollars saved in these requests minus the cost."""


class CacheRow(JsonOf[RequestPair]):
    """The cache figures of a request."""


class CacheTotal(TypedDict):
    """Sums over a session."""

    requests: int
    unanswered: int
    input: int
    read: int
    written: int
    hit: float | None
    missed: int
    cost_usd: float | None
    misses: int
    ours: int
    not_ours: int
    unknown: int


class CacheReport(ReportOfSession):
    """The cache use of each request."""

    requests: list[CacheRow]
    total: CacheTotal
    rewrites: list[RewriteRow]
    """Rewrites of the window, with their price."""


class CacheDifference(JsonOf[Difference]):
    """The first difference to the previous request."""

    source: str
    by: str


class MissReport(CacheRow):
    """The cache miss of one request, and its cause."""

    version: Literal[1]
    session: str
    previous: int | None
    previous_session: str | None
    previous_input: int | None
    shared: int
    difference: CacheDifference | None
    age_seconds: float | None
    cache: JsonOf[CacheLife] | None
    rewrites: list[RewriteRow]


def cache_report(ledger: Ledger, session: str, settings: Settings) -> CacheReport:
    """Return a row per request, the main conversation first, and the sums; raise `UsageError` for an
    unknown session."""
    rows = [pair for requests in RequestPair.read_session(ledger, session, settings) for pair in requests]
    return {
        "version": 1,
        "session": ledger.session(session).id,
        "requests": to_json_value(rows),
        "total": _total(rows),
        "rewrites": list_rewrites(ledger, session, settings),
    }


def miss_report(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> MissReport:
    """Explain the miss of request `step` (default: the newest miss or request), or raise `UsageError`."""
    requests = RequestPair.read_session(ledger, session, settings)[0]
    if not requests:
        raise UsageError(f"session {session}", "the session has not sent a request yet", "Send a message first")
    if step is None:
        missed = (pair for pair in reversed(requests) if pair.diagnosis.missed)
        pair = next(missed, requests[-1])
    else:
        pair = pick_request(requests, step, f"request {step}", "`nexus cache` lists the requests")
    value = {"version": 1, "session": ledger.session(session).id, **to_json_value(pair), **_details(pair)}
    return MissReport(**value, rewrites=list_rewrites(ledger, session, settings))


def _details(pair: RequestPair) -> JsonObject:
    """Return the basis of a verdict: the request before, the first difference, time and cache lifetime."""
    before, facts, epochs = pair.before, pair.facts, pair.epochs
    difference = facts.difference or pair.find_difference()
    cause = epochs[0].cause if before and epochs[0] is not epochs[1] else ""
    if difference and difference.kind in ("model", "effort"):
        cause = "model"  # a compaction or cut right after a switch begins one more epoch; the switch changed the model
    origin = {"source": difference.source_in(*epochs), "by": CAUSES.get(cause, cause)} if difference else {}
    return {
        "previous": before.manifest.step if before else None,
        "previous_session": before.session or None if before else None,
        "previous_input": facts.before or None,
        "shared": facts.shared,
        "difference": to_json_value(difference) | origin if difference else None,
        "age_seconds": None if facts.age is None else round(facts.age, 3),
        "cache": to_json_value(facts.life),
    }


def _total(rows: Sequence[RequestPair]) -> CacheTotal:
    usage = sum((row.row.reported_usage for row in rows if row.row.reported_usage), Usage())
    missed = [row for row in rows if row.row.reported_usage and row.diagnosis.kind in MISS_CAUSES]
    costs, causes = [row.cost_usd for row in missed], Counter(row.diagnosis.ours for row in missed)
    return {
        "requests": len(rows),
        "unanswered": sum(row.diagnosis.kind == "unanswered" for row in rows),
        "input": usage.input,
        "read": usage.cache_read,
        "written": usage.cache_write,
        "hit": round(usage.cache_read / usage.input, 4) if usage.input else None,
        "missed": sum(row.diagnosis.missed for row in missed),
        "cost_usd": None if None in costs else round_dollars(sum(filter(None, costs))),
        "misses": len(missed),
        "ours": causes[True],
        "not_ours": causes[False],
        "unknown": causes[None],
    }


def list_rewrites(ledger: Ledger, session: str, settings: Settings) -> list[RewriteRow]:
    """Return every rewrite of the session's own, oldest first."""
    log, *side_logs = ledger.logs(session)
    memos = log.memos(REWRITE, own=True)
    if not memos:
        return []
    rows = log.requests()
    summaries = [row for side_log in side_logs if side_log.agent == SUMMARY for row in side_log.requests()]
    rewrite_rows, before = [], ""
    for place, memo in enumerate(memos):
        paid = [row for row in summaries if before < row.manifest.at <= memo.at]
        model = log.epoch(memo.value["epoch"]).model
        # Its saving lasts until the window is rewritten by more than the removal of stale results.
        end = next((later.at for later in memos[place + 1 :] if later.value["cause"] != Cause.PRUNED.value), "9")
        since = [row for row in rows if row.was_answered and memo.at <= row.manifest.at <= end]
        rewrite_rows.append(_describe_rewrite(settings, model, memo, since, paid))
        before = memo.at
    return rewrite_rows


def _describe_rewrite(
    settings: Settings, model: str, memo: Memo, since: Sequence[RequestRow], paid: Sequence[RequestRow]
) -> RewriteRow:
    value = memo.value
    first = since[0].usage if since and since[0].reported_tokens else None
    info = load_model_info(model, settings).with_tier_prices(first.input if first else 0)
    cold, saved = value["cold"], value["saved"]
    summary = sum((row.usage for row in paid if row.usage), Usage()).cost_usd
    spent = None if value["cost"] is None or summary is None else value["cost"] + summary
    saved_each, after = break_even(info, cold=cold, saved=saved, spent=spent)
    return RewriteRow(
        at=memo.at,
        **value,
        summary_usd=summary,
        saved_usd_each=saved_each,
        break_even=after,
        requests=len(since),
        uncached=first.input - first.cache_read if first else None,
        net_usd=None if saved_each is None or spent is None else round_dollars(saved_each * len(since) - spent),
    )


def cache_text(value: JsonObject, width: int) -> Blocks:
    """Return a row per request of the conversation, a line for those beside it, and the cost of the misses."""
    rows = value["requests"]
    if not rows:
        yield "This session has not sent a request yet."
        return
    yield _summary(value["total"])
    own = [row for row in rows if row["lane"] == "main"]
    yield TitledTable("requests", _fit_columns(own, width - 2), own)
    yield from _sum_side_requests([row for row in rows if row["lane"] != "main"])
    yield from rewrite_lines(value["rewrites"])
    if value["total"]["misses"]:
        yield from ["", name_commands("`nexus cache why N` explains request N.")]


def miss_text(value: JsonObject) -> Blocks:
    """Describe the miss of one request in a sentence: the missed part, its price, and the cause."""
    why = value["why"]
    if value["missed"]:
        cost = "price unknown" if value["cost_usd"] is None else dollars(value["cost_usd"])
        why = f"{number(value['missed'])} of {number(value['input'])} tokens missed the cache ({cost}): {why}"
    elif value["read"] is not None:
        why = "" if value["read"] else why and f": {why}"
        why = f"no miss, {share(value['hit'], 1)} of {number(value['input'])} tokens cached{why}"
    return [f"Request {value['step']}: {why}."]


def miss_details_text(value: JsonObject) -> Blocks:
    """Add to the sentence about one request what differed first, and the break-even of each rewrite."""
    whose = {True: " Caused by nexus.", False: " Not caused by nexus."}.get(value["ours"], "")
    yield from [
        *miss_text(value),
        f"Sent {when(value['at'])} to {value['model']}.",
        f"Cached: {number(value['read'])}, expected: {number(value['expected'])}.{whose}",
    ]
    difference, before = value["difference"], f"request {value['previous']}"
    if value.get("previous_session"):
        before += f" of session {value['previous_session']}"
    if difference:
        label = difference["what"] if difference["kind"] == "message" else f"{difference['kind']} {difference['what']}"
        line = f"First difference from {before}: {label}"
        line += f" ({difference['source']})" if difference["source"] else ""
        yield f"{line}: {difference['by']}." if difference["by"] else f"{line}."
    elif value["previous"]:
        yield f"This request only adds to {before}; nothing else differs."
    yield from rewrite_lines(value.get("rewrites", []))


def _summary(total: JsonObject) -> str:
    request_count = count_requests(total)
    if total["hit"] is None:
        silent = total["unanswered"] != total["requests"]
        return f"{request_count}; the provider reported no token counts." if silent else f"{request_count}."
    text = f"{share(total['hit'], 1)} of the prompt tokens in {request_count} came from the cache."
    if not total["misses"]:
        return f"{text} No misses."
    cost = f"cost {dollars(total['cost_usd'])} (" if total["cost_usd"] is not None else "(price unknown; "
    unknown = f", unknown: {total['unknown']}" if total["unknown"] else ""
    missed = plural(total["misses"], "miss", "misses")
    return f"{text} {missed} {cost}caused by nexus: {total['ours']}, not by nexus: {total['not_ours']}{unknown})."


def _fit_columns(rows: Sequence[JsonObject], width: int) -> Columns:
    """Return the columns of a table of some requests, without those that do not fit into `width`; all if no table
    fits."""
    for count in range(len(OPTIONAL_COLUMNS) + 1):
        columns = {name: column for name, column in COLUMNS.items() if name not in OPTIONAL_COLUMNS[:count]}
        if aligns(columns, rows, width):
            return columns
    return {**COLUMNS, "request": lambda row: f"request {row['step']}"}


def _sum_side_requests(rows: Sequence[JsonObject]) -> Blocks:
    """Sum up the requests beside the conversation: one line for each purpose."""
    lines = []
    for lane in dict.fromkeys(row["lane"] for row in rows):
        these = [row for row in rows if row["lane"] == lane]
        measured = [row for row in these if row["read"] is not None]
        total, read = sum(row["input"] for row in measured), sum(row["read"] for row in measured)
        cached = f" ({share(read, total)} cached)" if total else ""
        text = f"{plural(len(these), 'request')} {PURPOSES.get(lane, f'of {lane}')}: {number(total)} tokens in{cached}"
        missed = sum(row["missed"] for row in these)
        lines.append(text + (f", {number(missed)} missed" if missed else ""))
    return ["", "in addition:", *paragraphs(lines, "    ", "  ")] if lines else []


def rewrite_lines(rows: Sequence[JsonObject]) -> Blocks:
    """Return a table of the newest rewrites with their break-even, below it why each was made, and the sum of all."""
    columns = {
        "cause": "cause",
        "removed": "saved",
        "resent": "cold",
        "cost": lambda row: dollars(row["cost"]),
        "summary": lambda row: dollars(row["summary_usd"]) if row["summary_usd"] else "-",
        "pays after": lambda row: "never" if row["break_even"] is None else plural(row["break_even"], "request"),
        "since": "requests",
        "net": _format_balance,
    }
    yield TitledTable("rewrites", columns, rows[-LISTED:])
    for row in rows[-LISTED:]:
        pays = "" if row["pays"] else " (does not pay for itself)"
        yield Paragraph(f"{row['cause']}: {row['why']}{pays}", "    ", "  ")
    if len(rows) > LISTED:
        costs = [cost for row in rows for cost in (row["cost"], row["summary_usd"])]
        paid = "" if None in costs else f" cost {dollars(sum(costs))}"
        hidden = plural(len(rows) - LISTED, "earlier rewrite")
        yield Paragraph(f"{hidden} not listed (all {len(rows)}{paid}; see `nexus cache --json`)", "  ")


def _format_balance(row: JsonObject) -> str:
    net = row["net_usd"]
    return "-" if net is None else f"{'+' if net >= 0 else '-'}{dollars(abs(net))}"


OFFERED = 20
"""Most requests that completion offers."""


def build_cache(source: Source) -> Report[CacheReport]:
    """Show the expected and actual cache hits of each request of a session."""
    return Report("cache", cache_report(source.ledger, source.session(), source.settings()))


def build_miss(
    source: Source,
    step: Annotated[
        int | None,
        Argument("STEP", "Number of the request; default: the newest cache miss.", least=-MAX_INT),
    ] = None,
    details: Annotated[
        bool, Option(help="Also show the first difference and price of each rewrite.", name="--all")
    ] = False,
) -> Report[MissReport]:
    """Explain why a request missed the cache: the first difference from the previous request, expiry, or the
    provider."""
    form = "miss_details" if details else "miss"
    return Report(form, miss_report(source.ledger, source.session(), source.settings(), step))


def _complete_steps(source: Source) -> Sequence[str]:
    """Return the numbers of the newest requests."""
    last = source.ledger.log(source.session()).step()
    return [str(step) for step in range(last, max(0, last - OFFERED), -1)]


NOUN = Noun(
    "cache",
    "context",
    (Verb(build_cache, of_session=True), Verb(build_miss, "why", of_session=True, complete=_complete_steps)),
    "Show the cache use of each request.",
)
