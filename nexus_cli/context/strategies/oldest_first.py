"""Remove the oldest groups: fill the budget from the newest backwards (seed A, the default)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from nexus_cli.context.strategies import Strategy


def choose(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
    """Return the indices to keep: the required ones, then from the newest back to the first that does not fit."""
    kept = set(required)
    total = sum(sizes[index] for index in kept)
    for index in reversed(range(len(sizes))):
        if index in kept:
            continue
        if total + sizes[index] > budget:
            break
        total += sizes[index]
        kept.add(index)
    return kept


STRATEGY = Strategy("oldest_first", choose)
