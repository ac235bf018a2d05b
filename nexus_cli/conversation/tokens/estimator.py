"""Estimate the tokens of a request: the last reported figure, plus one ratio per kind of content.

Our counter is not the provider's tokenizer. The number of provider tokens per counted token depends on the kind of
content, so each kind has a ratio, learned per model from reports and stored. Only content that no report of the epoch
covers is estimated. `upper` adds the known error (law 2): 10 % until five reports of a model, then the largest miss of
the kept reports. The figures of a refusal are not a report: they change the estimate by at most `FAR` until a report
agrees, and are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import mul

from nexus_cli.conversation.tokens.content_kinds import EMPTY, PLAIN, ByKind, ContentKind, WindowContents, plus, times
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.services import Calibration

KNOWN_ERROR = 0.10
"""Assumed error until `ENOUGH` reports."""
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
"""Consecutive implausible reports after which an earlier one is no longer the anchor."""
NONE = 0.05
"""Share of our count below which a report is ignored: some servers report 0 or 1 for any request."""
SMALL = 200
"""Counts below this are not learned from: the fixed overhead dominates the ratio."""


START, LEARNED, MOST_WEIGHT, FIRM = 60.0, 2_000.0, 8_000.0, 100_000.0
"""Weight of a ratio in counted tokens: before any report, from an earlier session, at most (so that the newest reports
matter), and for a fixed part that was reported nearly alone."""
ALONE = 0.8
"""Least share of the fixed part in a request to count as nearly alone."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Provider tokens per counted token by kind: the mean of its reports."""

    values: ByKind
    weights: ByKind
    """Weight of each ratio in counted tokens."""

    @classmethod
    def start(cls, factor: float, learned: Sequence[float] = ()) -> Ratios:
        """Return the ratios of an earlier session, else `factor` for every kind."""
        if len(learned) == len(ContentKind):
            return cls(_bounded_ratios(learned), _each(LEARNED))
        return cls(_bounded_ratios(_each(factor)), _each(START))

    def tokens(self, counted: ByKind) -> float:
        """Return the provider tokens of some content."""
        return float(sum(map(mul, self.values, counted)))

    def observe(self, counted: ByKind, reported: float) -> Ratios:
        """Return the ratios after the provider counted `reported` tokens for some content.

        The difference to the expectation is shared among the kinds in the content, most to those with few reports so
        far. The first time that the fixed part is nearly alone, it gets all of the difference.
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
        """Return every ratio times `factor`, with the weight of an earlier session's ratios."""
        return Ratios(_bounded_ratios(times(self.values, factor)), _each(LEARNED))

    def doubted(self) -> Ratios:
        """Return the same ratios with almost no weight, so that the next observation decides."""
        return Ratios(self.values, _each(1.0))


def _each(value: float) -> ByKind:
    return (value,) * len(ContentKind)


def _bounded_ratios(values: Iterable[float]) -> ByKind:
    return tuple(min(MOST_RATIO, max(LEAST_RATIO, value)) for value in values)


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts between our count of a request and provider tokens: a line with a bend after the fixed part."""

    ratio: float
    """Provider tokens per counted token of the messages."""
    fixed: float = 0.0
    """Our count of system text and schemas."""
    expected: float = 0.0
    """Expected tokens of system text and schemas."""

    def tokens(self, counted: float) -> float:
        """Return the provider tokens of a request with `counted` tokens by our count."""
        if counted < self.fixed:
            return self.expected * counted / self.fixed
        return self.expected + (counted - self.fixed) * self.ratio

    def counted(self, tokens: float) -> float:
        """Convert provider tokens to our count."""
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
    """True if the provider counted exactly this request; else it is the rest of such a count, which is not learned
    from."""


@dataclass(slots=True)
class ProviderStats:
    """Statistics of how one model's provider counts; shared by a lane and its forks."""

    calibration: Calibration
    ratios: Ratios
    doubt: float = 0.0
    """The miss of the newest report, if it is not believed yet."""
    unrefused: Ratios | None = None
    """The ratios before refusals changed them, until a report comes."""
    refused: float = 1.0
    """The factor by which refusals changed them."""


