"""`RequestPlan`: the content, size and expected cache hits of one request, a pure value.

`project` makes it of the window of a conversation; reports make it of the ledger, also for requests that were sent.
The tests allow no other file to ask an `Estimate` for the size of a request (see `engine/requests/README.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from nexus_cli.conversation.cache_diagnosis import expected_cached, seconds_between
from nexus_cli.conversation.groups import Group, flatten, group_tool_calls
from nexus_cli.conversation.render import prefix_sha256
from nexus_cli.conversation.sent_requests import EarlierRequests
from nexus_cli.conversation.tokens.content_kinds import WindowContents
from nexus_cli.conversation.tokens.estimate import FAR, LEAST, Estimate
from nexus_cli.core.budget import TokenBudget, UsedTokens
from nexus_cli.core.entry import Epoch, WindowItem, sum_tokens
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.section_rows import SectionRows, scale_sections

LEAST_READ = 1_000
"""A smaller report is no count: some servers report a constant, and none has a window of this size."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected cache hit of a request."""

    tokens: int
    """Expected cached tokens, from the previous request or one of a former epoch."""
    messages: int
    """Wire messages of those tokens if a new epoch begins, else 0."""
    shared: int
    """Tokens of the prefix in common with the previous request."""
    age: float | None
    """Seconds since the last use of that prefix; None if unknown."""
    at: datetime


