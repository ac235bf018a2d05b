"""Limits that compose by restriction: seed D's execution pattern as a meet.

`a & b` is never looser than `a`; it is associative, commutative and idempotent (law 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

LEVELS = ("read", "edit", "all")
"""What runs without asking, from the least to the most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. None means: no limit from here."""

    max_steps: int | None = None
    """Model requests in one turn."""
    max_total_tokens: int | None = None
    """Input and output tokens over one turn."""
    max_cost: float | None = None
    """US dollars over one turn."""
    timeout: float | None = None
    """Seconds of one turn."""
    allow: str | None = None
    """One of `LEVELS`."""
    tools: frozenset[str] | None = None
    """Names that may run; the empty set refuses every call."""

    def __and__(self, other: Limits) -> Limits:
        return Limits(**{f.name: _meet(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})

    def __le__(self, other: Limits) -> bool:
        return (self & other) == self


def _meet(name: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if name == "tools":
        return a & b
    if name == "allow":
        return min(a, b, key=LEVELS.index)
    return min(a, b)


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit in force and the layer that set it (seed D's `source_layers`)."""

    name: str
    value: Any
    bound_by: str


def compose(layers: Sequence[tuple[str, Limits]]) -> tuple[Limits, tuple[Bound, ...]]:
    """The meet of all layers, and for each limit in force the first layer that names its value."""
    effective = Limits()
    for _, limits in layers:
        effective = effective & limits
    bounds = []
    for f in fields(Limits):
        value = getattr(effective, f.name)
        if value is None:
            continue
        exact = [name for name, limits in layers if getattr(limits, f.name) == value]
        several = " & ".join(name for name, limits in layers if getattr(limits, f.name) is not None)
        bounds.append(Bound(f.name, value, exact[0] if exact else several))
    return effective, tuple(bounds)
