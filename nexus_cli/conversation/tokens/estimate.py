"""Estimate the tokens of a request: the last reported figure, plus one ratio per kind of content.

Our counter is not the provider's tokenizer. The number of provider tokens per counted token depends on the kind of
content, so each kind has a ratio, learned per model from reports and stored. Only content that no report of the epoch
covers is estimated. `upper` adds the known error (law 2): 10 % until five reports of a model, then the largest miss of
the kept reports. The figures of a refusal are not a report: they change the estimate by at most `FAR` until the next
report, and are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import ceil
from operator import mul

from nexus_cli.conversation.tokens.content_kinds import (
    EMPTY,
    ByKind,
    ContentKind,
    WindowCounts,
    plus,
    times,
)
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.section_rows import apportion
from nexus_cli.core.services import Calibration

KNOWN_ERROR = 0.10
"""Assumed error until `TRUSTED_REPORTS` reports."""
TRUSTED_REPORTS = 5
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
MIN_LEARNED_TOKENS = 200
"""Counts below this are not learned from: the fixed overhead dominates the ratio."""


START, LEARNED, MAX_WEIGHT, FIRM = 60.0, 2_000.0, 8_000.0, 100_000.0
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
            return cls(_bounded_ratios(learned), _fill_kinds(LEARNED))
        return cls(_bounded_ratios(_fill_kinds(factor)), _fill_kinds(START))

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
        moved = [
            miss * tokens / (weight + part or 1.0) for tokens, (_, weight, part) in zip(unsure, parts, strict=True)
        ]
        weights = (max(weight, min(MAX_WEIGHT, weight + part)) for _, weight, part in parts)
        return Ratios(_bounded_ratios(plus(self.values, moved)), tuple(weights))

    def scaled(self, factor: float) -> Ratios:
        """Return every ratio times `factor`, with the weight of an earlier session's ratios."""
        return Ratios(_bounded_ratios(times(self.values, factor)), _fill_kinds(LEARNED))

    def weakened(self) -> Ratios:
        """Return the ratios with almost no weight, so that the next report determines them."""
        return Ratios(self.values, _fill_kinds(1.0))


def _fill_kinds(value: float) -> ByKind:
    return (value,) * len(ContentKind)


