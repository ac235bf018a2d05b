"""Truncation strategies: choose the groups that stay when the window is over its budget. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TypeAlias

Strategy: TypeAlias = Callable[[Sequence[int], int, Set[int]], set[int]]
"""`(sizes, budget, required) -> indices`: group sizes in tokens from oldest to newest, the budget for all of them, and
the indices that always stay. The result contains `required` and, beyond it, never exceeds the budget."""


def keep_newest(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
    """Return the required ones, counted first, then the newest ones back to the first that does not fit."""
    chosen = set(required)
    total = sum(sizes[index] for index in chosen)
    for index in reversed(range(len(sizes))):
        if index in chosen:
            continue
        if total + sizes[index] > budget:
            break
        total += sizes[index]
        chosen.add(index)
    return chosen


def keep_first_and_newest(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
    """Return the required ones, the first one if it fits beside them, then the newest ones."""
    with_first = {*required, 0} if sizes else set(required)
    fits = sum(sizes[index] for index in with_first) <= budget
    return keep_newest(sizes, budget, with_first if fits else required)


STRATEGIES: Mapping[str, Strategy] = {"oldest_first": keep_newest, "middle_out": keep_first_and_newest}
"""Strategies by the name of the setting."""


def find_strategy(name: str) -> Strategy:
    """Return the strategy with this name; raise `ValueError` for an unknown one."""
    if not isinstance(name, str) or name not in STRATEGIES:
        raise ValueError(f"unknown truncation_strategy {name!r}: use {' or '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name]
