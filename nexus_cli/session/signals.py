"""What the state of a run says about its limits: seed D's context signals, a table from `Signals` to `Limits`.

Pure. They bind only where the recipe lets them (`signals = true`); elsewhere pressure is shown and errors are a notice.
An error is a call that could not run, never the exit status of a command, nor a call that was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.limits import Bound, Limits, compose_limits


@dataclass(frozen=True, slots=True)
class Signals:
    """How a run stands before its next step."""

    token_pressure: str = "normal"
    """`normal`, `high` (from 60 % of the budget) or `critical` (from 80 %); in a side run of the room it found."""
    recent_errors: int = 0
    """Calls in a row that could not run."""
    event_class: str = ""
    """`communication` (the person said something), `building` (the run has changed something), or ""."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    signal: str
    holds: Callable[[Signals], bool]
    limits: Limits
    why: str
    """For the model: what is the case."""


SINGLE = "single_action"
TABLE = (
    Row("token_pressure", lambda now: now.token_pressure == "critical", Limits(mode=SINGLE), "the window is 80 % full"),
    Row("token_pressure", lambda now: now.token_pressure == "high", Limits(max_iterations=2), "the window fills up"),
    Row("recent_errors", lambda now: now.recent_errors >= 3, Limits(mode=SINGLE, confirm=True), "calls keep failing"),
    Row("recent_errors", lambda now: now.recent_errors >= 2, Limits(max_iterations=2), "two calls could not run"),
    Row("event_class", lambda now: now.event_class == "communication", Limits(mode=SINGLE), "a message is answered"),
    Row("event_class", lambda now: now.event_class == "building", Limits(confirm=True), "files or systems are changed"),
)
"""Seed D's table of signals, in its order."""
LAYERS = ("settings", "project", "recipe")
"""Layers that speak before all others: the first that names a value is the one that bound it."""


def restrictions(now: Signals) -> Limits:
    """The meet of every row that holds; no limit at all when none does."""
    bound = Limits()
    for row in TABLE:
        if row.holds(now):
            bound = bound & row.limits
    return bound


def tighten_by_signals(bounds: Iterable[Bound], now: Signals) -> tuple[Limits, tuple[Bound, ...]]:
    """What is in force where the layers that `bounds` were composed of are joined by the state of the run."""
    said: dict[str, dict[str, Any]] = {layer: {} for layer in LAYERS}
    for bound in bounds:
        for layer, value in bound.said.items():
            said.setdefault(layer, {})[bound.name] = value
    return compose_limits([*((layer, Limits(**its)) for layer, its in said.items()), ("signals", restrictions(now))])


def reasons(now: Signals, name: str) -> str:
    """What is the case that binds the limit `name`, "" when nothing does."""
    return ", ".join(row.why for row in TABLE if row.holds(now) and getattr(row.limits, name) is not None)


def event_class(began: Entry | None, *, changed: bool) -> str:
    """The class of the event that a run answers: `began` is the entry it began with, `changed` whether a call of it
    that edits or runs something was started."""
    if began is not None and began.kind is Kind.USER and began.actor == "person":
        return "communication"
    return "building" if changed else ""
