"""From a key to its echo on the terminal while an answer of 500 deltas a second arrives, beside a bare prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.typed import DELTAS, Typed, echoes, typed

RATE = 500
"""Deltas in a second."""
KEYS = 64


def share(taken: list[float], part: float) -> float:
    """The figure that this part of `taken` does not exceed."""
    return sorted(taken)[max(0, math.ceil(part * len(taken)) - 1)]


def of_bare(here: Typed, *, answers: bool) -> list[float]:
    """One round of keys at the bare loop."""
    with here.bare(answers=answers) as terminal:
        return echoes(terminal, KEYS)


def of_nexus(here: Typed) -> list[float]:
    """One round of keys in a turn of the REPL."""
    with here.nexus() as terminal:
        return echoes(terminal, KEYS)


def rows(times: int) -> Iterator[Row]:
    """Rounds in turns, a seventh as many as repetitions, each of `KEYS` keys; then the shares of all of them."""
    bare: list[float] = []
    nexus: list[float] = []
    quiet: list[float] = []
    with typed((DELTAS, str(RATE))) as here:
        for _ in range(max(1, times // 7)):
            bare += of_bare(here, answers=True)
            nexus += of_nexus(here)
            quiet += of_bare(here, answers=False)
    for part, most in ((0.5, None), (0.95, 3.0)):
        value, base = milliseconds(share(nexus, part)), milliseconds(share(bare, part))
        yield Row(f"key to echo, {part:.0%} of keys", value, "ms", base, "bare loop, same deltas", most)
    idle = milliseconds(share(quiet, 0.95))
    yield Row("key to echo, 95% of keys", milliseconds(share(nexus, 0.95)), "ms", idle, "bare loop, no deltas")


BENCHMARK = Benchmark("key to echo while 500 deltas a second arrive", rows)
