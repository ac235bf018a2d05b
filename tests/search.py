"""How much of a parametrization runs when: in the gate, in the full matrix, in a long search.

The gate (`python tests/check.py`) leaves out what is marked `matrix`: variants of a row that it runs. The full matrix
(`--all`) runs them too. A search (`HYPOTHESIS_PROFILE=search`) also makes the rows that `some` leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

SEARCHES = os.environ.get("HYPOTHESIS_PROFILE") == "search"


def some(rows: Sequence[T], every: int, first: int = 0) -> Sequence[T]:
    """Every row in a search, else the `first` one and from there one in `every`."""
    return rows if SEARCHES else rows[first::every]


def sample(rows: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """All rows of a parametrization; the gate runs the `first` one and from there one in `every`.

    A row that is a tuple has a value for each argument, also where there is but one.
    """
    parameters = [_parameter(row) for row in rows]
    return [
        row if place >= first and (place - first) % every == 0 else variant(row) for place, row in enumerate(parameters)
    ]


def variant(row: Any) -> Any:
    """Return a row of a parametrization, or a parameter of a fixture, that only the full matrix runs."""
    given = _parameter(row)
    return pytest.param(*given.values, marks=[*given.marks, pytest.mark.matrix], id=given.id)


def in_turn(names: Iterable[str]) -> list[Any]:
    """Each name with False and with True; the gate has it with one of them, the next name with the other."""
    pairs = [((name, bool(place % 2)), (name, not place % 2)) for place, name in enumerate(names)]
    return [row for first, second in pairs for row in (first, variant(second))]


def _parameter(row: Any) -> Any:
    if hasattr(row, "marks"):
        return row
    return pytest.param(*row) if isinstance(row, tuple) else pytest.param(row)
