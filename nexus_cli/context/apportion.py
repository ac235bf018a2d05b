"""Whole numbers that add up: a total shared out in proportion, so that rows come to what their heading says. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts as the weights are, by largest remainder; the first of equals gets the odd one.

    The parts add up to `total` exactly, except where all weights are 0: then each part is 0.
    """
    whole = sum(weights)
    if whole <= 0 or total <= 0:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    rest = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place))
    for place in rest[: total - sum(parts)]:
        parts[place] += 1
    return parts