class TokenEstimator:
    """Estimates one lane's requests to one model."""

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
        """The window's content by kind; the rest of a count is treated as prose."""
        self._odd = 0

    @property
    def calibration(self) -> Calibration:
        """Return the learned ratios in the stored form."""
        return self._learned.calibration

    @property
    def basis(self) -> str:
        """`reported+estimate` with an anchor, else `estimate`."""
        return "reported+estimate" if self.anchor else "estimate"

    @property
    def error(self) -> float:
        """Return the known error as a share of the estimated part."""
        known = self.calibration.worst if self.calibration.reports >= ENOUGH else KNOWN_ERROR
        return max(known, self._learned.doubt)

    def estimate(self, counted: int) -> int:
        """Return the expected tokens of a request with `counted` tokens by our count."""
        if self.anchor is None:
            return round(self.scale().tokens(counted))
        return max(0, self.anchor.reported + round(self._beyond(self.anchor, counted)))

    def _beyond(self, anchor: Anchor, counted: int) -> float:
        """Return the expected tokens of the content after the anchor, by kind as far as the window shows it."""
        added, ratio = counted - anchor.counted, self.scale().ratio
        shown = self.contents.since(anchor.last) if self.contents and added > 0 else EMPTY
        if sum(shown) > added + 1:  # more than rounding: this is not about the window
            return ratio * added
        return self._learned.ratios.tokens(shown) + ratio * (added - sum(shown))

    def upper(self, counted: int) -> int:
        """Return the estimate plus its known error, which has to fit."""
        estimate, reported = self.estimate(counted), self.anchor.reported if self.anchor else 0
        return reported + round((estimate - reported) * (1 + self.error)) if estimate > reported else estimate

    def countable(self, tokens: int, of: ByKind | None = None) -> int:
        """Return the counted tokens that certainly fit into `tokens`, including system text and schemas; the messages
        are like those of the window, or like `of`."""
        return int(self.scale(of).counted(max(0, tokens - ROUNDING) / (1 + self.error)))

    def scale(self, of: ByKind | None = None) -> Scale:
        """Return the scale of the window, or of one with messages like `of`, without a particular anchor."""
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
        """Convert our counts to tokens by layer that sum to `reported` or the estimate, each by its own ratio."""
        total = self.estimate(counted.total) if reported is None else reported
        ratio, messages = self._learned.ratios.values[ContentKind.FIXED], counted.history + counted.event
        fixed = round(ratio * counted.system), round(ratio * counted.tools)
        rest = min(MOST_RATIO * messages, max(LEAST_RATIO * messages, total - sum(fixed)))
        rest = total if not sum(fixed) else min(total, round(rest))
        return UsedTokens(*apportion(total - rest, fixed), *apportion(rest, (counted.history, counted.event)))

    def set_anchor(self, last: int, counted: int, reported: int, *, exact: bool = True) -> bool:
        """Continue from the newest request's report, perhaps of an earlier process; False if it is not plausible."""
        if reported <= 0 or not LEAST * counted <= reported <= self._most(counted):
            self._odd += 1
            if self._odd >= DISTRUST:
                self.anchor = None  # the window has grown since it was valid
            return False
        self._odd = 0
        self.anchor = Anchor(last, reported, counted, exact)
        return True

    @staticmethod
    def is_possible(counted: int, reported: int, window: int) -> bool:
        """True if a report can belong to a request with `counted` tokens by our count; otherwise it is ignored.

        A possible report that is far off is still the amount that the provider charges; `learn` decides its effect.
        """
        return counted * NONE <= reported <= window

    def _most(self, counted: int) -> float:
        """Return the largest plausible report: the wording of schemas may be most of a small request."""
        fixed = min(counted, sum(self.contents.fixed())) if self.contents else 0
        return MOST_RATIO * fixed + MOST * (counted - fixed)

    def learn(self, last: int, counted: int, reported: int, *, teaches: bool = True) -> Calibration | None:
        """Learn from a reported input; returns the new calibration, or None when nothing was learned.

        An implausible report changes nothing. One that is far from the estimate becomes the anchor, but ratios change
        only if the next one agrees. Without `teaches` (the request has images) it only anchors this epoch.
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
        """Learn the ratios from the content added since the report `before`, else from the whole window."""
        ratios = self._learned.ratios
        if before is None or not before.exact or self.contents is None:
            self._learned.ratios = ratios.observe(self._whole(counted), reported)
            return
        added = plus(self.contents.since(before.last), times(self.contents.since(last), -1.0))
        if sum(added) > 0 and reported > before.reported:
            self._learned.ratios = ratios.observe(added, reported - before.reported)

    def _whole(self, counted: int) -> ByKind:
        """Return a count of `counted` by kind: like the window, the rest as prose."""
        shown = plus(self.contents.fixed(), self.contents.messages()) if self.contents else EMPTY
        if sum(shown) > counted:
            return times(shown, counted / sum(shown))
        return plus(shown, times(PLAIN, counted - sum(shown)))

    def estimate_without_anchor(self, counted: int) -> float:
        """Return the estimate without an anchor, for a window that was just rewritten."""
        anchor, self.anchor = self.anchor, None
        try:
            return self.scale().tokens(counted)
        finally:
            self.anchor = anchor

    def learn_from_overflow(self, counted: int, reported: int | None, limit: int | None) -> Calibration:
        """Learn from a refusal (`reported` tokens, perhaps `limit`); until a report agrees at most by `FAR` in all."""
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
        """Revert the effect of refusals if a report is nearer to the earlier expectation."""
        known = self._learned
        if known.unrefused is None:
            return
        refused, told = known.ratios, self.estimate_without_anchor(counted)
        known.ratios, known.unrefused, known.refused = known.unrefused, None, 1.0
        if abs(told - reported) < abs(self.estimate_without_anchor(counted) - reported):
            known.ratios = refused

    def forget_window(self) -> None:
        """Forget the window that a refusal once named, because a larger request was answered."""
        self._learned.calibration = replace(self.calibration, window=0)

    def fork(self) -> TokenEstimator:
        """Return an estimator for a lane that begins like this one; both learn from the reports of either."""
        other = TokenEstimator(contents=self.contents, learned=self._learned)
        other.anchor = self.anchor
        return other

    def forget(self) -> None:
        """Drop the anchor: a new epoch has no report yet."""
        self.anchor = None


def _clamp(factor: float) -> float:
    return min(MOST, max(LEAST, factor))


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Share `total` in whole numbers in proportion to `weights`, by largest remainder; all 0 if these are."""
    whole = sum(weights)
    if whole <= 0 or total <= 0:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    rest = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place))
    for place in rest[: total - sum(parts)]:
        parts[place] += 1
    return parts
