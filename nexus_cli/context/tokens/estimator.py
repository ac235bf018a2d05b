"""Estimate the tokens of a request: the last reported figure, plus one ratio per kind of content.

Our counter is not the provider's tokenizer. How many provider tokens one counted token is differs by kind of content,
so each kind has a ratio, learned per model from reports and stored. Only what no report of the epoch covers is an
estimate. `upper` adds the known error (law 2): 10 % until five reports of a model, then the largest miss of the reports
that are kept. What a refusal says of a request is no report: it changes the estimate by at most `FAR`, until a report
agrees, and is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import mul

from nexus_cli.context.tokens.content_kinds import EMPTY, PLAIN, ByKind, ContentKind, WindowContents, plus, times
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.services import Calibration

KNOWN_ERROR = 0.10
"""Assumed until `ENOUGH` reports."""
ENOUGH = 5
KEPT = 50
"""Reports whose misses are kept."""
ROUNDING = 2
"""Tokens that rounding may add to an estimate."""
LEAST, MOST = 0.5, 2.5
"""Reports outside these multiples of our count are not believed."""
LEAST_RATIO, MOST_RATIO = 0.25, 4.0
"""Bounds of one kind's ratio: wider, as a request mixes kinds."""
FAR = 1.5
"""A report further than this factor from the estimate is believed when it comes twice."""
DISTRUST = 3
"""Unbelievable reports in a row after which an earlier one does not anchor any more."""
NONE = 0.05
"""Share of our count below which a report is none: some servers report 0 or 1 for any request."""
SMALL = 200
"""Counts below this teach nothing: fixed overhead drowns the ratio."""


START, LEARNED, MOST_WEIGHT, FIRM = 60.0, 2_000.0, 8_000.0, 100_000.0
"""Counted tokens that a ratio is the mean of: before any report, from an earlier session, at most, so that the newest
reports count for something, and for a fixed part that was reported nearly alone."""
ALONE = 0.8
"""Share of a request that the fixed part is at least to be nearly alone."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Provider tokens per counted token by kind: the mean of what was reported for it."""

    values: ByKind
    weights: ByKind
    """Counted tokens that each is the mean of."""

    @classmethod
    def start(cls, factor: float, learned: Sequence[float] = ()) -> Ratios:
        """Return what an earlier session learned, else `factor` for every kind."""
        if len(learned) == len(ContentKind):
            return cls(_bounded_ratios(learned), _each(LEARNED))
        return cls(_bounded_ratios(_each(factor)), _each(START))

    def tokens(self, counted: ByKind) -> float:
        """Return the provider tokens of some content."""
        return float(sum(map(mul, self.values, counted)))

    def observe(self, counted: ByKind, reported: float) -> Ratios:
        """Return the ratios after the provider counted `reported` tokens for some content.

        The difference to what was expected goes to the kinds in it, most to those of which little was reported before;
        all of it to the fixed part the first time that this is nearly alone.
        """
        miss, fixed = reported - self.tokens(counted), counted[ContentKind.FIXED]
        if fixed > ALONE * sum(counted) and self.weights[ContentKind.FIXED] < FIRM:
            first = self.values[ContentKind.FIXED] + miss / fixed
            return Ratios(_bounded_ratios((first, *self.values[1:])), (FIRM, *self.weights[1:]))
        parts = list(zip(self.values, self.weights, counted, strict=True))
        unsure = [part * part / (weight + part) if part else 0.0 for _, weight, part in parts]
        miss /= sum(unsure) or 1.0
        moved = [miss * one / (weight + part or 1.0) for one, (_, weight, part) in zip(unsure, parts, strict=True)]
        weights = (max(weight, min(MOST_WEIGHT, weight + part)) for _, weight, part in parts)
        return Ratios(_bounded_ratios(plus(self.values, moved)), tuple(weights))

    def scaled(self, factor: float) -> Ratios:
        """Return every ratio times `factor`, as sure as what an earlier session learned."""
        return Ratios(_bounded_ratios(times(self.values, factor)), _each(LEARNED))

    def doubted(self) -> Ratios:
        """Return the same ratios, with next to no weight: the next observation decides."""
        return Ratios(self.values, _each(1.0))


