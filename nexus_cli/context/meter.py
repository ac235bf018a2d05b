"""How many tokens a request will take: our count, anchored on what the provider reported (design pitfalls).

One factor per model turns counted tokens into reported ones; it is learned from reports and from overflow messages,
and stored. Only what was not sent yet is an estimate; of that the factor is refined by kind of content, see
`nexus_cli.context.factors`. A report that is no believable count of what was sent is passed
over, and the known error is the largest of the recent misses: it fades with every report that is nearer, so that one
odd report is outlived (law 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nexus_cli.context.factors import Factors
from nexus_cli.context.kinds import Profile, tokens
from nexus_cli.core.services import Calibration

KNOWN_ERROR = 0.10
"""Assumed until `ENOUGH` reports."""
ENOUGH = 5
FADING = 0.9
"""What is left of the known error after one more report: half of it after seven, a tenth after twenty-two."""
ROUNDING = 2
"""Tokens that rounding may add to an estimate."""
LEAST, MOST = 0.5, 2.5
FAR = 1.5
"""A report further from the learned factor than this is believed when it comes twice."""
DISTRUST = 3
"""Unbelievable reports in a row after which an earlier one does not anchor any more."""
SMALL = 200
"""Counts below this teach nothing: fixed overhead drowns the factor."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the provider reported for a request that ended with entry `last`."""

    last: int
    reported: int
    counted: int
    """Our count of the same request."""


class Meter:
    """Estimates requests of one model."""

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.calibration = calibration or Calibration()
        self.anchor: Anchor | None = None
        self.since: Callable[[int], Profile] | None = None
        """What stands in the window after an entry, by kind; None: one factor is used for all of it."""
        self._factors = Factors.of(self.calibration.factor, self.calibration.kinds)
        self._odd = 0
        self._far = False

    @property
    def basis(self) -> str:
        """`reported+estimate` with an anchor, else `estimate`."""
        return "reported+estimate" if self.anchor else "estimate"

    @property
    def error(self) -> float:
        """The known error of an estimate, as a share of its estimated part."""
        return self.calibration.worst if self.calibration.reports >= ENOUGH else KNOWN_ERROR

    def estimate(self, counted: int) -> int:
        """Expected tokens of a request of which we count `counted` in all."""
        factor = self.calibration.factor
        if self.anchor:
            return self.anchor.reported + round(self._added(self.anchor, counted))
        return round(factor * counted)

    def _added(self, anchor: Anchor, counted: int) -> float:
        """Expected tokens of what came after the anchor: by kind, where what is counted is what the window shows."""
        added = counted - anchor.counted
        profile = self.since(anchor.last) if self.since and added > 0 else None
        if profile is None or not (shown := tokens(profile)):
            return self.calibration.factor * added
        return self._factors.estimate(profile) * added / shown

    def upper(self, counted: int) -> int:
        """The estimate plus its known error: what has to fit."""
        reported = self.anchor.reported if self.anchor else 0
        guessed = max(0, self.estimate(counted) - reported)
        return reported + round(guessed * (1 + self.error)) if guessed else self.estimate(counted)

    def countable(self, tokens: int) -> int:
        """How many counted tokens surely fit into `tokens` reported ones, without an anchor."""
        return int(max(0, tokens - ROUNDING) / (self.calibration.factor * (1 + self.error)))

    def anchored(self, last: int, counted: int, reported: int) -> bool:
        """Go on from what was reported for the newest request, also by an earlier process; False if that is no
        believable count of it."""
        if reported <= 0 or not LEAST * counted <= reported <= MOST * counted:
            self._odd += 1
            if self._odd >= DISTRUST:
                self.anchor = None  # what it once said right says nothing of a window that has grown since
            return False
        self._odd = 0
        self.anchor = Anchor(last, reported, counted)
        return True

    def report(self, last: int, counted: int, reported: int, *, teaches: bool = True) -> Calibration | None:
        """Learn from a reported input; returns the new calibration, or None when nothing was learned.

        A report outside `LEAST` to `MOST` times our count is not believed; without `teaches` (the request held what
        our count knows only roughly) it anchors this epoch and says nothing of the next.
        """
        estimate = self.estimate(counted)
        before = self.anchor
        if not self.anchored(last, counted, reported):
            return None
        if before is not None and teaches:
            self._refine(before, last, reported - before.reported)
        if counted < SMALL or not teaches:
            return None
        old = self.calibration
        if self._strange(reported / counted):
            return None
        miss = min(1.0, abs(reported - estimate) / reported) if old.reports else 0.0
        factor = _bounded(reported / counted)
        if before is None and not old.kinds:  # nothing is known of single kinds yet: all begin at the model's factor
            self._factors = Factors.of(factor)
        worst = max(old.worst * FADING, miss)
        self.calibration = replace(
            old, factor=factor, reports=old.reports + 1, worst=worst, kinds=self._factors.values
        )
        return self.calibration

    def _strange(self, ratio: float) -> bool:
        """Whether this is the first report that is far from all that was learned: it anchors, and teaches nothing
        until the next one agrees. What is learned outlives the session, so that one odd report must not reach it."""
        old = self.calibration
        far = old.reports >= ENOUGH and not old.factor / FAR <= ratio <= old.factor * FAR
        first = far and not self._far
        self._far = far
        return first

    def _refine(self, before: Anchor, last: int, reported: int) -> None:
        """Learn the factors of the kinds in what was added since the report `before`."""
        if self.since is None:
            return
        after = self.since(last)
        added = tuple(one - two for one, two in zip(self.since(before.last), after, strict=True))
        counted = tokens(added)
        if counted > 0 and reported > 0:
            self._factors = self._factors.learned(added, reported)

    def overflowed(self, counted: int, reported: int | None, limit: int | None) -> Calibration:
        """Learn from a refusal: `reported` is the provider's count of the request, `limit` its window, where named."""
        old = self.calibration
        if reported:
            factor = reported / max(1, counted)
        elif limit:
            factor = max(old.factor * 1.1, 1.05 * limit / max(1, counted))
        else:
            factor = old.factor * 1.3
        self.anchor = None
        self.calibration = replace(
            old, factor=_bounded(factor), worst=max(old.worst, KNOWN_ERROR), window=limit or old.window
        )
        return self.calibration

    def fork(self) -> Meter:
        """A meter that knows what this one knows and learns apart."""
        other = Meter(self.calibration)
        other.anchor, other._factors = self.anchor, self._factors
        return other

    def forget(self) -> None:
        """A new epoch: nothing of it was reported yet."""
        self.anchor = None


def _bounded(factor: float) -> float:
    return min(MOST, max(LEAST, factor))
