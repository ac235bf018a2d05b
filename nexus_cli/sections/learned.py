"""Learned multipliers: sections that were recalled after they had been left out count for more, the others for less.

A section that a request shortens or leaves out is *missed*; if its text is then read back (`recall`), it was *wanted*.
The ledger counts both for each project. The factor of a section's score is a mean of these events and of some fixed
prior events that make it change slowly, so that it does not depend on their order. It is set when an epoch begins and
stored with that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LEAST, MOST = 0.5, 2.0
"""Bounds of the factor."""
PRIOR_EVENTS = 20
"""Made-up events, half of them wanted: one real event changes the factor by less than 4 %."""

Misses = Mapping[str, tuple[int, int]]
"""By section id: how often it was missed, and how often of these it was wanted."""


def learned_multiplier(missed: int, recalled: int) -> float:
    """Return the factor of the score of a section; 1 without an event, 2 and 0.5 are never exceeded."""
    share = (recalled + PRIOR_EVENTS / 2) / (missed + PRIOR_EVENTS)
    return round(LEAST * math.pow(MOST / LEAST, share), 3)
