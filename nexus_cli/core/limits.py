"""Limits that compose by restriction: `a & b` is never looser than `a`.

The operation is associative, commutative and idempotent (law 7). `engine/requests/spending` enforces the limits on
requests and money, `engine/calls/dispatch` those on calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict

from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value

ASK, EDIT, AUTO, ALL = LEVELS = ("ask", "edit", "auto", "all")
"""Permission levels, lowest first: calls that run without approval are reads, also edits, also sandboxed commands,
everything."""
FORMER_NAMES = {ASK: "read", AUTO: "run"}
"""The former name of each level that had another one. `parse_level` accepts both names for ever."""
UNASKED = (AUTO, ALL)
"""Levels at which any command runs without approval, if it can be sandboxed."""
PLAN = "plan"
"""A level below them all, chosen in the REPL: read-only, nothing asks, and the model proposes a plan."""
CYCLE = (ASK, EDIT, AUTO, PLAN)
"""Permission levels that Shift+Tab cycles through."""
LEVEL_LAYER = "this session"
"""Layer of the limits with the permission level chosen during the session: by a command, a key or an approved plan."""
MODES = ("single_action", "react_loop", "plan_execute")
"""Modes of a run, strictest first: one step of calls, then the answer; steps of calls; steps along a plan. The last two
differ only for workers: with `plan_execute` a call may start a worker and continue meanwhile."""
MAX_INT = 2**53
"""The largest integer of a setting or an option, which every JSON reader can represent."""
CATEGORIES = ("none", "read", "edit", "run")
"""Effects of a tool, see `nexus_cli.core.tool.Effect`."""


BUDGET = ("max_steps", "max_total_tokens", "max_cost", "timeout")
"""Limits of which a worker gets a share."""
BUDGET_ENDED = "its budget was used up; the work may be unfinished"
"""Warning beside the report of a run that has used up its budget."""

Decision = Literal["allow", "ask", "deny"]
"""The decision on a call."""


class LevelFields(TypedDict):
    """A permission level."""

    allow: str
    """The level by its former name: `read`, `edit`, `run` or `all`."""
    level: str
    """The level: `ask`, `edit`, `auto`, `all` or `plan`."""


def next_levels(level: str) -> tuple[str, ...]:
    """Return the levels of `CYCLE` in the order in which they follow `level`; `all` must be named explicitly."""
    first = CYCLE.index(level) + 1 if level in CYCLE else 0
    return (*CYCLE[first:], *CYCLE[:first])


def parse_level(word: str) -> str:
    """Return the level that `word` names, now or formerly and in any case, else `word` itself."""
    folded = word.casefold()
    level = next((level for level, former in FORMER_NAMES.items() if folded == former), folded)
    return level if level in (PLAN, *LEVELS) else word


def require_level(word: str, option: str) -> str:
    """Parse a level; raise `UsageError`, which names the option `option`, for another word."""
    level = parse_level(word)
    if level not in LEVELS:
        raise UsageError(f"{option} {word[:40]!r}", "must be ask, edit, auto or all", "See `nexus docs rules`")
    return level


def level_fields(level: str) -> LevelFields:
    """Return a level as JSON has it: `level`, and `allow` with its former name."""
    return {"allow": FORMER_NAMES.get(level, level), "level": level}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run. None means no limit."""

    max_steps: int | None = None
    """Maximum of model requests in one turn."""
    max_total_tokens: int | None = None
    """Input and output tokens over one turn."""
    max_cost: float | None = None
    """US dollars over one turn."""
    timeout: float | None = None
    """Seconds of one turn."""
    allow: str | None = None
    """One of `LEVELS`, or `PLAN`."""
    tools: frozenset[str] | None = None
    """Names of tools that may run; the empty set refuses every call."""
    mode: str | None = None
    """One of `MODES`."""
    max_iterations: int | None = None
    """Steps of one turn that may call tools, before the answer."""
    categories: frozenset[str] | None = None
    """The `CATEGORIES` of calls that may run."""
    confirm: bool | None = None
    """True: ask about edits and commands even if `allow` covers them."""
    multi_tool: bool | None = None
    """False: one step of calls in a turn, as in `single_action`: no tool loop."""
    sub_agents: bool | None = None
    """False: no workers."""
    sub_agent_budget: int | None = None
    """Most concurrent workers; None for the default of `nexus_cli.workers`."""
    terminal_ends: bool | None = None
    """True: an answer without a call ends the run. Every turn ends so; in addition, a worker with
    this limit gets no further message after its report."""

    def __and__(self, other: Limits) -> Limits:
        if UNLIMITED in (self, other):
            return self if other == UNLIMITED else other
        return Limits(
            **{f.name: _stricter_limit(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        )

    def __le__(self, other: Limits) -> bool:
        return (self & other) == self

    @property
    def is_one_step(self) -> bool:
        """True if a turn may run the calls of one step only."""
        return self.mode == "single_action" or self.multi_tool is False

    def to_json(self) -> JsonDict:
        """Return the limits that are set, by name; a level also as `level`."""
        json_object = {name: value for name, value in to_json_value(self).items() if value is not None}
        return {**json_object, **level_fields(self.allow)} if self.allow else json_object

    @classmethod
    def from_json(cls, value: JsonObject) -> Limits:
        """Restore limits from `to_json`; ignore other names."""
        names = {f.name for f in fields(cls)}
        return cls(**{name: read_value(name, limit) for name, limit in value.items() if name in names})


UNLIMITED = Limits()
"""No limit at all."""
ORDERED: Mapping[str, tuple[str, ...]] = {"allow": (PLAN, *LEVELS), "mode": MODES}
SETS = ("tools", "categories")
BINDS_WHEN = {"confirm": True, "multi_tool": False, "sub_agents": False, "terminal_ends": True}
"""The value of each boolean limit that restricts."""


def _stricter_limit(name: str, a: Any, b: Any) -> Any:
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
    """A limit in force, and the layers that set it."""

    name: str
    value: Any
    bound_by: str
    """The layers that set this value."""
    said: JsonObject = field(default_factory=dict, compare=False)
    """The value of each layer that sets it, by the name of the layer."""


def read_level(value: JsonObject) -> str:
    """Return the permission level in the value of a memo `LIMITS_IN_FORCE`; "" if it names none."""
    return next((str(read_value("allow", limit["value"])) for limit in value["limits"] if limit["name"] == "allow"), "")


def compose_limits(layers: Sequence[tuple[str, Limits]]) -> tuple[Limits, tuple[Bound, ...]]:
    """Combine all layers; return the limits, and for each the first layer with its value (or all joined by `&`)."""
    effective = Limits()
    for _, limits in layers:
        effective = effective & limits
    bounds = []
    for f in fields(Limits):
        value = getattr(effective, f.name)
        if value is None:
            continue
        by_layer = {name: getattr(limits, f.name) for name, limits in layers if getattr(limits, f.name) is not None}
        exact = [name for name, its in by_layer.items() if its == value]
        bounds.append(Bound(f.name, value, exact[0] if exact else " & ".join(by_layer), by_layer))
    return effective, tuple(bounds)


def read_value(name: str, value: Any) -> Any:
    """Restore the value of the limit `name` from its JSON form; a level may have its former name."""
    if name == "allow" and isinstance(value, str):
        return parse_level(value)
    return frozenset(value) if name in SETS else value


def describe_budget(limits: Limits) -> str:
    """Return the sentence for the model of a run that must report: requests, tokens, dollars, seconds; "" for none."""
    rows = (
        (limits.max_steps, "{:,} request" if limits.max_steps == 1 else "{:,} requests"),
        (limits.max_total_tokens, "{:,} tokens"),
        (limits.max_cost, "${:.2f}"),
        (limits.timeout, "{:.0f} seconds"),
    )
    budget = ", ".join(form.format(value) for value, form in rows if value is not None)
    return f"Your budget: {budget}. The last request is for the report: no calls run in it." if budget else ""
