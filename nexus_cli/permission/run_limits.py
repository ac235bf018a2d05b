"""The limits of a run as far as they concern tool calls: filters, step counts, signals, repeated calls.

Asks nobody and runs nothing: permission and execution belong to `dispatch`. Everything is counted from the log of the
run, so that a resumed turn counts on. A refusal is a tool result that says why; no schema is taken away (design 1.3).
Signals (seed D) bind only in a recipe with `signals = true`; elsewhere pressure is displayed and errors are a notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.entry import Entry, Kind, WindowItem
from nexus_cli.core.limits import Bound, Limits, compose_limits
from nexus_cli.core.message import Role, ToolCall
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.core.wire import canonical

SINGLE = "single_action"
DELEGATE = "agent"
"""The tool that hands work over."""
ASSESSMENT = "assessment"
"""The layer of a turn's assessment."""
SIGNALS = "signals"
"""In the place of the limit that refused a call: the state of the run, in a recipe that lets it bind."""
LAYERS = ("settings", "project", "recipe")
"""Layers that speak before all others: the first that names a value is the one that bound it."""
NOTICE_AT = 3
END_AT = 5
ANSWER = "Answer now with what you have."
CHANGES = (Effect.EDIT, Effect.RUN)
"""Effects that a run with `confirm` asks for, and that make a run a building one."""
OFF = "tools are switched off for this run"
SPARE = 2
"""Requests beyond the steps that may call tools: one for the answer, one for a model that asks once more."""


@dataclass(frozen=True, slots=True)
class Signals:
    """State of a run before its next step."""

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


TABLE = (
    Row("token_pressure", lambda now: now.token_pressure == "critical", Limits(mode=SINGLE), "the window is 80 % full"),
    Row("token_pressure", lambda now: now.token_pressure == "high", Limits(max_iterations=2), "the window fills up"),
    Row("recent_errors", lambda now: now.recent_errors >= 3, Limits(mode=SINGLE, confirm=True), "calls keep failing"),
    Row("recent_errors", lambda now: now.recent_errors >= 2, Limits(max_iterations=2), "two calls could not run"),
    Row("event_class", lambda now: now.event_class == "communication", Limits(mode=SINGLE), "a message is answered"),
    Row("event_class", lambda now: now.event_class == "building", Limits(confirm=True), "files or systems are changed"),
)
"""Seed D's table of signals, in its order."""


def restrictions(now: Signals) -> Limits:
    """Return the meet of every row that holds; no limit if none does."""
    bound = Limits()
    for row in TABLE:
        if row.holds(now):
            bound = bound & row.limits
    return bound


def tighten_by_signals(bounds: Iterable[Bound], now: Signals) -> tuple[Limits, tuple[Bound, ...]]:
    """Return the limits of the layers in `bounds` together with those of the signals."""
    said: dict[str, dict[str, Any]] = {layer: {} for layer in LAYERS}
    for bound in bounds:
        for layer, value in bound.said.items():
            said.setdefault(layer, {})[bound.name] = value
    return compose_limits([*((layer, Limits(**its)) for layer, its in said.items()), ("signals", restrictions(now))])


def reasons(now: Signals, name: str) -> str:
    """Return why the signals bind the limit `name`, "" if they do not."""
    return ", ".join(row.why for row in TABLE if row.holds(now) and getattr(row.limits, name) is not None)


def event_class(began: Entry | None, *, changed: bool) -> str:
    """Return the class of the event that a run answers.

    `began` is its first entry, `changed` says that one of its calls that edits or runs something was started.
    """
    if began is not None and began.kind is Kind.USER and began.actor == "person":
        return "communication"
    return "building" if changed else ""


def repeated_calls(items: Sequence[WindowItem], call: ToolCall) -> list[ToolCall]:
    """Return `call` and the same calls directly before it in this turn, the newest first; none if it is not in the
    window."""
    wanted = _key(call)
    found: list[ToolCall] = []
    for item in reversed(items):
        if item.message.role is Role.USER:
            break
        for other in reversed(item.message.tool_calls):
            if not found and other.id != call.id:
                continue
            if _key(other) != wanted:
                return found
            found.append(other)
    return found


