"""How many tokens a request will take: our count, anchored on what the provider reported (design pitfalls).

Counted tokens become reported ones by factors that are learned by kind of content from reports and from overflow
messages, and stored; see `nexus_cli.context.factors`. Only what was not sent yet under an epoch is an estimate. A
report that is no believable count of what was sent is passed over. The known error is the largest miss seen (law 2): it
fades only with estimates of another whole window that came nearer, so that one odd report is outlived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nexus_cli.context.apportion import apportion
from nexus_cli.context.contents import Contents
from nexus_cli.context.density import Density
from nexus_cli.context.factors import LEAST as LEAST_PIECE
from nexus_cli.context.factors import MOST as MOST_PIECE
from nexus_cli.context.factors import Factors
from nexus_cli.context.kinds import PLAIN, Kind, Profile, tokens
from nexus_cli.core.budget import Used
from nexus_cli.core.services import Calibration

KNOWN_ERROR = 0.10
"""Assumed until `ENOUGH` reports."""
ENOUGH = 5
FADING = 0.9
"""What is left of the known error after one more whole window was estimated: half of it after seven."""
ROUNDING = 2
"""Tokens that rounding may add to an estimate."""
LEAST, MOST = 0.5, 2.5
FAR = 1.5
"""A report further from what was expected than this is believed when it comes twice."""
DISTRUST = 3
"""Unbelievable reports in a row after which an earlier one does not anchor any more."""
NONE = 0.05
"""Share of our count below which a report is none: some servers say 0 or 1 of any request."""
SMALL = 200
"""Counts below this teach nothing: fixed overhead drowns the factor."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the provider reported for a request that ended with entry `last`."""

    last: int
    reported: int
    counted: int
    """Our count of the same request."""
    exact: bool = True
    """The provider counted just this; else it is what is left of such a count, from which no difference is learned."""


@dataclass(slots=True)
class Learned:
    """What is known of how one model's provider counts: the same for a lane and its forks."""

    calibration: Calibration
    factors: Factors
    doubt: float = 0.0
    """The miss of the newest report, where that is not believed yet."""


