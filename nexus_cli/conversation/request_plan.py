"""`RequestPlan`: the figures of one request, its size and expected cache hits, a pure value without its texts.

`project` makes it of the window of a conversation; reports make it of the ledger, also for requests that were sent.
The tests allow no other file to ask an `Estimate` for the size of a request (see `engine/requests/README.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from nexus_cli.conversation.sent_requests import Outlook
from nexus_cli.conversation.tokens.content_kinds import WindowCounts
from nexus_cli.conversation.tokens.estimate import FAR, LEAST, Estimate
from nexus_cli.core.budget import TokenBudget, UsedTokens
from nexus_cli.core.entry import Epoch
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.section_rows import SectionRows, scale_sections

MIN_REPORTED_INPUT = 1_000
"""A smaller report is no count: some servers report a constant, and none has a window of this size."""


@dataclass(frozen=True, eq=False)
class RequestPlan:
    """One request before it is sent."""

    epoch: Epoch
    """System text, tools and model of the request; the new epoch if it begins one."""
    window: WindowCounts
    """Our counts of the messages."""
    waiting: int
    """Our count of the texts waiting for the person's next message, which are not in the window."""
    event_rows: SectionRows
    """Event sections included in its newest message."""
    counted: UsedTokens
    """Tokens by layer, by nexus's own count."""
    budget: TokenBudget
    """The budget with the used tokens by layer, as reported or estimated. `event` is the text that nexus adds to the
    newest message; the message itself counts as history."""
    room: int
    """Most tokens that the request may have: `ContextManager.room`, at most what the budget has available."""
    upper_bound: int
    """Tokens including the margin of the estimate; must not exceed `room` (law 2)."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    outlook: Outlook
    """The best expected cache hit, over all earlier requests."""

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

    def is_cut_by(self, reported: int, unsure: int) -> bool:
        """True if the server's report on the sent request is too small for its text, and does not match the uncached
        part either, which is all that some servers count. The count of `unsure` tokens is not known."""
        sure = (self.counted.total - unsure) * min(1.0, self.scale)
        fresh = self.tokens - self.repeated
        is_fresh_alone = self.repeated > 0 and fresh / FAR <= reported <= fresh * FAR
        return MIN_REPORTED_INPUT <= reported < LEAST * sure and not is_fresh_alone

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
    def sections(self) -> tuple[Annotated[JsonObject, "sections.planner.SectionObject"], ...]:
        """The sections of layers 1 and 3: `tokens` as in the budget, `counted` by nexus's own count."""
        used, rows = self.budget.used, self.epoch.section_rows
        fixed = [{**row, "cached": bool(row.get("cached")) and self.window.sent >= 0} for row in rows]
        system = scale_sections(fixed, used.system, _ratio(used.system, self.counted.system))
        return (*system, *scale_sections(self.event_rows, used.event, self.messages_scale))

    # -- cache -------------------------------------------------------------------------------------------------

    @cached_property
    def repeated(self) -> int:
        """Tokens of the prefix that earlier requests of its epoch already contained."""
        if self.window.sent < 0:
            return 0
        used, before = self.budget.used, self.window.tokens_until(self.window.sent)
        return min(used.total, used.system + used.tools + round(self.messages_scale * before))

    @property
    def cached(self) -> int:
        """Tokens of the request that should be cached."""
        return min(self.tokens, self.outlook.tokens)

    @property
    def uncached_tokens(self) -> int:
        """Tokens of the request that should not be cached; 0 if it extends the whole previous one or is the first."""
        return 0 if self.outlook.shared >= self.outlook.previous else self.tokens - self.cached


def project(
    epoch: Epoch,
    window: WindowCounts,
    estimate: Estimate,
    budget: TokenBudget,
    *,
    room: int | None = None,
    outlook: Outlook | None = None,
    waiting: int = 0,
    event_rows: SectionRows = (),
    added: int = 0,
    reported: int | None = None,
) -> RequestPlan:
    """Return the request of a window under `epoch`. Its size is the `reported` tokens, else the `estimate`; `room` is
    by default what the budget has. `added` are the tokens of texts that the window does not have yet, by our count: of
    `event_rows` and separators, or of one more message."""
    late = sum(int(row["tokens"]) for row in event_rows)
    messages = added + window.totals[-1] + waiting
    counted = UsedTokens(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
    tokens = estimate.expected(counted.total, window) if reported is None else reported
    return RequestPlan(
        epoch,
        window,
        waiting,
        event_rows,
        counted,
        replace(budget, used=estimate.layers(counted, tokens)),
        budget.available if room is None else room,
        estimate.upper(tokens) if reported is None else reported,
        estimate.basis if reported is None else "reported",
        outlook or Outlook(),
    )


def _ratio(used: int, counted: int) -> float:
    return used / max(1, counted)