def _bounded_ratios(values: Iterable[float]) -> ByKind:
    return tuple(min(MOST_RATIO, max(LEAST_RATIO, value)) for value in values)


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts between our count of a request and provider tokens: a line with a bend after the fixed part."""

    ratio: float
    """Provider tokens per counted token of the messages."""
    fixed: float
    """Our count of system text and schemas."""
    expected: float
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
    doubts: int = field(default=0, compare=False)
    """Number of reports since that were not plausible."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The learned token counts of a model's provider, and its last report on a window.

    Methods take the window that they are about; without one, all of a count is treated as prose.
    """

    calibration: Calibration
    """The learned ratios in the stored form."""
    ratios: Ratios
    doubt: float = 0.0
    """The miss of the newest report, if it is not believed yet."""
    refused: float = 1.0
    """The factor by which refusals changed the ratios, until the next report."""
    anchor: Anchor | None = None
    """None before the first plausible report of an epoch."""

    @classmethod
    def of(cls, calibration: Calibration | None = None) -> Estimate:
        """Return the estimate of a model with the stored `calibration`, if there is one."""
        start = calibration or Calibration()
        return cls(start, _stored_ratios(start))

    @property
    def unanchored(self) -> Estimate:
        """The estimate of a window without a report."""
        return replace(self, anchor=None)

    @property
    def basis(self) -> str:
        """`reported+estimate` with an anchor, else `estimate`."""
        return "reported+estimate" if self.anchor else "estimate"

    @property
    def error(self) -> float:
        """The known error as a share of the estimated part."""
        error = self.calibration.worst if self.calibration.reports >= TRUSTED_REPORTS else KNOWN_ERROR
        return max(error, self.doubt)

    # -- the size of a request -----------------------------------------------------------------------------------

    def expected(self, counted: int, window: WindowCounts | None = None) -> int:
        """Return the expected tokens of a request with `counted` tokens by our count."""
        scale, anchor = self.scale(window), self.anchor
        if anchor is None:
            return round(scale.tokens(counted))
        added = counted - anchor.counted
        added_by_kind = window.since(anchor.last) if window and added > 0 else EMPTY
        if sum(added_by_kind) > added + 1:  # more than rounding: this is not about the window
            return max(0, anchor.reported + round(scale.ratio * added))
        return max(
            0, anchor.reported + round(self.ratios.tokens(added_by_kind) + scale.ratio * (added - sum(added_by_kind)))
        )

    def upper(self, expected: int) -> int:
        """Return the `expected` tokens of a request plus their known error, which have to fit."""
        reported = self.anchor.reported if self.anchor else 0
        return reported + round((expected - reported) * (1 + self.error)) if expected > reported else expected

    def margin(self, tokens: int) -> int:
        """Return the tokens to keep free beside `tokens`, so that they fit certainly."""
        return ceil(tokens * self.error) + ROUNDING

    def describe_margin(self) -> str:
        """Describe the margin for the error of our count."""
        until = (
            f" until {TRUSTED_REPORTS} replies have reported their usage"
            if self.calibration.reports < TRUSTED_REPORTS
            else ""
        )
        return f"margin ({self.error:.0%} for errors of the token estimate{until})"

    def countable(self, tokens: int, window: WindowCounts | None = None, like: ByKind | None = None) -> int:
        """Return the counted tokens that certainly fit into `tokens`, including system text and schemas; the messages
        are like those of the window, or like `like`."""
        return int(self.scale(window, like).counted(max(0, tokens - ROUNDING) / (1 + self.error)))

    def scale(self, window: WindowCounts | None = None, like: ByKind | None = None) -> Scale:
        """Return the scale of a window, or of one with messages like `like`."""
        counted = window.fixed if window else 0
        expected = self.ratios.values[ContentKind.FIXED] * counted
        if like is None and window and self.anchor and self.anchor.counted - counted >= MIN_LEARNED_TOKENS:
            ratio = (self.anchor.reported - expected) / (self.anchor.counted - counted)
            return Scale(min(MOST_RATIO, max(LEAST_RATIO, ratio)), counted, expected)
        messages = like or (window.messages() if window else EMPTY)
        message_tokens = sum(messages)
        ratio = (
            self.ratios.tokens(messages) / message_tokens if message_tokens else self.ratios.values[ContentKind.PROSE]
        )
        return Scale(ratio, counted, expected)

    def layers(self, counted: UsedTokens, total: int) -> UsedTokens:
        """Convert our counts to tokens by layer that sum to `total`, each by its own ratio."""
        ratio, messages = self.ratios.values[ContentKind.FIXED], counted.history + counted.event
        fixed = round(ratio * counted.system), round(ratio * counted.tools)
        message_total = min(MOST_RATIO * messages, max(LEAST_RATIO * messages, total - sum(fixed)))
        message_total = total if not sum(fixed) else min(total, round(message_total))
        return UsedTokens(
            *apportion(total - message_total, fixed), *apportion(message_total, (counted.history, counted.event))
        )

    # -- what is known next --------------------------------------------------------------------------------------

    def anchored(self, report: Anchor | None, window: WindowCounts | None) -> Estimate:
        """Return the estimate that continues from a `report`, if there is one, perhaps of an earlier process.

        An implausible report is not used; after `DISTRUST` of them in a row the anchor is dropped, because the window
        has grown since it was valid.
        """
        if report is None:
            return self
        counted = report.counted
        fixed = min(counted, window.fixed) if window else 0
        most = MOST_RATIO * fixed + MOST * (counted - fixed)  # the wording of schemas may be most of a small request
        if report.reported > 0 and LEAST * counted <= report.reported <= most:
            return replace(self, anchor=report)
        if self.anchor is None or self.anchor.doubts + 1 >= DISTRUST:
            return self.unanchored
        return replace(self, anchor=replace(self.anchor, doubts=self.anchor.doubts + 1))

    def anchored_at(self, last: int, reported: int, window: WindowCounts) -> Estimate:
        """Return the estimate that continues from the report on a request in the epoch of the window, which ended with
        entry `last`; unchanged if nothing was `reported`."""
        report = Anchor(last, reported, window.fixed + window.tokens_until(last))
        return self.anchored(report if reported else None, window)

    def anchored_on_newest(self, reports: Iterable[tuple[int, int]], window: WindowCounts) -> Estimate:
        """Return the estimate that continues from the first plausible one of `DISTRUST` reports, newest first: `last`
        and `reported` of each, as in `anchored_at`."""
        for last, reported in islice(reports, DISTRUST):
            if (anchored := self.anchored_at(last, reported, window)).anchor is not None:
                return anchored
        return self

    def after_report(self, report: Anchor, window: WindowCounts | None, *, teaches: bool) -> Estimate:
        """Return the estimate after a reported input; its calibration is the same one if nothing was learned.

        An implausible report changes nothing. A report far from the estimate becomes the anchor, but ratios change only
        if the next report agrees. Without `teaches` (the request has images) a report only anchors this epoch.
        """
        after = self.anchored(report, window)
        if after.anchor is not report or report.counted < MIN_LEARNED_TOKENS or not teaches:
            return after
        if self.refused != 1.0:
            after = replace(after, ratios=_stored_ratios(self.calibration), refused=1.0)
        return after._learn(report, self.anchor, window)

    def _learn(self, report: Anchor, before: Anchor | None, window: WindowCounts | None) -> Estimate:
        """Return the estimate with the ratios of a plausible report; `before` is the one that it follows."""
        expected, reported = self.unanchored.scale(window).tokens(report.counted), report.reported
        old = self.calibration
        miss = min(1.0, abs(reported - expected) / reported) if old.reports else 0.0
        far = old.reports >= TRUSTED_REPORTS and not expected / FAR <= reported <= expected * FAR
        if far and not self.doubt:
            return replace(self, doubt=miss)
        ratios = self.ratios.weakened() if far else self.ratios
        ratios = _observe_report(ratios, report, None if self.doubt else before, window)
        calibration = replace(
            old,
            factor=_clamp(reported / report.counted),
            reports=old.reports + 1,
            ratios=ratios.values,
            misses=(*old.misses, round(miss, 4))[-KEPT:],
        )
        return replace(self, calibration=calibration, ratios=ratios, doubt=0.0)

    @staticmethod
    def is_plausible(reported: int, counted: int) -> bool:
        """Return True if a provider can have `reported` as many tokens for a request of `counted` by our count."""
        return LEAST * counted <= reported <= MOST * counted

    def after_refusal(
        self, counted: int, reported: int | None, limit: int | None, window: WindowCounts | None
    ) -> Estimate:
        """Return the estimate after a refusal (`reported` tokens, perhaps `limit`); until the next report, refusals
        change it at most by `FAR` in all."""
        old, expected, counted = self.calibration, self.unanchored.scale(window).tokens(counted), max(1, counted)
        tokens = float(reported or (max(expected * 1.1, 1.05 * limit) if limit else expected * 1.3))
        tokens = counted * _clamp(tokens / counted)
        misses = (*old.misses, KNOWN_ERROR)[-KEPT:]
        refused = min(FAR, max(1 / FAR, self.refused * tokens / expected)) if expected > 0 else self.refused
        ratios = _stored_ratios(old).scaled(refused)
        return replace(self.unanchored, calibration=replace(old, misses=misses), ratios=ratios, refused=refused)


def _stored_ratios(calibration: Calibration) -> Ratios:
    return Ratios.start(calibration.factor, calibration.ratios)


def _observe_report(ratios: Ratios, report: Anchor, before: Anchor | None, window: WindowCounts | None) -> Ratios:
    """Return the ratios after the content added since the report `before`, else after the whole window."""
    if before is None or not before.exact or window is None:
        return ratios.observe(_split_by_kind(report.counted, window), report.reported)
    added = plus(window.since(before.last), times(window.since(report.last), -1.0))
    if sum(added) > 0 and report.reported > before.reported:
        return ratios.observe(added, report.reported - before.reported)
    return ratios


def _split_by_kind(counted: int, window: WindowCounts | None) -> ByKind:
    """Return a count of `counted` by kind: like the window, the rest as prose."""
    by_kind = (window.fixed, *window.messages()[1:]) if window else EMPTY
    if sum(by_kind) > counted:
        return times(by_kind, counted / sum(by_kind))
    return plus(by_kind, times(ContentKind.PROSE.alone, counted - sum(by_kind)))


def _clamp(factor: float) -> float:
    return min(MOST, max(LEAST, factor))