class Meter:
    """Estimates requests of one lane to one model."""

    def __init__(
        self,
        calibration: Calibration | None = None,
        contents: Contents | None = None,
        learned: Learned | None = None,
    ) -> None:
        known = calibration or Calibration()
        self._learned = learned or Learned(known, Factors.of(known.factor, known.kinds))
        self.anchor: Anchor | None = None
        self.contents = contents
        """What the window holds by kind of content; None: one factor is used for all of it."""
        self._odd = 0

    @property
    def calibration(self) -> Calibration:
        """What was learned, as it is stored."""
        return self._learned.calibration

    @property
    def state(self) -> tuple[object, ...]:
        """Compares unequal once an estimate of the same window may be another one."""
        return self.anchor, self.calibration, self._learned.doubt

    @property
    def basis(self) -> str:
        """`reported+estimate` with an anchor, else `estimate`."""
        return "reported+estimate" if self.anchor else "estimate"

    @property
    def error(self) -> float:
        """The known error of an estimate, as a share of its estimated part."""
        known = self.calibration.worst if self.calibration.reports >= ENOUGH else KNOWN_ERROR
        return max(known, self._learned.doubt)

    def estimate(self, counted: int) -> int:
        """Expected tokens of a request of which we count `counted` in all."""
        if self.anchor is None:
            return round(self.density().tokens(counted))
        return max(0, self.anchor.reported + round(self._added(self.anchor, counted)))

    def _added(self, anchor: Anchor, counted: int) -> float:
        """Expected tokens of what came after the anchor: by kind as far as the window shows it."""
        added = counted - anchor.counted
        if self.contents is None or added <= 0:
            return self.density().ratio * added
        shown = self.contents.since(anchor.last)
        rest = added - tokens(shown)
        return self._learned.factors.estimate(shown) + (self.density().ratio * rest if rest else 0.0)

    def upper(self, counted: int) -> int:
        """The estimate plus its known error: what has to fit."""
        estimate, reported = self.estimate(counted), self.anchor.reported if self.anchor else 0
        return reported + round((estimate - reported) * (1 + self.error)) if estimate > reported else estimate

    def countable(self, tokens: int, of: Profile | None = None) -> int:
        """How many counted tokens surely fit into `tokens` reported ones, without an anchor: beside what stands in
        every request as much as the window holds by now, or content like `of`."""
        return int(self.density(of).counted(max(0, tokens - ROUNDING) / (1 + self.error)))

    def density(self, of: Profile | None = None) -> Density:
        """Tokens for those that we count: the messages as those of the window are, or as `of` is."""
        if self.contents is None:
            known = of is not None and tokens(of) and self._known
            return Density(self._learned.factors.estimate(of) / tokens(of) if of and known else self.calibration.factor)
        fixed = self.contents.fixed()
        counted, expected = tokens(fixed), self._learned.factors.estimate(fixed)
        if of is None and self.anchor and self.anchor.counted - counted >= SMALL:
            said = (self.anchor.reported - expected) / (self.anchor.counted - counted)
            return Density(min(MOST_PIECE, max(LEAST_PIECE, said)), counted, expected)
        messages = self.contents.messages() if of is None else of
        messages = messages if tokens(messages) else PLAIN
        return Density(self._learned.factors.estimate(messages) / tokens(messages), counted, expected)

    def layers(self, counted: Used, reported: int | None = None) -> Used:
        """Tokens by layer of which we count `counted`: they come to the estimate of all, or to what was `reported`.

        System text and schemas go by their own factors, so that the same text is as many tokens at every step.
        """
        total = self.estimate(counted.total) if reported is None else reported
        one, messages = self._learned.factors.one, counted.history + counted.event
        fixed = round(one(Kind.SYSTEM) * counted.system), round(one(Kind.TOOLS) * counted.tools)
        rest = min(MOST_PIECE * messages, max(LEAST_PIECE * messages, total - sum(fixed)))
        rest = total if not sum(fixed) else min(total, round(rest))
        return Used(*apportion(total - rest, fixed), *apportion(rest, (counted.history, counted.event)))

    def anchored(self, last: int, counted: int, reported: int, *, exact: bool = True) -> bool:
        """Go on from what was reported for the newest request, also by an earlier process; False if that is no
        believable count of it."""
        if reported <= 0 or not LEAST * counted <= reported <= self._most(counted):
            self._odd += 1
            if self._odd >= DISTRUST:
                self.anchor = None  # what it once said right says nothing of a window that has grown since
            return False
        self._odd = 0
        self.anchor = Anchor(last, reported, counted, exact)
        return True

    @staticmethod
    def possible(counted: int, reported: int, window: int) -> bool:
        """Whether a report can be that of a request of which we count `counted`: what is not is as none at all.

        What can be, and is far off, is still what the provider charges for; whether our count learns from it is
        `anchored`'s to say.
        """
        return counted * NONE <= reported <= window

    def _most(self, counted: int) -> float:
        """The largest believable report: where hardly more than schemas is sent, their wording may be most of it."""
        fixed = min(counted, tokens(self.contents.fixed())) if self.contents else 0
        return MOST_PIECE * fixed + MOST * (counted - fixed)

    def report(self, last: int, counted: int, reported: int, *, teaches: bool = True) -> Calibration | None:
        """Learn from a reported input; returns the new calibration, or None when nothing was learned.

        A report below `LEAST` times our count, or above `_most`, is not believed; without `teaches` (the request held
        what our count knows only roughly) it anchors this epoch and says nothing of the next.
        """
        expected, before = self._expected(counted, reported), self.anchor
        if not self.anchored(last, counted, reported) or counted < SMALL or not teaches:
            return None
        old, doubted = self.calibration, self._learned.doubt
        miss = min(1.0, abs(reported - expected) / reported) if old.reports else 0.0
        far = self._far(expected, reported) and not self._by_what_was_added(before, counted, reported)
        if far and not doubted:
            self._learned.doubt = miss
            return None
        self._learned.doubt = 0.0
        factor = _bounded(reported / counted)
        self._learn(None if doubted else before, last, reported, anew=factor if far or not self._known else 0.0)
        worst = max(old.worst if before else old.worst * FADING, miss)
        kinds = self._learned.factors.values if self.contents else old.kinds
        self._learned.calibration = replace(old, factor=factor, reports=old.reports + 1, worst=worst, kinds=kinds)
        return self.calibration

    def _expected(self, counted: int, reported: int) -> float:
        """What was expected where `reported` came; where that is far off, or the report before it was, without an
        anchor."""
        estimate = self.estimate(counted)
        if self.anchor is None or not (self._learned.doubt or self._far(estimate, reported)):
            return estimate
        return self.unanchored(counted)

    def unanchored(self, counted: int) -> float:
        """The estimate that is made without an anchor: that of a window which was just rewritten."""
        anchor, self.anchor = self.anchor, None
        try:
            return self.density().tokens(counted)
        finally:
            self.anchor = anchor

    def _far(self, expected: float, reported: int) -> bool:
        """Whether a report is far from all that was learned. That outlives the session, so that one odd report must
        not reach it: it anchors, and teaches nothing until the next one agrees."""
        return self.calibration.reports >= ENOUGH and not expected / FAR <= reported <= expected * FAR

    def _by_what_was_added(self, before: Anchor | None, counted: int, reported: int) -> bool:
        """Whether content of a kind that was not seen yet may be why a report is far off."""
        if self.contents is None or before is None or self._learned.doubt or counted <= before.counted:
            return False
        return LEAST <= (reported - before.reported) / (counted - before.counted) <= MOST

    @property
    def _known(self) -> bool:
        """Whether anything was learned of single kinds."""
        return len(self.calibration.kinds) == len(Kind)

    def _learn(self, before: Anchor | None, last: int, reported: int, *, anew: float) -> None:
        """Learn the factors of the kinds: from what was added since the report `before`, else from the whole window;
        `anew` from this one factor on, where it is not 0."""
        if self.contents is None:
            return
        if before is None or not before.exact or anew:
            whole = self.contents.upto(last)
            if anew:
                share = tokens(self.contents.fixed()) / tokens(whole)
                self._learned.factors = Factors.of(anew, fixed=min(1.0, share))
            self._learned.factors = self._learned.factors.learned(whole, reported)
            return
        parts = zip(self.contents.since(before.last), self.contents.since(last), strict=True)
        added = tuple(one - two for one, two in parts)
        if tokens(added) > 0 and reported > before.reported:
            self._learned.factors = self._learned.factors.learned(added, reported - before.reported)

    def overflowed(self, counted: int, reported: int | None, limit: int | None) -> Calibration:
        """Learn from a refusal: `reported` is the provider's count of the request, `limit` its window, where named."""
        old, expected, counted = self.calibration, self.unanchored(counted), max(1, counted)
        said = float(reported or (max(expected * 1.1, 1.05 * limit) if limit else expected * 1.3))
        said = counted * _bounded(said / counted)
        self.anchor = None
        if expected > 0:
            self._learned.factors = self._learned.factors.times(said / expected)
        self._learned.calibration = replace(
            old, factor=said / counted, worst=max(old.worst, KNOWN_ERROR), window=limit or old.window,
            kinds=self._learned.factors.values if self.contents else old.kinds,
        )  # fmt: skip
        return self.calibration

    def outgrown(self) -> None:
        """A request was answered that is larger than the window that a refusal once named: it is forgotten."""
        self._learned.calibration = replace(self.calibration, window=0)

    def fork(self) -> Meter:
        """A meter for a lane that begins as this one: it knows what was reported, and both learn from what either is
        told."""
        other = Meter(contents=self.contents, learned=self._learned)
        other.anchor = self.anchor
        return other

    def forget(self) -> None:
        """A new epoch: nothing of it was reported yet."""
        self.anchor = None


def _bounded(factor: float) -> float:
    return min(MOST, max(LEAST, factor))
