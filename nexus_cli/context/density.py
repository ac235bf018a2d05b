"""How many tokens of the provider go on so many of ours: what stands in every request, and what comes beside it. Pure.

System text and schemas have factors of their own, so that a window that was summed up, or a session that has just
begun, is not measured by a ratio of other messages.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Density:
    """A straight line with one bend: the same in both directions."""

    ratio: float
    """Tokens for each one that we count of the messages."""
    fixed: float = 0.0
    """Our count of system text and schemas."""
    expected: float = 0.0
    """Tokens that they take."""

    def tokens(self, counted: float) -> float:
        """Tokens of a request of which we count `counted` in all."""
        if counted < self.fixed:
            return self.expected * counted / self.fixed
        return self.expected + (counted - self.fixed) * self.ratio

    def counted(self, tokens: float) -> float:
        """How many counted tokens are in `tokens`."""
        if tokens < self.expected:
            return self.fixed * tokens / self.expected
        return self.fixed + (tokens - self.expected) / self.ratio
