"""An estimate as a conversation holds it: each report, refusal and new epoch replaces it by the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nexus_cli.context.manager import SharedEstimate
from nexus_cli.conversation.tokens.content_kinds import ItemCounts, WindowCounts
from nexus_cli.conversation.tokens.estimate import Anchor, Estimate
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.services import Calibration

Window = Callable[[], tuple[Epoch, Sequence[WindowItem]]]


def count_window(epoch: Epoch, items: tuple[WindowItem, ...], counts: ItemCounts) -> WindowCounts:
    """Return the counts of `items` under `epoch`; those that `counts` has counted before are not counted again."""
    return replace(counts.count(items), fixed=epoch.header_tokens)


class HeldEstimate:
    """Holds the estimate of one window; without a window all of a count is prose."""

    def __init__(
        self, calibration: Calibration | None = None, window: Window | None = None, shared: SharedEstimate | None = None
    ) -> None:
        self.window, self.known = window, ItemCounts()
        self.shared = shared or SharedEstimate(Estimate.of(calibration))
        self.anchor: Anchor | None = None

    @property
    def now(self) -> Estimate:
        return replace(self.shared.newest, anchor=self.anchor)

    @property
    def counts(self) -> WindowCounts | None:
        if self.window is None:
            return None
        epoch, items = self.window()
        return count_window(epoch, tuple(items), self.known)

    @property
    def calibration(self) -> Calibration:
        return self.now.calibration

    @property
    def basis(self) -> str:
        return self.now.basis

    @property
    def error(self) -> float:
        return self.now.error

    def estimate(self, counted: int) -> int:
        return self.now.expected(counted, self.counts)

    def upper(self, counted: int) -> int:
        return self.now.upper(self.estimate(counted))

    def countable(self, tokens: int) -> int:
        return self.now.countable(tokens, self.counts)

    def layers(self, counted: UsedTokens, reported: int | None = None) -> UsedTokens:
        return self.now.layers(counted, self.estimate(counted.total) if reported is None else reported)

    def learn(self, last: int, counted: int, reported: int, *, teaches: bool = True) -> Calibration | None:
        """Return the new calibration, or None when nothing was learned."""
        before = self.calibration
        self._hold(self.now.after_report(Anchor(last, reported, counted), self.counts, teaches=teaches))
        return None if self.calibration is before else self.calibration

    def learn_from_overflow(self, counted: int, reported: int | None, limit: int | None) -> None:
        self._hold(self.now.after_refusal(counted, reported, limit, self.counts))

    def forget(self) -> None:
        """Begin an epoch."""
        self.anchor = None

    def fork(self) -> HeldEstimate:
        other = HeldEstimate(window=self.window, shared=self.shared)
        other.anchor = self.anchor
        return other

    def _hold(self, estimate: Estimate) -> None:
        self.shared.newest, self.anchor = estimate, estimate.anchor