def repeat_notice(call: ToolCall, times: int) -> str:
    """Return the notice for the model."""
    return (
        f"{call.name} was called {times} times in a row with the same arguments. Its result will not change: "
        f"try something else, or say what is missing. The turn ends at {END_AT}."
    )


def _key(call: ToolCall) -> tuple[str, bytes, str]:
    return call.name, canonical(call.arguments), call.raw


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Entries since a run began."""

    began: Entry | None
    """The words or the instruction that it began with."""
    batches: tuple[tuple[ToolCall, ...], ...]
    """The calls of each step that asked for any, the newest last."""

    @classmethod
    def of(cls, timeline: Timeline, run: int) -> RunHistory:
        """Return the run that began with entry `run`, in a fork with the newest instruction after it."""
        entries = timeline.read(max(1, run), timeline.last)
        start = next((entry for entry in reversed(entries) if entry.kind in (Kind.USER, Kind.INSTRUCTION)), None)
        since = [entry for entry in entries if start is None or entry.id > start.id]
        return cls(start, tuple(e.message.tool_calls for e in since if e.message.tool_calls))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not run."""

    why: str
    """For the model."""
    limit: str
    """The limit that says so; `SIGNALS` where the state of the run bound it, not what anybody set."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of one step as far as they concern its calls."""

    limits: Limits
    bounds: tuple[Bound, ...]
    """The layer, `run` or `signals`, that bound each limit."""
    run: RunHistory
    now: Signals
    find: Callable[[str], Tool | None]
    started: Callable[[str], bool]

    def refusals(self, calls: Sequence[ToolCall]) -> dict[str, Refusal]:
        """Return by call id why some of `calls`, the newest of the run, may not run."""
        refused = {}
        acted = any(self.started(call.id) for batch in self.run.batches for call in batch if call not in calls)
        for call in calls:
            refusal = self._filtered(self.find(call.name)) or self._over(acted)
            if refusal:
                refused[call.id] = refusal
        return refused

    def _filtered(self, tool: Tool | None) -> Refusal | None:
        """Return why this run excludes the tool, None if it does not."""
        tools, categories = self.limits.tools, self.limits.categories
        if tool is None:
            return None
        if tools is not None and tool.name not in tools:
            return Refusal(f"{tool.name} is not for this run. {_may(tools)}" if tools else OFF, "tools")
        if tool.name == DELEGATE and self.limits.sub_agents is False:
            return Refusal("handing over work is not for this run", "sub_agents")
        if categories is not None and tool.effect not in categories:
            return self._bound("categories", f"calls that {_does(tool.effect)} are not for this run", "")
        return None

    def _over(self, acted: bool) -> Refusal | None:
        """Return why a call comes too late; `acted`: calls of an earlier step began to run."""
        most = self.limits.max_iterations
        if most is not None and len(self.run.batches) > most:
            steps = "one step" if most == 1 else f"{most} steps"
            return self._bound("max_iterations", f"not run: this run may call tools in {steps}", f". {ANSWER}")
        if self.limits.is_one_step and acted:
            name = "multi_tool" if self.limits.multi_tool is False else "mode"
            return self._bound(name, "not run: this run may call tools in one step", f". {ANSWER}")
        return None

    def _bound(self, name: str, why: str, end: str) -> Refusal:
        """Return a refusal by the limit `name`, with the reason if signals or an assessment bound it."""
        by = next((bound.bound_by for bound in self.bounds if bound.name == name), "")
        if by not in (SIGNALS, ASSESSMENT):
            return Refusal(why + end, name)
        reason = reasons(self.now, name) if by == SIGNALS else "the task was assessed before"
        return Refusal(f"{why} ({reason}){end}", SIGNALS)


def _may(tools: frozenset[str]) -> str:
    return f"It may use: {', '.join(sorted(tools))}."


def _does(effect: Effect) -> str:
    return {Effect.NONE: "touch nothing", Effect.READ: "read", Effect.EDIT: "edit", Effect.RUN: "run commands"}[effect]
