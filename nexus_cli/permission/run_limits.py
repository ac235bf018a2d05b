"""The limits of a run on its tool calls: filters, step counts, signals, repeated calls.

`engine/calls/call_decider` asks, `engine/calls/dispatch` executes. Counts are taken from the log of the run, so that a
resumed turn keeps them. A refused call gets a result with the reason; its tool's schema stays in the request
(`nexus docs recipes`).
Signals restrict calls only in a recipe with `signals = true`; otherwise pressure is displayed, and repeated
errors add a notice to the next request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.entry import Entry, Kind, WindowItem
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import Bound, Limits, compose_limits
from nexus_cli.core.message import SAME, Role, ToolCall
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.call_decision import CallDecision, refuse_by_limit

SINGLE = "single_action"
ASSESSMENT = "assessment"
"""Layer name: the limits that the assessment of the turn set."""
SIGNALS = "signals"
"""`CallDecision.limit` of a call that the state of the run refused, not a configured limit."""
LAYERS = ("settings", "project", "recipe")
"""The layers that are applied first. Of several layers with the same value, the first is reported as its origin."""
NOTICE_AT = 3
END_AT = 5
DROP_ID = re.compile(r'(?<=recall\("d)\d+(?=")')
"""The number of a drop in a marker: a result that is too long has another one each time."""
AFTER_FAILED_EDIT = "[nexus: not run: the edit"
"""Beginning of the result of a call that did not run because an edit before it failed."""
ANSWER = "Answer now with what you have."
CHANGES = (Effect.EDIT, Effect.RUN)
"""Effects that `confirm` asks about, and that make the event class of a run `building`."""
SWITCHED_OFF = "tools are switched off for this run"
SPARE = 2
"""Requests beyond the steps that may call tools: one for the answer, one in case the model requests a call again."""


@dataclass(frozen=True, slots=True)
class Signals:
    """State of a run before its next step."""

    token_pressure: str = "normal"
    """`normal`, `high` (from 60 % of the budget) or `critical` (from 80 %). A side run measures only the room that was
    free when it began."""
    recent_errors: int = 0
    """Consecutive calls that could not run."""
    event_class: str = ""
    """`communication` (a message of the person began the run), `building` (the run has changed something), or ""."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    signal: str
    holds: Callable[[Signals], bool]
    limits: Limits
    why: str
    """The reason, for the model."""


TABLE = (
    Row(
        "token_pressure",
        lambda now: now.token_pressure == "critical",
        Limits(mode=SINGLE),
        "at least 80 % of the context budget is used",
    ),
    Row(
        "token_pressure",
        lambda now: now.token_pressure == "high",
        Limits(max_iterations=2),
        "at least 60 % of the context budget is used",
    ),
    Row("recent_errors", lambda now: now.recent_errors >= 3, Limits(mode=SINGLE, confirm=True), "calls keep failing"),
    Row("recent_errors", lambda now: now.recent_errors >= 2, Limits(max_iterations=2), "two calls could not run"),
    Row(
        "event_class", lambda now: now.event_class == "communication", Limits(mode=SINGLE), "the run answers a message"
    ),
    Row("event_class", lambda now: now.event_class == "building", Limits(confirm=True), "the run changes files"),
)
"""The signals, in the order in which they are applied."""


def restrictions(now: Signals) -> Limits:
    """Return the limits of all rows that hold, combined; no limit if none holds."""
    bound = Limits()
    for row in TABLE:
        if row.holds(now):
            bound = bound & row.limits
    return bound


def tighten_by_signals(bounds: Iterable[Bound], now: Signals) -> tuple[Limits, tuple[Bound, ...]]:
    """Combine the limits of the layers in `bounds` with those of the signals."""
    by_layer: dict[str, JsonDict] = {layer: {} for layer in LAYERS}
    for bound in bounds:
        for layer, value in bound.said.items():
            by_layer.setdefault(layer, {})[bound.name] = value
    return compose_limits(
        [*((layer, Limits(**its)) for layer, its in by_layer.items()), ("signals", restrictions(now))]
    )


def reasons(now: Signals, name: str) -> str:
    """Return the reasons of the signals that set the limit `name`, comma-separated; "" if none does."""
    return ", ".join(row.why for row in TABLE if row.holds(now) and getattr(row.limits, name) is not None)


def event_class(began: Entry | None, *, changed: bool) -> str:
    """Classify a run by its first entry `began`; `changed`: one of its calls with an effect in `CHANGES` started."""
    if began is not None and began.kind is Kind.USER and began.actor == "person":
        return "communication"
    return "building" if changed else ""


