"""Remove from the middle: keep the first and the last groups, fill from the end (seed A)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from nexus_cli.context.strategies import Strategy
from nexus_cli.context.strategies.oldest_first import choose as newest_back


def choose(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
    """Return the indices to keep: the required ones, the first where it fits beside them, then from the newest back."""
    with_first = {*required, 0} if sizes else set(required)
    fits = sum(sizes[index] for index in with_first) <= budget
    return newest_back(sizes, budget, with_first if fits else required)


STRATEGY = Strategy("middle_out", choose)
