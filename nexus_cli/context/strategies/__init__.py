"""Truncation strategies: each file here exports one `STRATEGY` and is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """A choice of the groups that stay. Pure."""

    name: str
    choose: Callable[[Sequence[int], int, Set[int]], set[int]]
    """`(sizes, budget, required) -> indices`: group sizes in tokens from oldest to newest, the budget for all of them,
    and the indices that stay in any case. The result contains `required` and, beyond it, never exceeds the budget."""


def strategies() -> dict[str, Strategy]:
    """Return all strategies by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__, __name__ + "."):
        strategy: Strategy = importlib.import_module(module.name).STRATEGY
        found[strategy.name] = strategy
    return found