@dataclass(frozen=True, eq=False)
class RequestPlan:
    """One request before it is sent."""

    epoch: Epoch
    """System text, tools and model of the request; the new epoch if it begins one."""
    items: tuple[WindowItem, ...]
    """The window, in chronological order."""
    waiting: tuple[WindowItem, ...]
    """Texts waiting for the person's next message."""
    sent: int
    """The last entry that an earlier request of this epoch contained; -1 if there was none."""
    told: SectionRows
    """Event sections included in its newest message."""
    counted: UsedTokens
    """Tokens by layer, by our own count."""
    budget: TokenBudget
    """The budget with the used tokens by layer, as reported or estimated. `event` is the text we add to the newest
    message; the message itself counts as history."""
    room: int
    """Most tokens that the request may have: `ContextManager.room`, at most what the budget has available."""
    upper_bound: int
    """Tokens including the margin of the estimate; must not exceed `room` (law 2)."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    earlier: EarlierRequests

    @property
    def tokens(self) -> int:
        """Tokens of the request: the figure shown in status line, reports, events and results."""
        return self.budget.used.total

    @property
    def fits(self) -> bool:
        """True if the estimate with its margin fits (law 2)."""
        return self.upper_bound <= self.room

    def needs_room(self, share: float) -> bool:
        """True if it does not fit, or takes the `share` of its budget from which on a window is compacted."""
        return not self.fits or self.tokens >= share * self.budget.available

    def is_cut_by(self, reported: int) -> bool:
        """True if a report of the server on the sent request is too small for its text, and too large or too small for
        what no cache had of it, which is all that some servers count."""
        # Images and the thinking of earlier turns are charged in other ways by each provider.
        unsure = sum(item.tokens for item in self.items if item.message.parts or item.message.opaque)
        sure = (self.counted.total - unsure) * min(1.0, self.scale)
        fresh = self.tokens - self.repeated
        is_fresh_alone = self.repeated > 0 and fresh / FAR <= reported <= fresh * FAR
        return LEAST_READ <= reported < LEAST * sure and not is_fresh_alone

    @cached_property
    def groups(self) -> list[Group]:
        """The window as atomic groups."""
        return group_tool_calls(self.items)

    @cached_property
    def arranged(self) -> list[WindowItem]:
        """The window in the order in which it is sent."""
        return flatten(self.groups)

    @property
    def prefix_sha256(self) -> str:
        """The hash of the lines with which the request begins."""
        return prefix_sha256(self.epoch, self.arranged)

    # -- sections ----------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """Ratio of the request's tokens to our count."""
        return _ratio(self.tokens, self.counted.total)

    @property
    def messages_scale(self) -> float:
        """The same ratio for the messages alone, with our additions to them."""
        used, counted = self.budget.used, self.counted
        beside = used.history + used.event
        return _ratio(beside, counted.history + counted.event) if beside else self.scale

    @cached_property
    def sections(self) -> tuple[JsonObject, ...]:
        """Return the sections of layers 1 and 3, in `tokens` of the budget and `counted` by us."""
        used, rows = self.budget.used, self.epoch.section_rows
        fixed = [{**row, "cached": bool(row.get("cached")) and self.sent >= 0} for row in rows]
        system = scale_sections(fixed, used.system, _ratio(used.system, self.counted.system))
        return (*system, *scale_sections(self.told, used.event, self.messages_scale))

    # -- cache -------------------------------------------------------------------------------------------------

    @cached_property
    def repeated(self) -> int:
        """Tokens of the prefix that earlier requests of its epoch already contained."""
        if self.sent < 0:
            return 0
        used, before = self.budget.used, sum(item.tokens for item in self.items if item.entry <= self.sent)
        return min(used.total, used.system + used.tools + round(self.messages_scale * before))

    @cached_property
    def _shared(self) -> list[tuple[int, int]]:
        """Tokens and wire messages of the prefix in common with each earlier request."""
        before = self.earlier.requests
        if before and before[0][0].epoch is self.epoch:
            return [(before[0][0].tokens, 0)]
        return [earlier.shares(self.epoch, self.items) for earlier, _ in before]

    @cached_property
    def outlook(self) -> Outlook:
        """The best expected cache hit, over all earlier requests."""
        now, life = self.earlier.now, self.earlier.life
        outlooks = []
        for (_, used), (shared, messages) in zip(self.earlier.requests, self._shared, strict=False):
            seconds = seconds_between(used, now)
            outlooks.append(Outlook(expected_cached(life, shared, seconds), messages, shared, seconds, now))
        if not outlooks:
            return Outlook(0, 0, 0, None, now)
        best = max(outlooks, key=lambda outlook: outlook.tokens)
        return replace(outlooks[0], tokens=best.tokens, messages=best.messages)

    @property
    def cached(self) -> int:
        """Tokens of the request that should be cached."""
        return min(self.tokens, self.outlook.tokens)

    @property
    def sent_anew(self) -> int:
        """Tokens of the request that should not be cached; 0 if it extends the whole previous one or is the first."""
        if not self.earlier.requests or self._shared[0][0] >= self.earlier.requests[0][0].tokens:
            return 0
        return self.tokens - self.cached


def project(
    contents: WindowContents,
    estimate: Estimate,
    budget: TokenBudget,
    *,
    room: int | None = None,
    earlier: EarlierRequests | None = None,
    waiting: Sequence[WindowItem] = (),
    told: SectionRows = (),
    added: int = 0,
    reported: int | None = None,
) -> RequestPlan:
    """Return the request with these contents. Its size is the `reported` tokens, else the `estimate`; `room` is by
    default what the budget has. `added` are the tokens of texts that the contents do not have yet, by our count: of
    `told` and separators, or of one more message."""
    epoch, items, late = contents.epoch, contents.items, sum(int(row["tokens"]) for row in told)
    messages = added + sum_tokens(items) + sum_tokens(waiting)
    counted = UsedTokens(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
    tokens = estimate.expected(counted.total, contents) if reported is None else reported
    return RequestPlan(
        epoch,
        items,
        tuple(waiting),
        contents.sent,
        told,
        counted,
        replace(budget, used=estimate.layers(counted, tokens)),
        budget.available if room is None else room,
        estimate.upper(tokens) if reported is None else reported,
        estimate.basis if reported is None else "reported",
        earlier or EarlierRequests(),
    )


def _ratio(used: int, counted: int) -> float:
    return used / max(1, counted)
