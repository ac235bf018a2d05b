"""What a long search runs and the suite does not: `HYPOTHESIS_PROFILE=search`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SEARCHES = os.environ.get("HYPOTHESIS_PROFILE") == "search"


def some(rows: Sequence[T], every: int, first: int = 0) -> Sequence[T]:
    """Every row in a search, else the `first` one and from there one in `every`."""
    return rows if SEARCHES else rows[first::every]