def _each(value: float) -> ByKind:
    return (value,) * len(ContentKind)


def _bounded_ratios(values: Iterable[float]) -> ByKind:
    return tuple(min(MOST_RATIO, max(LEAST_RATIO, value)) for value in values)


@dataclass(frozen=True, slots=True)
class Scale:
    """A conversion between our count of a request and provider tokens: a line with a bend behind the fixed part."""

    ratio: float
    """Tokens for each one that we count of the messages."""
    fixed: float = 0.0
    """Our count of system text and schemas."""
    expected: float = 0.0
    """Tokens that they take."""

    def tokens(self, counted: float) -> float:
        """Return the tokens of a request of which we count `counted` in all."""
        if counted < self.fixed:
            return self.expected * counted / self.fixed
        return self.expected + (counted - self.fixed) * self.ratio

    def counted(self, tokens: float) -> float:
        """Return how many counted tokens are in `tokens`."""
        if tokens < self.expected:
            return self.fixed * tokens / self.expected
        return self.fixed + (tokens - self.expected) / self.ratio


@dataclass(frozen=True, slots=True)
class Anchor:
    """The provider's report for a request that ended with entry `last`."""

    last: int
    reported: int
    counted: int
    """Our count of the same request."""
    exact: bool = True
    """The provider counted just this; else it is what is left of such a count, from which no difference is learned."""


@dataclass(slots=True)
class ProviderStats:
    """Statistics of how one model's provider counts; shared by a lane and its forks."""

    calibration: Calibration
    ratios: Ratios
    doubt: float = 0.0
    """The miss of the newest report, where that is not believed yet."""
    unrefused: Ratios | None = None
    """The ratios before refusals changed them, until a report comes."""
    refused: float = 1.0
    """The factor by which refusals changed them."""


