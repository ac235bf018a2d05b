"""Tokens and dollars that a request, a turn or many requests used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import add, sub
from typing import Any, ClassVar, Self

DECIMALS = 8
"""Of an amount of dollars wherever it is kept, streamed or shown."""


def round_dollars(amount: float) -> float:
    """Return an amount of dollars without floating-point residue."""
    return round(amount, DECIMALS)


def dollars(value: Any) -> str:
    """Format an amount of US dollars, `-` if it is unknown; below one dollar always with four decimals, to align
    columns."""
    if value is None:
        return "-"
    return f"${value:,.4f}" if round(value, 4) < 1 else f"${value:,.2f}"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that `+` and `-` combine by field, dollars rounded. An unknown one (None) makes the result unknown."""

    def __add__(self, other: Self) -> Self:
        return self._combine(add, other)

    def __sub__(self, other: Self) -> Self:
        return self._combine(sub, other)

    def _combine(self, operation: Callable[[Any, Any], Any], other: Self) -> Self:
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        combined = [None if None in pair else operation(*pair) for pair in pairs]
        return type(self)(*(round_dollars(amount) if isinstance(amount, float) else amount for amount in combined))


@dataclass(frozen=True, slots=True)
class Cost(Amounts):
    """Dollars by component, which `total` adds up."""

    json_fields: ClassVar = "input cached written output"
    input: float = 0.0
    """For input that was neither read from the cache nor written to it."""
    cached: float = 0.0
    """For input that was read from the cache."""
    written: float = 0.0
    """For input that was written to the cache."""
    output: float = 0.0
    saved: float = 0.0
    """Dollars that the cache saved: the price of `cached` and `written` as uncached input, minus their cost. Not part
    of the cost; negative if writing cost more than reading saved."""

    @property
    def total(self) -> float:
        """The dollars of all components."""
        return self.input + self.cached + self.written + self.output


@dataclass(frozen=True, slots=True)
class Usage(Amounts):
    """Tokens and cost."""

    json_fields: ClassVar = "input output cache_read cache_write reasoning cost_usd cost:known_cost"
    input: int = 0
    """Prompt tokens, including `cache_read` and `cache_write`."""
    output: int = 0
    """Completion tokens, including `reasoning`."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_usd: float | None = 0.0
    """null if a price is unknown, never 0."""
    cost: Cost = Cost()
    """The known components of `cost_usd`. A request recorded before schema 9 of the ledger has none."""

    @property
    def tokens(self) -> int:
        """Tokens of input and output."""
        return self.input + self.output

    @property
    def known_cost(self) -> Cost | None:
        """The components of `cost_usd`; null if a price is unknown or an older nexus recorded the sum alone."""
        is_split = self.cost_usd is not None and round_dollars(self.cost_usd - self.cost.total) == 0
        return self.cost if is_split else None


@dataclass(frozen=True, slots=True)
class UsageSum(Amounts):
    """The sum of several requests."""

    json_fields: ClassVar = """
        requests unpriced unfinished *:usage known_usd known_cost:priced.cost saved_usd:priced.cost.saved
    """
    priced: Usage = Usage()
    """Their tokens, and the dollars of those with a known price."""
    requests: int = 0
    unpriced: int = 0
    """Number of requests without a known price."""
    unfinished: int = 0
    """Number of requests that are in progress, or whose process ended before the answer. Their input is
    estimated."""

    @classmethod
    def of(cls, used: Sequence[Usage], unfinished: int = 0) -> UsageSum:
        """Sum up `used`."""
        paid = round_dollars(sum(usage.cost_usd or 0.0 for usage in used))
        total = replace(sum(used, Usage()), cost_usd=paid)
        return cls(total, len(used), sum(usage.cost_usd is None for usage in used), unfinished)

    @property
    def known_usd(self) -> float:
        """The dollars of the requests with a known price."""
        return self.priced.cost_usd or 0.0

    @property
    def usage(self) -> Usage:
        """The sum as a usage, whose cost is unknown if a price is."""
        return replace(self.priced, cost_usd=None) if self.unpriced else self.priced
