"""The token budget: the window, its two reserves, and the use of the rest. All numbers are tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from nexus_cli.core.json_value import JsonOf, to_json_value

if TYPE_CHECKING:
    from nexus_cli.core.request import ModelInfo

PressureLevel = Literal["normal", "high", "critical"]
HIGH_PRESSURE = 0.6
CRITICAL_PRESSURE = 0.8
MAX_RESERVE = 8000
MIN_OUTPUT = 1024
"""Smallest output cap in tokens with which a request is sent."""
HEADROOM_DIVISOR = 64
"""Divisor of the window for the part kept free beside input and output: counts of short texts are rough, and some
providers refuse a request whose output cap exceeds the window by one token."""
REQUEST_FLOOR = 0.25
"""The person's request is never cut below this share of the budget."""


PREAMBLE_SHARE = 0.02
PREAMBLE_TOKENS = 1000
"""Most tokens of a preamble, which also takes at most this share of the window."""


@dataclass(frozen=True, slots=True)
class UsedTokens:
    """Tokens by layer, and the tool schemas."""

    json_fields: ClassVar = "system tools history event total"
    system: int = 0
    tools: int = 0
    history: int = 0
    event: int = 0

    @property
    def total(self) -> int:
        return self.system + self.tools + self.history + self.event

    def to_json(self) -> JsonOf[UsedTokens]:
        """Return the JSON form."""
        return JsonOf(to_json_value(self))


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """`available` is the window minus both reserves; percentages in the laws refer to it."""

    json_fields: ClassVar = "window reserve_reply reserve_tools available used remaining pressure"
    window: int
    reserve_reply: int
    reserve_tools: int
    used: UsedTokens = UsedTokens()

    @classmethod
    def of(cls, window: int, max_output: int | None = None) -> TokenBudget:
        """Make the budget of a window, for a model that replies with at most `max_output` tokens."""
        reply = min(MAX_RESERVE, window // 4, max_output or MAX_RESERVE)
        return cls(window, reply, min(MAX_RESERVE, window // 8))

    @property
    def available(self) -> int:
        """Maximum tokens of a request: the window minus the two reserves."""
        return self.window - self.reserve_reply - self.reserve_tools

    @property
    def output_cap(self) -> int:
        """Return the most tokens of one tool result: the reserve for tools, or what it would be if it is 0."""
        return self.reserve_tools or min(MAX_RESERVE, self.window // 8)

    @property
    def file_cap(self) -> int:
        """Return the most tokens of a guide, or of a resource of a server."""
        return max(self.output_cap, min(2 * MAX_RESERVE, self.window // 8))

    @property
    def remaining(self) -> int:
        """The free tokens, negative if the budget is exceeded."""
        return self.available - self.used.total

    @property
    def pressure(self) -> PressureLevel:
        """`normal`, `high` from 60 %, or `critical` from 80 %."""
        return self.pressure_beyond(0)

    def pressure_beyond(self, skipped: int) -> PressureLevel:
        """Return the pressure without the first `skipped` tokens: of the other used ones, in the room that is left."""
        share = (self.used.total - skipped) / max(1, self.available - skipped)
        return "critical" if share >= CRITICAL_PRESSURE else "high" if share >= HIGH_PRESSURE else "normal"


def remaining_output(model: ModelInfo, expected: int) -> int:
    """Return the tokens left for the answer after `expected` input tokens."""
    return model.window - expected - model.window // HEADROOM_DIVISOR


def preamble_room(window: int) -> int:
    """Return the most tokens of a preamble in a window."""
    return max(0, min(PREAMBLE_TOKENS, int(window * PREAMBLE_SHARE)))


def share_room(sizes: Sequence[int], room: int) -> list[int]:
    """Return the share of `room` for each text: its size while the smaller ones leave it so much."""
    shares = [0] * len(sizes)
    for remaining, place in zip(
        range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True
    ):
        shares[place] = min(sizes[place], max(0, room) // remaining)
        room -= shares[place]
    return shares
