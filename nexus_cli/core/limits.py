"""Limits that compose by restriction: seed D's execution pattern as a meet.

`a & b` is never looser than `a`; it is associative, commutative and idempotent (law 7). `lane.spending` enforces
requests and money, `turn.dispatch` calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from nexus_cli.core.errors import NexusError

if TYPE_CHECKING:
    from nexus_cli.core.json_types.context_report import LimitObject

LEVELS = ("read", "edit", "run", "all")
"""What runs without asking, from the least to everything: reading, also edits, also confined commands, everything."""
LEVEL_NAMES = ("ask", "edit", "auto", "all")
"""The words that people read and type for `LEVELS`, in the same order. What programs read has `LEVELS`."""
LEVELS_TEXT = f"{', '.join(LEVEL_NAMES[:-1])} or {LEVEL_NAMES[-1]}"
UNASKED = ("run", "all")
"""Those of `LEVELS` at which any command runs without asking, where it can be confined."""
PLAN = "plan"
"""Below them all, chosen by a person in the REPL: only reading, nothing asks, and the answer is a plan."""
MODES = ("single_action", "react_loop", "plan_execute")
"""Modes of a run, from the most restricted to the freest: one step of calls then the answer; calls step by step; also
along a plan of its own. The upper two differ for workers: only a plan hands over work and goes on meanwhile."""
MAX_INT = 2**53
"""The largest whole number of a setting or an option: what every reader of JSON can hold."""
CATEGORIES = ("none", "read", "edit", "run")
"""Effects of a tool, see `nexus_cli.core.tool.Effect`."""


def parse_level(word: str) -> str:
    """Return the level that `word` names, new or former, in any case; `word` itself if it names none."""
    folded = word.casefold()
    return dict(zip(LEVEL_NAMES, LEVELS, strict=True)).get(folded, folded if folded in (PLAN, *LEVELS) else word)


def require_level(word: str, named: str) -> str:
    """Return the one of `LEVELS` that `word` names; `NexusError("usage", ...)` that names the option for another."""
    level = parse_level(word)
    if level not in LEVELS:
        raise NexusError("usage", f"{named} {word[:40]!r}", f"must be {LEVELS_TEXT}")
    return level


def name_level(level: str) -> str:
    """Return the word of a level for people; what is no level is returned as it is."""
    return dict(zip(LEVELS, LEVEL_NAMES, strict=True)).get(level, level)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run. None means no limit from here."""

    max_steps: int | None = None
    """Model requests in one turn."""
    max_total_tokens: int | None = None
    """Input and output tokens over one turn."""
    max_cost: float | None = None
    """US dollars over one turn."""
    timeout: float | None = None
    """Seconds of one turn."""
    allow: str | None = None
    """One of `LEVELS`, or `PLAN`."""
    tools: frozenset[str] | None = None
    """Names that may run; the empty set refuses every call."""
    mode: str | None = None
    """One of `MODES`."""
    max_iterations: int | None = None
    """Steps of one turn that may call tools; then the answer is due."""
    categories: frozenset[str] | None = None
    """Those of `CATEGORIES` that may run."""
    confirm: bool | None = None
    """True: a call that edits or runs is asked for also where `allow` covers it."""
    multi_tool: bool | None = None
    """False: one step of calls in a turn, as in `single_action` (seed D: no loop of tools)."""
    sub_agents: bool | None = None
    """False: nothing is delegated to workers."""
    sub_agent_budget: int | None = None
    """Workers that run at the same time; None: the default of `nexus_cli.workers`."""
    terminal_ends: bool | None = None
    """True: an answer without a call (seed D's `noop`) ends the run. A turn of nexus always ends so; a worker with this
    limit cannot be given more to do after its report."""

    def __and__(self, other: Limits) -> Limits:
        return Limits(**{f.name: _meet(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})

    def __le__(self, other: Limits) -> bool:
        return (self & other) == self

    @property
    def is_one_step(self) -> bool:
        """True if a turn may run the calls of one step only; calls requested together are one action."""
        return self.mode == "single_action" or self.multi_tool is False

    def to_json(self) -> dict[str, Any]:
        """Return the limits that are set, by name, as JSON has them."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: json_value(value) for name, value in values.items() if value is not None}


ORDERED: Mapping[str, tuple[str, ...]] = {"allow": (PLAN, *LEVELS), "mode": MODES}
SETS = ("tools", "categories")
BINDS_WHEN = {"confirm": True, "multi_tool": False, "sub_agents": False, "terminal_ends": True}
"""Limits that are yes or no, and which of the two restricts."""


def _meet(name: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if name in SETS:
        return a & b
    if name in ORDERED:
        return min(a, b, key=ORDERED[name].index)
    if name in BINDS_WHEN:
        return a or b if BINDS_WHEN[name] else a and b
    return min(a, b)


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit in force and the layer that set it (seed D's `source_layers`)."""

    name: str
    value: Any
    bound_by: str
    said: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The value of each layer that names it, by the name of the layer."""

    def to_json(self) -> LimitObject:
        """Return the JSON form (`nexus docs json`)."""
        said = {layer: json_value(value) for layer, value in self.said.items()}
        return {"name": self.name, "value": json_value(self.value), "bound_by": self.bound_by, "said": said}


def compose_limits(layers: Sequence[tuple[str, Limits]]) -> tuple[Limits, tuple[Bound, ...]]:
    """Return the meet of all layers, and for each limit in force the first layer that names its value."""
    effective = Limits()
    for _, limits in layers:
        effective = effective & limits
    bounds = []
    for f in fields(Limits):
        value = getattr(effective, f.name)
        if value is None:
            continue
        said = {name: getattr(limits, f.name) for name, limits in layers if getattr(limits, f.name) is not None}
        exact = [name for name, its in said.items() if its == value]
        bounds.append(Bound(f.name, value, exact[0] if exact else " & ".join(said), said))
    return effective, tuple(bounds)


def json_value(value: Any) -> Any:
    """Return the value of a limit as JSON has it: a set as a sorted list."""
    return sorted(value) if isinstance(value, frozenset) else value
