"""Report the rewrites of a session's window: price, break-even, and how each came out."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Cause, Memo
from nexus_cli.core.json_value import JsonObject, JsonOf
from nexus_cli.core.memo_kinds import REWRITE
from nexus_cli.core.rewrite_cost import RewritePrice, break_even
from nexus_cli.core.usage import Usage, round_dollars
from nexus_cli.ledger import Ledger, RequestRow
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.reports.text.blocks import Blocks, Paragraph, TitledTable
from nexus_cli.reports.text.lines import dollars, plural

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


def list_rewrites(ledger: Ledger, session: str, settings: Settings) -> list[RewriteRow]:
    """Return every rewrite of the session's own, oldest first."""
    log, *others = ledger.logs(session)
    memos = log.memos(REWRITE, own=True)
    if not memos:
        return []
    rows = log.requests()
    summaries = [row for other in others if other.agent == SUMMARY for row in other.requests()]
    rewrite_rows, before = [], ""
    for place, memo in enumerate(memos):
        paid = [row for row in summaries if before < row.manifest.at <= memo.at]
        model = log.epoch(memo.value["epoch"]).model
        rewrite_rows.append(_row(settings, model, memo, _requests_since(rows, memos[place:]), paid))
        before = memo.at
    return rewrite_rows


def _requests_since(rows: Sequence[RequestRow], memos: Sequence[Memo]) -> list[RequestRow]:
    """Return the answered requests after the first of `memos`, as long as its saving lasts: until the window is
    rewritten by more than the removal of stale results."""
    first, *later = memos
    end = next((memo.at for memo in later if memo.value["cause"] != Cause.PRUNED.value), "9")
    return [row for row in rows if row.was_answered and first.at <= row.manifest.at <= end]


def _row(
    settings: Settings, model: str, memo: Memo, since: Sequence[RequestRow], paid: Sequence[RequestRow]
) -> RewriteRow:
    value = memo.value
    first = since[0].usage if since and since[0].reported_tokens else None
    info = load_model_info(model, settings).with_tier_prices(first.input if first else 0)
    cold, saved = value["cold"], value["saved"]
    summary = sum((row.usage for row in paid if row.usage), Usage()).cost_usd
    spent = None if value["cost"] is None or summary is None else value["cost"] + summary
    each, after = break_even(info, cold=cold, saved=saved, spent=spent)
    return RewriteRow(
        at=memo.at,
        **value,
        summary_usd=summary,
        saved_usd_each=each,
        break_even=after,
        requests=len(since),
        uncached=first.input - first.cache_read if first else None,
        net_usd=None if each is None or spent is None else round_dollars(each * len(since) - spent),
    )


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
