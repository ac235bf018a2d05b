"""How far our count is off by kind of content: a linear estimate that every report makes better.

Between two reports of one epoch the provider has counted exactly what was added. Each such difference is one
observation of the factors of the kinds in it, and the first report of an epoch one of the whole window; they are
followed by recursive least squares (a Kalman filter without motion), which starts from the one factor of the model and
needs neither many reports nor a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.context.kinds import Kind, Profile, tokens

SPREAD = (0.4, 0.4, 0.4, 0.6, 0.25, 0.25, 0.75, 0.7, 0.4, 0.5)
"""How far each factor may be from what is assumed at first (standard deviation)."""
ALIKE = (Kind.PROSE, Kind.CODE, Kind.DATA, Kind.WIDE)
TOGETHER = 0.8
"""How much of that is common to the kinds of text (a correlation): what one is off by, the others are likely to be."""
NOISE, NOISE_SHARE = 2.0, 0.01
"""What a single observation is off by itself: tokens, and share of them."""
KNOWN = 0.5
"""Spread of factors that were learned in an earlier session, as a share of `SPREAD`."""
LEAST, MOST = 0.25, 4.0
"""Bounds of the estimate of a piece, per counted token: wider than those of a whole request, in which much is mixed."""

FIXED = (Kind.SYSTEM, Kind.TOOLS)
ON_TOP = (Kind.TOOL, Kind.ASSISTANT, Kind.LENGTH)
"""Kinds whose factors come on top of that of the text's own kind."""

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Factors:
    """The factor of each kind, and how sure it is."""

    values: tuple[float, ...]
    """By `Kind`."""
    covariance: Matrix

    @classmethod
    def of(cls, factor: float, learned: Sequence[float] = (), fixed: float = 1.0) -> Factors:
        """What is assumed at first: `factor` for every kind, or what was `learned` in an earlier session. System text
        and schemas, which were the share `fixed` of what the factor is of, go by it that far."""
        known = len(learned) == len(Kind)
        spread = [share * (KNOWN if known else 1.0) for share in SPREAD]
        beside = 1.0 + (factor - 1.0) * fixed
        start = [0.0 if kind in ON_TOP else beside if kind in FIXED else factor for kind in Kind]
        covariance = tuple(tuple(spread[i] * spread[j] * _alike(i, j) for j in Kind) for i in Kind)
        return cls(tuple(learned) if known else tuple(start), covariance)

    def estimate(self, profile: Profile) -> float:
        """Tokens that the provider will count for what `profile` stands for."""
        counted = tokens(profile)
        said = sum(value * part for value, part in zip(self.values, profile, strict=True))
        return min(MOST * counted, max(LEAST * counted, said))

    def one(self, kind: Kind) -> float:
        """The factor of a kind by itself, within the bounds of an estimate."""
        return min(MOST, max(LEAST, self.values[kind]))

    def learned(self, profile: Profile, reported: float) -> Factors:
        """The factors after the provider counted `reported` tokens for `profile`."""
        size = range(len(Kind))
        spread = [sum(self.covariance[i][j] * profile[j] for j in size) for i in size]
        noise = (NOISE + NOISE_SHARE * max(reported, tokens(profile))) ** 2
        expected = noise + sum(profile[i] * spread[i] for i in size)
        miss = reported - sum(self.values[i] * profile[i] for i in size)
        values = tuple(self.values[i] + spread[i] / expected * miss for i in size)
        covariance = tuple(
            tuple(self.covariance[i][j] - spread[i] * spread[j] / expected for j in size) for i in size
        )
        return Factors(values, covariance)

    def times(self, ratio: float) -> Factors:
        """The factors after a refusal: all of them by `ratio`, and as sure as what an earlier session learned."""
        return Factors.of(ratio, [value * ratio for value in self.values])


def _alike(one: Kind, other: Kind) -> float:
    """The correlation of what two factors are off by at first."""
    if one is other:
        return 1.0
    return TOGETHER if one in ALIKE and other in ALIKE else 0.0
