"""The figures of every request of a session, for the context timeline of a page.

The layers are those of `nexus context --step N`: our own counts, converted to the tokens that the provider reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.drop_list import returned_drops
from nexus_cli.core.entry import Drop, Entry, Epoch, ItemForm, WindowItem, sum_tokens
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import PLAN
from nexus_cli.core.section_rows import apportion, scale_sections
from nexus_cli.ledger import LaneLog, RequestRow
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.reports.text.lines import dollars, number, share

FORMS = {
    ItemForm.FULL: "in full",
    ItemForm.ELIDED: "shortened",
    ItemForm.STUB: "as a stub",
    ItemForm.SUMMARY: "in a summary",
    ItemForm.MARKER: "as a marker line",
}

ALONE = (ItemForm.FULL, ItemForm.ELIDED, ItemForm.STUB)
"""Forms of one message; the others stand for several."""


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A run of consecutive messages that a request contained in one form."""

    first: int
    last: int
    form: ItemForm
    tokens: int


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """One request of the main conversation: its size by layer, its content and the drops at its time."""

    row: RequestRow
    used: UsedTokens
    model: str
    window_parts: tuple[HeldPart, ...]
    """The messages, from the oldest to those that it sent first."""
    new_from: int
    """The first entry that no earlier request contained."""
    sections: tuple[tuple[str, int], ...]
    """Id and tokens of each section in the system text, and of those sent with its newest message."""
    drops: tuple[Drop, ...]
    """What was left out at that time, oldest first."""
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


def list_request_figures(log: LaneLog, entries: Sequence[Entry], settings: Settings) -> Iterator[RequestFigures]:
    """Yield the figures of each request of a main conversation, oldest first; `entries` are all of the conversation."""
    rows, drops = log.requests(), log.drops()
    sums = [0, *accumulate(entry.tokens for entry in entries)]
    plans = log.memos(PLAN)
    plan_places = [memo.entry for memo in plans]
    drop_places = [drop.after for drop in drops]

    @cache
    def estimate(model: str) -> Estimate:
        return Estimate.of(log.calibration(load_model_info(model, settings).served_name))

    before = 0
    for epoch_id, several in groupby(rows, key=lambda row: row.manifest.epoch):
        group = list(several)
        epoch, newest = log.epoch(epoch_id), group[-1].manifest
        items = [*epoch.head, *map(WindowItem.of, entries[epoch.base : newest.last])]
        memos = cache(lambda kind, newest=newest: [m for m in log.memos(kind) if newest.is_newer_than(m.entry, m.at)])
        back = returned_drops(drops, items, memos, epoch.sections)
        head, system = _merge_head(epoch), epoch.section_rows
        head_tokens = sum_tokens(epoch.head)
        for place, row in enumerate(group):
            last = row.manifest.last
            sections = [
                section
                for memo in plans[bisect_right(plan_places, before) : bisect_right(plan_places, last)]
                for section in memo.value["sections"]
            ]
            late = sum(section["tokens"] for section in sections)
            messages = head_tokens + sums[last] - sums[epoch.base]
            counted = UsedTokens(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
            model = row.model or epoch.model
            used = estimate(model).layers(counted, row.reported_tokens or row.manifest.estimate)
            since = HeldPart(epoch.base + 1, last, ItemForm.FULL, sums[last] - sums[epoch.base])
            window_parts = (*head, *([since] if last > epoch.base else ()))
            sizes = apportion(used.history + used.event, [part.tokens for part in window_parts])
            earlier = drops[: bisect_right(drop_places, last)]
            yield RequestFigures(
                row,
                used,
                model,
                tuple(replace(part, tokens=size) for part, size in zip(window_parts, sizes, strict=True)),
                before + 1,
                (*_sections(system, used.system), *_sections(sections, used.event)),
                tuple(d for d in earlier if d.id not in back and row.manifest.is_newer_than(d.after, d.at)),
                epoch.cause if not place and epoch.parent is not None else "",
            )
            before = max(before, last)


def _sections(rows: Sequence[JsonObject], total: int) -> list[tuple[str, int]]:
    sent_rows = [row for row in rows if row["form"] != "dropped"]
    return [(section["id"], section["tokens"]) for section in scale_sections(sent_rows, total, 1.0)]


def _merge_head(epoch: Epoch) -> list[HeldPart]:
    """Return the head of an epoch as runs of messages in one form."""
    parts: list[HeldPart] = []
    for item in epoch.head:
        last = parts[-1] if parts else None
        if last and last.form is item.form and item.form in ALONE and item.entry == last.last + 1:
            parts[-1] = HeldPart(last.first, item.entry, item.form, last.tokens + item.tokens)
        else:
            parts.append(HeldPart(item.entry, item.entry, item.form, item.tokens))
    return parts
