"""A logistic regression over named features, in plain Python: what `fit` and `fit_values` learn their weights with."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROUNDS = 60
RATE = 0.15
DECAY = 1.0
"""How hard a weight is pulled to zero."""
RARE = 2
"""A feature in fewer examples than this is left out."""
PASSES = 14
STEP = 0.3


@dataclass(frozen=True)
class Example:
    """A sentence or a token with its features and the kinds it was labelled with."""

    role: str
    text: str
    features: frozenset[str]
    kinds: frozenset[str]
    source: str
    length: int = 1
    """By whose root its features are divided in `learned`."""


@dataclass(frozen=True)
class Matter:
    """Examples of a role as numbers: for each the features that are not rare, as indices."""

    names: list[str]
    rows: list[list[int]]
    factors: list[float]
    given: list[Example]


def matter(given: Sequence[Example]) -> Matter:
    """The examples as numbers."""
    counts = Counter(feature for example in given for feature in example.features)
    names = sorted(feature for feature, count in counts.items() if count >= RARE)
    index = {name: number for number, name in enumerate(names)}
    rows = [sorted(index[name] for name in example.features if name in index) for example in given]
    return Matter(names, rows, [example.length**-0.5 for example in given], list(given))


Scale = Callable[[Matter, str], list[float]]
"""How much each feature counts before anything is learned about its weight."""


def by_rarity(matter: Matter, kind: str) -> list[float]:
    """What is rare counts more: the log of how rare it is."""
    seen = Counter(number for row in matter.rows for number in row)
    return [max(0.0, math.log(len(matter.rows) / (1 + seen[number]))) for number in range(len(matter.names))]


def by_leaning(matter: Matter, kind: str) -> list[float]:
    """What is found far oftener, or more seldom, with the kind than without counts more."""
    sides: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    for row, example in zip(matter.rows, matter.given, strict=True):
        sides[kind in example.kinds].update(row)
    size = len(matter.names)
    total = {side: sum(counts.values()) + size for side, counts in sides.items()}
    return [
        math.sqrt(abs(math.log((sides[True][n] + 1) / total[True] * total[False] / (sides[False][n] + 1))))
        for n in range(size)
    ]


def learned(matter: Matter, kind: str, scales: Sequence[float], decay: float) -> dict[str, float]:
    """Weights of scaled features by small steps, one example after the other; "" is added always.

    The order is drawn from a fixed seed, so the result is the same in every process.
    """
    seen = Counter(number for row in matter.rows for number in row)
    pull = [decay / max(seen[number], 1) for number in range(len(scales))]
    weights, heat = [0.0] * len(scales), [1e-6] * len(scales)
    bias, bias_heat = 0.0, 1e-6
    order = list(range(len(matter.rows)))
    draw = random.Random(7)
    for _ in range(PASSES):
        draw.shuffle(order)
        for at in order:
            row, factor = matter.rows[at], matter.factors[at]
            total = bias + factor * sum(weights[n] * scales[n] for n in row)
            wanted = kind in matter.given[at].kinds
            error = 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))) - wanted
            bias_heat += error * error
            bias -= STEP * error / math.sqrt(bias_heat)
            for n in row:
                slope = error * factor * scales[n] + pull[n] * weights[n]
                heat[n] += slope * slope
                weights[n] -= STEP * slope / math.sqrt(heat[n])
    found = {name: weights[n] * scales[n] for n, name in enumerate(matter.names)}
    return {"": bias, **found}


def fit(given: Sequence[Example], kind: str, decay: float = DECAY) -> dict[str, float]:
    """Weights of the features for a kind; the one of "" is added always. Nothing is drawn at random."""
    counts = Counter(feature for example in given for feature in example.features)
    rows = [
        (sorted(feature for feature in example.features if counts[feature] >= RARE), float(kind in example.kinds))
        for example in given
    ]
    weights: dict[str, float] = defaultdict(float)
    speed: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(float)
    for number in range(ROUNDS):
        slopes: dict[str, float] = defaultdict(float)
        for present, wanted in rows:
            total = weights[""] + sum(weights[feature] for feature in present)
            error = 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))) - wanted
            for feature in ("", *present):
                slopes[feature] += error
        for feature, slope in slopes.items():
            slope += decay * weights[feature] if feature else 0
            squares[feature] = 0.9 * squares[feature] + 0.1 * slope * slope
            speed[feature] = 0.8 * speed[feature] + 0.2 * slope
            weights[feature] -= RATE / (1 + 0.05 * number) * speed[feature] / (math.sqrt(squares[feature]) + 1e-3)
    return dict(weights)
