"""The figures of every request of a session, for the context timeline of a page.

The layers are those of `nexus context --step N`: our own counts, converted to the tokens that the provider reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Entry, sum_tokens
from nexus_cli.core.memo_kinds import PLAN
from nexus_cli.engine.requests.model_info import load_model_info
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.reports.text.lines import dollars, number, share


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """One request of the main conversation, and its size by layer."""

    row: RequestRow
    used: UsedTokens
    leaves_out: bool
    """True if something was left out since the request before."""
    rewrite: str
    """The cause of the rewrite of the window before this request, "" for none."""

    @property
    def cached(self) -> int:
        """Tokens of its beginning that the provider read from its cache; 0 if unknown."""
        usage = self.row.usage
        return min(usage.cache_read, self.used.total) if usage and self.row.reported else 0


def describe_request(request_figures: RequestFigures) -> str:
    """Return the size of a request, the part from the cache, and its cost."""
    cost = request_figures.row.counted.cost_usd
    facts = [f"{number(request_figures.used.total)} tokens"]
    if request_figures.cached:
        facts.append(f"{share(request_figures.cached, request_figures.used.total)} from the cache")
    return " · ".join([*facts, *([dollars(cost)] if cost else [])])


def list_request_figures(
    ledger: Ledger, log: LaneLog, entries: Sequence[Entry], settings: Settings
) -> Iterator[RequestFigures]:
    """Yield the figures of each request of a main conversation, oldest first; `entries` are all of the conversation."""
    rows = log.requests()
    sums = [0, *accumulate(entry.tokens for entry in entries)]
    plans = log.memos(PLAN)
    plan_places = [memo.entry for memo in plans]
    drop_places = [drop.after for drop in log.drops()]

    @cache
    def estimate(model: str) -> Estimate:
        return Estimate.of(log.calibration(load_model_info(ledger, model, settings).served_name))

    before = 0
    for epoch_id, several in groupby(rows, key=lambda row: row.manifest.epoch):
        epoch = log.epoch(epoch_id)
        head_tokens = sum_tokens(epoch.head)
        for place, row in enumerate(several):
            last = row.manifest.last
            told = plans[bisect_right(plan_places, before) : bisect_right(plan_places, last)]
            late = sum(section["tokens"] for memo in told for section in memo.value["sections"])
            messages = head_tokens + sums[last] - sums[epoch.base]
            counted = UsedTokens(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
            model = row.manifest.arguments.get("model", "") or epoch.model
            yield RequestFigures(
                row,
                estimate(model).layers(counted, _size(row)),
                bisect_right(drop_places, last) > bisect_right(drop_places, before),
                epoch.cause if not place and epoch.parent is not None else "",
            )
            before = max(before, last)


def _size(row: RequestRow) -> int:
    return row.usage.input if row.usage and row.reported and row.usage.input else row.manifest.estimate