def repeated_calls(items: Sequence[WindowItem], call: ToolCall, refused: Container[str]) -> list[ToolCall]:
    """Return `call` and the equal calls directly before it in this turn, newest first; [] if it is not in the window.

    A call is equal if its arguments are, and if it brought nothing new: a call that waits for something may be repeated
    until its result changes. Calls in `refused` (by id) brought nothing, whatever their results say; before an equal
    call that ran, they are not counted. Calls that did not run because of a failed edit are not counted either.
    """
    arguments, earlier_result = call.arguments_text, ""
    results: dict[str, str] = {}
    calls: list[ToolCall] = []
    for item in reversed(items):
        if item.message.role is Role.USER:
            break
        if item.message.tool_call_id and not item.message.content.startswith(SAME):
            results[item.message.tool_call_id] = DROP_ID.sub("", item.message.content)
        for earlier in reversed(item.message.tool_calls):
            if (not calls and earlier.id != call.id) or results.get(earlier.id, "").startswith(AFTER_FAILED_EDIT):
                continue
            is_equal = earlier.name == call.name and earlier.raw == call.raw and earlier.arguments_text == arguments
            if is_equal and earlier_result and earlier.id in refused:
                continue
            result = results.get(earlier.id, earlier_result) if earlier.id not in refused else ""
            if not is_equal or (earlier_result and result != earlier_result):
                return calls
            earlier_result = result
            calls.append(earlier)
    return calls


def repeat_notice(call: ToolCall, times: int) -> str:
    """Return the notice that the model gets about a call that brought the same result `times` times."""
    return (
        f"{call.name} was called {times} times in a row with the same arguments and brought the same result: try "
        "something else, wait in one call for what has to change (`until CHECK; do sleep 20; done`, or `wait_for`), or "
        f"say what is missing. The turn ends at {END_AT}."
    )


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Entries since a run began."""

    began: Entry | None
    """The message or instruction that began it."""
    batches: tuple[tuple[ToolCall, ...], ...]
    """The calls of each step that requested any, newest last."""

    @classmethod
    def of(cls, conversation: Conversation, run: int) -> RunHistory:
        """Return the history since the newest message or instruction from entry `run` on (a fork adds its own)."""
        entries = conversation.read(max(1, run), conversation.last)
        start = next((entry for entry in reversed(entries) if entry.kind in (Kind.USER, Kind.INSTRUCTION)), None)
        since = [entry for entry in entries if start is None or entry.id > start.id]
        return cls(start, tuple(e.message.tool_calls for e in since if e.message.tool_calls))


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits on the tool calls of one step."""

    limits: Limits
    bounds: tuple[Bound, ...]
    """The layer that each limit comes from: `run`, `assessment` or `signals`."""
    run: RunHistory
    now: Signals
    find: Callable[[str], Tool | None]
    started: Callable[[str], bool]

    def refusals(self, calls: Mapping[str, str]) -> dict[str, CallDecision]:
        """Return the refused ones among `calls` (the newest step of the run: tools by call id), by call id."""
        acted = any(self.started(call.id) for batch in self.run.batches for call in batch if call.id not in calls)
        decisions = (
            (call_id, self.exclude(self.find(name)) or self._refuse_over_limit(acted))
            for call_id, name in calls.items()
        )
        return {call_id: refusal for call_id, refusal in decisions if refusal}

    def exclude(self, tool: Tool | None) -> CallDecision | None:
        """Return the refusal of a tool that this run excludes, None for another."""
        tools, categories = self.limits.tools, self.limits.categories
        if tool is None:
            return None
        if tools is not None and tool.name not in tools:
            available = ", ".join(sorted(filter(self.find, tools)))
            return refuse_by_limit(
                f"{tool.name} is off in this run. Available: {available}." if available else SWITCHED_OFF, "tools"
            )
        if tool.delegates and self.limits.sub_agents is False:
            return refuse_by_limit("this run is not allowed to start workers", "sub_agents")
        if categories is not None and tool.effect not in categories:
            return self._bound(
                "categories", f"this run is not allowed to make calls that {_matches_effect(tool.effect)}", ""
            )
        return None

    def _refuse_over_limit(self, acted: bool) -> CallDecision | None:
        """Return the refusal of a call after the last step that may call tools; `acted`: an earlier step ran calls."""
        step_limit = self.limits.max_iterations
        if step_limit is not None and len(self.run.batches) > step_limit:
            steps = "one step" if step_limit == 1 else f"{step_limit} steps"
            return self._bound("max_iterations", f"not run: the tool-call limit is {steps}", f". {ANSWER}")
        if self.limits.is_one_step and acted:
            name = "multi_tool" if self.limits.multi_tool is False else "mode"
            return self._bound(name, "not run: this run may call tools in only one step", f". {ANSWER}")
        return None

    def _bound(self, name: str, why: str, end: str) -> CallDecision:
        """Return a refusal by the limit `name`, with the reason if signals or an assessment set it."""
        by = next((bound.bound_by for bound in self.bounds if bound.name == name), "")
        if by not in (SIGNALS, ASSESSMENT):
            return refuse_by_limit(why + end, name)
        reason = reasons(self.now, name) if by == SIGNALS else "set by the task assessment"
        return refuse_by_limit(f"{why} ({reason}){end}", SIGNALS)


def _matches_effect(effect: Effect) -> str:
    return {Effect.NONE: "touch nothing", Effect.READ: "read", Effect.EDIT: "edit", Effect.RUN: "run commands"}[effect]
