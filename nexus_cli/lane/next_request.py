"""`NextRequest`: what the next request holds, what it takes, what of it a cache holds, and the limits in force.

A pure value; `nexus_cli.lane.current_request` makes it of a session that runs here, the reports make it from
the ledger, for any request that was sent as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from nexus_cli.context.sections.planner import reason_text
from nexus_cli.context.tokens.content_kinds import WindowContents
from nexus_cli.context.tokens.estimator import Anchor, TokenEstimator, apportion
from nexus_cli.context.window.groups import Group, flatten, group_tool_calls
from nexus_cli.core.budget import TokenBudget, UsedTokens
from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.limits import Bound, Limits
from nexus_cli.lane.cache.diagnosis import expected_cached, seconds_between
from nexus_cli.lane.cache.sent_request import SentRequest
from nexus_cli.provider.prompt_cache import CacheLife

Sections = Sequence[Mapping[str, Any]]
"""The `sections` of `nexus docs json`, with tokens by our own count."""
PLAN = "plan"
"""Memo of a request that sent event sections: `epoch`, `told` (section id to the hash of its whole text), `pool`,
`raised` and `sections` as in `nexus docs json`. Its entry is the newest one that the request held."""
LimitsInForce = tuple[Limits, Sequence[Bound]]
"""Limits, and which layer bound each."""


@dataclass(frozen=True, slots=True)
class EarlierRequests:
    """The requests that a cache may hold, with when the epoch of each was used last; the newest of the lane first."""

    requests: tuple[tuple[SentRequest, datetime | None], ...] = ()
    life: CacheLife | None = None
    """Cache lifetime of the model that is asked next."""
    clock: Clock = local_now


@dataclass(frozen=True, slots=True)
class Outlook:
    """The part of a request that the provider's cache should hold."""

    tokens: int
    """Of the request before it, or of one under a former epoch."""
    messages: int
    """Messages on the wire of those tokens, if a new epoch begins; else 0."""
    shared: int
    """Tokens of its beginning that the request before it had too."""
    age: float | None
    """Seconds since the last use of its beginning; None if the clock does not tell."""
    at: datetime


