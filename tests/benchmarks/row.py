"""What a benchmark gives back: rows, each a figure beside its baseline of the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    value: float
    """In `unit`, the median of the run."""
    unit: str
    base: float | None = None
    """The baseline's figure in the same unit, measured in the same run."""
    against: str = ""
    """What the baseline is."""
    most: float | None = None
    """The largest allowed ratio to the baseline; without a baseline the largest allowed value."""

    @property
    def ratio(self) -> float | None:
        """Value by baseline, or None."""
        return self.value / self.base if self.base else None

    @property
    def holds(self) -> bool | None:
        """Whether the bound holds; None where there is none."""
        if self.most is None:
            return None
        figure = self.value if self.base is None else self.ratio
        return figure is not None and figure <= self.most


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One file's measurement. A file of this folder exports it as `BENCHMARK`."""

    about: str
    rows: Callable[[int], Iterator[Row]]
    """Given the number of repetitions, yields rows as they are ready."""
