"""Tokens and dollars that a request or a turn used."""

from __future__ import annotations

from dataclasses import dataclass

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