@dataclass(frozen=True, eq=False)
class NextRequest:
    """One request before it is sent."""

    epoch: Epoch
    """Its frame: system text, tools, model; the one that it begins where it begins one."""
    items: tuple[WindowItem, ...]
    """The window, in the order in which things happened."""
    waiting: tuple[WindowItem, ...]
    """Texts that wait to be sent with the person's next message."""
    sent: int
    """The last entry that an earlier request of this epoch held; -1 where there was none."""
    told: Sections
    """Event sections added to its newest message, which contains their texts."""
    counted: UsedTokens
    """Tokens by layer by our own count."""
    budget: TokenBudget
    """With the tokens by layer as the provider counts, or is expected to: `event` is what we add to the newest message,
    its own words count as history."""
    room: int
    """Tokens that it may take."""
    most: int
    """Tokens with the known error of the estimate: these have to fit (law 2)."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    earlier: EarlierRequests
    in_force: Callable[[], LimitsInForce]
    """Called once, when the limits are read."""

    @classmethod
    def of(
        cls,
        estimator: TokenEstimator,
        epoch: Epoch,
        items: Sequence[WindowItem],
        budget: TokenBudget,
        *,
        waiting: Sequence[WindowItem] = (),
        sent: int = -1,
        told: Sections = (),
        preamble: int = 0,
        room: int | None = None,
        earlier: EarlierRequests | None = None,
        in_force: Callable[[], LimitsInForce] = lambda: (Limits(), ()),
        reported: int | None = None,
    ) -> NextRequest:
        """Return the request of `items` under `epoch`; `estimator` estimates it, unless so much was `reported` of it.
        `preamble` is what we add to a message that is not there yet: the texts of `told` and what joins them."""
        late = sum(int(one["tokens"]) for one in told)
        messages = preamble + sum(item.tokens for item in items) + sum(item.tokens for item in waiting)
        counted = UsedTokens(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
        return cls(
            epoch,
            tuple(items),
            tuple(waiting),
            sent,
            told,
            counted,
            replace(budget, used=estimator.layers(counted, reported)),
            budget.available if room is None else room,
            estimator.upper(counted.total) if reported is None else reported,
            estimator.basis if reported is None else "reported",
            earlier or EarlierRequests(),
            in_force,
        )

    @property
    def tokens(self) -> int:
        """Return what it takes: the one figure of status line, reports, events and results."""
        return self.budget.used.total

    @property
    def fits(self) -> bool:
        """True if it fits by estimate and known error (law 2)."""
        return self.most <= self.room

    @cached_property
    def groups(self) -> list[Group]:
        """The window as atomic groups."""
        return group_tool_calls(self.items)

    @cached_property
    def arranged(self) -> list[WindowItem]:
        """The window as it is sent."""
        return flatten(self.groups)

    @cached_property
    def limits(self) -> LimitsInForce:
        """The limits in force, and which layer bound each."""
        return self.in_force()

    # -- sections ----------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """Tokens of the budget's figures for each one that we count, of all."""
        return _ratio(self.tokens, self.counted.total)

    @property
    def messages_scale(self) -> float:
        """The same of the messages alone, what we add to them among it."""
        used, counted = self.budget.used, self.counted
        beside = used.history + used.event
        return _ratio(beside, counted.history + counted.event) if beside else self.scale

    @cached_property
    def sections(self) -> tuple[dict[str, Any], ...]:
        """Sections of layer 1, then of layer 3, with `tokens` in the scale of the budget, summing to their layer.

        `counted` and `full_counted` are our own counts of each.
        """
        used, rows = self.budget.used, json.loads(self.epoch.sections)
        fixed = [{**one, "cached": bool(one.get("cached")) and self.sent >= 0} for one in rows]
        system = scale_sections(fixed, used.system, _ratio(used.system, self.counted.system))
        return (*system, *scale_sections(self.told, used.event, self.messages_scale))

    # -- cache -------------------------------------------------------------------------------------------------

    @property
    def repeated(self) -> int:
        """Tokens of its beginning that earlier requests of its epoch held, in the same words."""
        if self.sent < 0:
            return 0
        used, before = self.budget.used, sum(item.tokens for item in self.items if item.entry <= self.sent)
        return min(used.total, used.system + used.tools + round(self.messages_scale * before))

    @cached_property
    def _shared(self) -> list[tuple[int, int]]:
        """Return what it has in common with each of the earlier requests: tokens, and messages on the wire."""
        before = self.earlier.requests
        if before and before[0][0].epoch is self.epoch:
            return [(before[0][0].tokens, 0)]
        return [one.shares(self.epoch, self.items) for one, _ in before]

    def outlook(self) -> Outlook:
        """Return what a cache should hold of it now, from whichever earlier request."""
        now, life = self.earlier.clock(), self.earlier.life
        made = []
        for (_, used), (shared, messages) in zip(self.earlier.requests, self._shared, strict=False):
            seconds = seconds_between(used, now)
            made.append(Outlook(expected_cached(life, shared, seconds), messages, shared, seconds, now))
        if not made:
            return Outlook(0, 0, 0, None, now)
        best = max(made, key=lambda one: one.tokens)
        return replace(made[0], tokens=best.tokens, messages=best.messages)

    @property
    def cached(self) -> int:
        """Return the tokens of it that a cache should hold now."""
        return min(self.tokens, self.outlook().tokens)

    @property
    def sent_anew(self) -> int:
        """Tokens of it that no cache should hold; 0 where it goes on from all that the request before it held, and
        where there was none."""
        if not self.earlier.requests or self._shared[0][0] >= self.earlier.requests[0][0].tokens:
            return 0
        return self.tokens - self.cached


def unreported_estimator(
    estimator: TokenEstimator, epoch: Epoch, items: Sequence[WindowItem], anchor: Anchor | None = None
) -> TokenEstimator:
    """Return an estimator for another window, of which nothing was reported but `anchor`."""
    other = estimator.fork()
    other.forget()
    other.contents = WindowContents(lambda: (epoch, items))
    if anchor is not None:
        other.set_anchor(anchor.last, anchor.counted, anchor.reported, exact=False)
    return other


def _ratio(used: int, counted: int) -> float:
    return used / max(1, counted)


def scale_sections(rows: Sections, total: int, scale: float) -> list[dict[str, Any]]:
    """Return described sections with their tokens in the scale of the budget: what is sent comes to `total`, with what
    joins and wraps it."""
    tokens = apportion(total, [int(one["tokens"]) for one in rows])
    return [_scale_row(dict(one), part, scale) for one, part in zip(rows, tokens, strict=True)]


def _scale_row(row: dict[str, Any], tokens: int, scale: float) -> dict[str, Any]:
    """Return a described section; every figure of its reason is in the scale of its tokens."""
    counted, full = int(row["tokens"]), int(row.get("full_tokens", row["tokens"]))
    whole = tokens if full == counted else max(tokens, round(full * scale))
    known, why = {full: whole, counted: tokens}, row.pop("why", None)
    if why is not None:  # older ledgers have only the reason, in our own count
        parts = tuple(part if isinstance(part, str) else known.get(part, round(part * scale)) for part in why)
        row["reason"] = reason_text(row["form"], row["score"], tokens, parts)
    return row | {"tokens": tokens, "full_tokens": whole, "counted": counted, "full_counted": full}