class TokenEstimator:
    """The estimator of one lane's requests to one model."""

    def __init__(
        self,
        calibration: Calibration | None = None,
        contents: WindowContents | None = None,
        learned: ProviderStats | None = None,
    ) -> None:
        known = calibration or Calibration()
        self._learned = learned or ProviderStats(known, Ratios.start(known.factor, known.ratios))
        self.anchor: Anchor | None = None
        self.contents = contents
        """The window's content by kind; the rest of a count is taken for prose."""
        self._odd = 0

    @property
    def calibration(self) -> Calibration:
        """Return what was learned, as it is stored."""
        return self._learned.calibration

    @property
    def state(self) -> tuple[object, ...]:
        """Return what compares unequal once an estimate of the same window may be another one."""
        return self.anchor, self.calibration, self._learned.ratios, self._learned.doubt

    @property
    def basis(self) -> str:
        """`reported+estimate` with an anchor, else `estimate`."""
        return "reported+estimate" if self.anchor else "estimate"

    @property
    def error(self) -> float:
        """Return the known error as a share of what is estimated."""
        known = self.calibration.worst if self.calibration.reports >= ENOUGH else KNOWN_ERROR
        return max(known, self._learned.doubt)

    def estimate(self, counted: int) -> int:
        """Return the expected tokens of a request of which we count `counted` in all."""
        if self.anchor is None:
            return round(self.scale().tokens(counted))
        return max(0, self.anchor.reported + round(self._beyond(self.anchor, counted)))

    def _beyond(self, anchor: Anchor, counted: int) -> float:
        """Return the expected tokens of what came after the anchor: by kind as far as the window shows it."""
        added, ratio = counted - anchor.counted, self.scale().ratio
        shown = self.contents.since(anchor.last) if self.contents and added > 0 else EMPTY
        if sum(shown) > added + 1:  # more than rounding: this is not about the window
            return ratio * added
        return self._learned.ratios.tokens(shown) + ratio * (added - sum(shown))

    def upper(self, counted: int) -> int:
        """Return the estimate plus its known error: what has to fit."""
        estimate, reported = self.estimate(counted), self.anchor.reported if self.anchor else 0
        return reported + round((estimate - reported) * (1 + self.error)) if estimate > reported else estimate

    def countable(self, tokens: int, of: ByKind | None = None) -> int:
        """Return how many counted tokens surely fit into `tokens`, system text and schemas among them; the messages
        are like those of the window, or like `of`."""
        return int(self.scale(of).counted(max(0, tokens - ROUNDING) / (1 + self.error)))

    def scale(self, of: ByKind | None = None) -> Scale:
        """Return the scale of the window, or of one whose messages are like `of`; made for no particular anchor."""
        fixed = self.contents.fixed() if self.contents else EMPTY
        counted, expected = sum(fixed), self._learned.ratios.tokens(fixed)
        if of is None and self.contents and self.anchor and self.anchor.counted - counted >= SMALL:
            ratio = (self.anchor.reported - expected) / (self.anchor.counted - counted)
            return Scale(min(MOST_RATIO, max(LEAST_RATIO, ratio)), counted, expected)
        messages = of or (self.contents.messages() if self.contents else EMPTY)
        known = sum(messages)
        ratios = self._learned.ratios
        ratio = ratios.tokens(messages) / known if known else ratios.values[ContentKind.PROSE]
        return Scale(ratio, counted, expected)

    def layers(self, counted: UsedTokens, reported: int | None = None) -> UsedTokens:
        """Return tokens by layer for our counts of them, in sum the estimate, or what was `reported`.

        System text and schemas follow their own ratio, so that the same text is as many tokens at every step.
        """
        total = self.estimate(counted.total) if reported is None else reported
        ratio, messages = self._learned.ratios.values[ContentKind.FIXED], counted.history + counted.event
        fixed = round(ratio * counted.system), round(ratio * counted.tools)
        rest = min(MOST_RATIO * messages, max(LEAST_RATIO * messages, total - sum(fixed)))
        rest = total if not sum(fixed) else min(total, round(rest))
        return UsedTokens(*apportion(total - rest, fixed), *apportion(rest, (counted.history, counted.event)))

    def set_anchor(self, last: int, counted: int, reported: int, *, exact: bool = True) -> bool:
        """Go on from what was reported for the newest request, also by an earlier process; False if that is no
        believable count of it."""
        if reported <= 0 or not LEAST * counted <= reported <= self._most(counted):
            self._odd += 1
            if self._odd >= DISTRUST:
                self.anchor = None  # the window has grown since it was right
            return False
        self._odd = 0
        self.anchor = Anchor(last, reported, counted, exact)
        return True

    @staticmethod
    def is_possible(counted: int, reported: int, window: int) -> bool:
        """True if a report can be that of a request of which we count `counted`; else it is treated as missing.

        A possible one that is far off is still what the provider charges for; `learn` decides what it teaches.
        """
        return counted * NONE <= reported <= window

    def _most(self, counted: int) -> float:
        """Return the largest believable report: the wording of schemas may be most of a small request."""
        fixed = min(counted, sum(self.contents.fixed())) if self.contents else 0
        return MOST_RATIO * fixed + MOST * (counted - fixed)

    def learn(self, last: int, counted: int, reported: int, *, teaches: bool = True) -> Calibration | None:
        """Learn from a reported input; returns the new calibration, or None when nothing was learned.

        A report that is not believed changes nothing. One that is far from the estimate anchors, and teaches nothing
        until the next one agrees. Without `teaches` (the request held images) it anchors this epoch only.
        """
        before = self.anchor
        if not self.set_anchor(last, counted, reported) or counted < SMALL or not teaches:
            return None
        self._review_refusals(counted, reported)
        expected = self.estimate_without_anchor(counted)
        old, doubt = self.calibration, self._learned.doubt
        miss = min(1.0, abs(reported - expected) / reported) if old.reports else 0.0
        far = old.reports >= ENOUGH and not expected / FAR <= reported <= expected * FAR
        self._learned.doubt = miss if far and not doubt else 0.0
        if self._learned.doubt:
            return None
        if far:
            self._learned.ratios = self._learned.ratios.doubted()
        self._learn_ratios(None if far or doubt else before, last, counted, reported)
        self._learned.calibration = replace(
            old,
            factor=_clamp(reported / counted),
            reports=old.reports + 1,
            ratios=self._learned.ratios.values,
            misses=(*old.misses, round(miss, 4))[-KEPT:],
        )
        return self.calibration

    def _learn_ratios(self, before: Anchor | None, last: int, counted: int, reported: int) -> None:
        """Learn the ratios from what was added since the report `before`, else from the whole window."""
        ratios = self._learned.ratios
        if before is None or not before.exact or self.contents is None:
            self._learned.ratios = ratios.observe(self._whole(counted), reported)
            return
        added = plus(self.contents.since(before.last), times(self.contents.since(last), -1.0))
        if sum(added) > 0 and reported > before.reported:
            self._learned.ratios = ratios.observe(added, reported - before.reported)

    def _whole(self, counted: int) -> ByKind:
        """Return a request of which we count `counted` by kind: as the window is, the rest as prose."""
        shown = plus(self.contents.fixed(), self.contents.messages()) if self.contents else EMPTY
        if sum(shown) > counted:
            return times(shown, counted / sum(shown))
        return plus(shown, times(PLAIN, counted - sum(shown)))

    def estimate_without_anchor(self, counted: int) -> float:
        """Return the estimate that is made without an anchor: that of a window which was just rewritten."""
        anchor, self.anchor = self.anchor, None
        try:
            return self.scale().tokens(counted)
        finally:
            self.anchor = anchor

    def learn_from_overflow(self, counted: int, reported: int | None, limit: int | None) -> Calibration:
        """Learn from a refusal: `reported` is the provider's count of the request, `limit` its window, where named.

        However many refusals come, and whatever they say, the estimate changes by `FAR` at most until a report agrees.
        """
        old, expected, counted = self.calibration, self.estimate_without_anchor(counted), max(1, counted)
        tokens = float(reported or (max(expected * 1.1, 1.05 * limit) if limit else expected * 1.3))
        tokens = counted * _clamp(tokens / counted)
        self.anchor = None
        if expected > 0:
            known = self._learned
            known.unrefused = known.unrefused or known.ratios
            known.refused = min(FAR, max(1 / FAR, known.refused * tokens / expected))
            known.ratios = known.unrefused.scaled(known.refused)
        misses = (*old.misses, KNOWN_ERROR)[-KEPT:]
        self._learned.calibration = replace(old, window=limit or old.window, misses=misses)
        return self.calibration

    def _review_refusals(self, counted: int, reported: int) -> None:
        """Take back what refusals said where a report is nearer to what was expected before them."""
        known = self._learned
        if known.unrefused is None:
            return
        refused, told = known.ratios, self.estimate_without_anchor(counted)
        known.ratios, known.unrefused, known.refused = known.unrefused, None, 1.0
        if abs(told - reported) < abs(self.estimate_without_anchor(counted) - reported):
            known.ratios = refused

    def forget_window(self) -> None:
        """Forget the window that a refusal once named: a larger request was answered."""
        self._learned.calibration = replace(self.calibration, window=0)

    def fork(self) -> TokenEstimator:
        """Return an estimator for a lane that begins as this one; both learn from the reports of either."""
        other = TokenEstimator(contents=self.contents, learned=self._learned)
        other.anchor = self.anchor
        return other

    def forget(self) -> None:
        """Drop the anchor: of a new epoch nothing was reported yet."""
        self.anchor = None


def _clamp(factor: float) -> float:
    return min(MOST, max(LEAST, factor))


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Share `total` out in whole numbers in proportion to `weights`, by largest remainder.

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
