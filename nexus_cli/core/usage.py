"""Tokens and dollars that a request, a turn or many requests used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from operator import add
from typing import Any

DECIMALS = 8
"""Of an amount of dollars wherever it is kept, streamed or shown."""


def round_dollars(dollars: float) -> float:
    """Return `dollars` without floating-point residue."""
    return round(dollars, DECIMALS)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost; `+` adds them. An unknown cost makes the sum unknown."""

    input: int = 0
    """Prompt tokens, including `cache_read` and `cache_write`."""
    output: int = 0
    """Completion tokens, including `reasoning`."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        cost = (
            None if self.cost_usd is None or other.cost_usd is None else round_dollars(self.cost_usd + other.cost_usd)
        )
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            cost,
        )


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The sum of several requests: tokens, and the known part of their cost. `+` adds sums."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    known_usd: float = 0.0
    """Dollars of the requests with a known price."""
    unpriced: int = 0
    """Number of requests without a known price."""
    unfinished: int = 0
    """Number of requests among them that are under way, or whose process was ended before the answer. Their input is
    estimated."""

    @classmethod
    def of(cls, used: Sequence[Usage], unfinished: int = 0) -> UsageSum:
        """Sum up `used`."""
        return cls(
            len(used),
            sum(one.input for one in used),
            sum(one.output for one in used),
            sum(one.cache_read for one in used),
            sum(one.cache_write for one in used),
            sum(one.reasoning for one in used),
            round_dollars(sum(one.cost_usd or 0.0 for one in used)),
            sum(one.cost_usd is None for one in used),
            unfinished,
        )

    def __add__(self, other: UsageSum) -> UsageSum:
        return UsageSum(*map(add, astuple(self), astuple(other)))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; `cost_usd` is None if a price is unknown."""
        known = round_dollars(self.known_usd)
        return asdict(self) | {"known_usd": known, "cost_usd": None if self.unpriced else known}
