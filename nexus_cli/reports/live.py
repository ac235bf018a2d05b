"""Report on the running session: its next request, pins, goals, limits, tools and permissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nexus_cli.core.limits import LEVELS, PLAN, Limits
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.lane.backoff import may_compact
from nexus_cli.lane.compaction.compact import pins_room
from nexus_cli.lane.compaction.context_fit import compaction_threshold
from nexus_cli.lane.compaction.pins import list_pins
from nexus_cli.lane.current_request import begins_epoch, window_request
from nexus_cli.lane.goals import list_goals
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.lane.next_request import NextRequest
from nexus_cli.permission.approvals import scope_name
from nexus_cli.reports.context import request_value
from nexus_cli.reports.request_view import RequestView, change_notice, first_view, last_told
from nexus_cli.session.draft import prepare_next_request
from nexus_cli.session.session_state import SessionState

if TYPE_CHECKING:
    from nexus_cli.core.json_types.context_report import ContextReport

NAMES = tuple(f.name for f in fields(Limits))
DOES = {
    Effect.NONE: "works in the session only",
    Effect.READ: "reads files",
    Effect.EDIT: "changes files",
    Effect.RUN: "runs commands",
}
_RUNS = {
    "read": "reading inside the project, and commands that only read; everything else asks",
    "edit": "also editing files inside the project, but for .git, .nexus, instruction and shell start-up files",
    "run": "also commands confined to the project, without network",
    "all": "everything, unconfined: nothing asks",
    PLAN: "read-only; the model proposes a plan",
}
_RUNS_UNCONFINED = {
    **_RUNS,
    "read": "reading inside the project; everything else asks",
    "run": "the same as edit: without a sandbox every command asks",
}


def live_report(state: SessionState) -> ContextReport:
    """Return the report of the next request of a session that runs here (`nexus docs json`).

    Raises `NexusError` if the ledger fails.
    """
    if state.lane_state.lane.is_recorded or state.options is None:
        return request_value(_live_view(state, prepare_next_request(state)))
    return request_value(first_view(state))


def context_summary(state: SessionState) -> Mapping[str, Any]:
    """Return the report of the next request, with what its cache should hold now and when the window is rewritten."""
    value = live_report(state)
    used = value["budget"]["used"]["total"]
    cached = (
        0
        if begins_epoch(state.lane_state.window, state.lane_state.upcoming)
        else window_request(state.lane_state).cached
    )
    value["cached"]["expected"] = min(value["cached"]["tokens"], cached) if used else 0
    return {**value, "rewrite": next_rewrite(state.lane_state)}


def next_rewrite(lane_state: LaneState) -> dict[str, Any]:
    """Return the next rewrite of the window: `by` a new `epoch` (and `why`), or `by` a `summary` or `truncation` `at` a
    number of tokens. Stale tool results may be removed earlier."""
    if lane_state.lane.is_recorded and begins_epoch(lane_state.window, lane_state.upcoming):
        return {"by": "epoch", "at": None, "why": _epoch_cause(lane_state.window)}
    request = window_request(lane_state)
    overflow = round(request.room * request.tokens / request.most) if request.most else request.room
    if may_compact(lane_state.lane, lane_state.step, fits=True):
        return {
            "by": "summary",
            "at": min(round(compaction_threshold(lane_state.window, lane_state.settings)), overflow),
            "why": "",
        }
    by = "summary" if may_compact(lane_state.lane, lane_state.step, fits=False) else "truncation"
    return {"by": by, "at": overflow, "why": ""}


def _epoch_cause(window: LaneWindow) -> str:
    epoch, model = window.lane.epoch, window.model
    if epoch.model != model.info.name:
        return "another model"
    changed = epoch.effort != (model.effort or epoch.effort)
    return "another effort" if changed else "instructions and tools are read again"


def _live_view(state: SessionState, request: NextRequest) -> RequestView:
    """Return the next request of a running session that has begun."""
    lane_state = state.lane_state
    lane, draft = lane_state.lane, lane_state.upcoming.draft
    drops, notices = list(state.drops()), list[str]()
    if draft is not None and request.epoch is draft.epoch:
        drops += draft.drops
        notices = [*draft.notices, change_notice(lane.epoch, request.epoch)]
    elif begins_epoch(lane_state.window, lane_state.upcoming):
        notices = ["the next request rewrites the window; this shows it as it was sent"]
    bounds = [bound.to_json() for bound in request.limits[1]]
    return RequestView(
        request,
        state.session_id,
        lane_state.model.info.name,
        state.recipe,
        lane.cursor,
        lane.timeline.last,
        drops,
        bounds,
        lane_state.window.context.counter.count,
        None,
        last_told(lane.timeline.memos, lane.cursor),
        tuple(notices),
        lane.timeline.memos,
    )


def pins_report(state: SessionState) -> dict[str, Any]:
    """Return the session's pins with their tokens; `room` is their share after a compaction."""
    lane_state = state.lane_state
    pins, count = list_pins(lane_state.lane.timeline), lane_state.window.context.counter.count
    rows: list[dict[str, Any]] = [
        {"id": pin.id, "entry": pin.entry, "tokens": pin.tokens(count), "text": pin.text} for pin in pins
    ]
    tokens = sum(int(row["tokens"]) for row in rows)
    return {
        "version": 1,
        "session": state.session_id,
        "pins": rows,
        "tokens": tokens,
        "room": pins_room(lane_state.window),
    }


def goals_report(state: SessionState) -> dict[str, Any]:
    """Return every goal except dropped ones, with `id`, `text`, `done` and its `steps` with the same keys."""
    found = list_goals(state.lane_state.lane.timeline)
    rows = {goal.id: {"id": goal.id, "text": goal.text, "done": goal.done} for goal in found}
    steps = {goal.id: [rows[step.id] for step in found if step.parent == goal.id] for goal in found}
    return {"version": 1, "goals": [{**rows[goal.id], "steps": steps[goal.id]} for goal in found if not goal.parent]}


def limits_report(state: SessionState, name: str = "") -> dict[str, Any]:
    """Return the limit `name`, or all current ones.

    Each has `name`, `value`, `bound_by` and `said` (layer to value); `signals` is the state of the run that may bind.
    """
    limits = state.dispatcher.run_limits(state.lane_state)
    _, bounds = state.dispatcher.in_force(state.lane_state, state.bounds)
    wanted = [bound.to_json() for bound in bounds if name in ("", bound.name)]
    return {
        "version": 1,
        "recipe": state.recipe.name,
        "name": name,
        "limits": wanted,
        "signals": {
            "bind": state.dispatcher.signals,
            "token_pressure": window_request(state.lane_state).budget.pressure,
            "recent_errors": state.dispatcher.errors,
            "event_class": limits.now.event_class,
        },
    }


def tools_report(state: SessionState) -> dict[str, Any]:
    """Return the tools of a session with effect, tokens, and when they ask at the current level. Blocks until the
    sandbox is detected."""
    report = live_report(state)
    tokens = {tool["name"]: int(tool["tokens"]) for tool in report.get("tools", [])}
    limits = {limit["name"]: limit["value"] for limit in report.get("limits", [])}
    level, only = state.limits.allow or "read", limits.get("tools")
    walls = state.dispatcher.permission.has_sandbox()
    return {
        "version": 1,
        "level": level,
        "tools": [
            {
                "name": tool.name,
                "effect": str(tool.effect),
                "does": "sends messages to people" if tool.sends else DOES[tool.effect],
                "tokens": tokens.get(tool.name),
                "asks": "switched off" if only is not None and tool.name not in only else _asks(tool, level, walls),
            }
            for tool in state.dispatcher.registry.tools()
        ],
    }


def _asks(tool: Tool, level: str, has_sandbox: bool) -> str:
    """Return the condition under which a call of this tool asks first."""
    effect = tool.effect
    if tool.sends and level in (PLAN, "read"):
        return "refused" if level == PLAN else "yes"
    if level == "all" or effect is Effect.NONE:
        return "no"
    if effect is Effect.RUN and has_sandbox:
        only_reads = "refused" if level == PLAN else "yes"
        return "outside the sandbox" if level == "run" else f"{only_reads}, unless the command only reads"
    if level == PLAN:
        return "refused" if effect is not Effect.READ else "refused outside the project"
    if effect is Effect.RUN or (effect is Effect.EDIT and level == "read"):
        return "yes"
    return "outside the project" if effect is Effect.READ else "outside the project, protected files"


def describe_level(state: SessionState, level: str) -> str:
    """Describe the calls that run without asking at `level` on this system. Blocks until the sandbox is detected."""
    return (_RUNS if state.dispatcher.permission.has_sandbox() else _RUNS_UNCONFINED)[level]


def permissions_report(state: SessionState) -> dict[str, Any]:
    """Return the current level with its layer, the meaning of each level here, the sandbox, the rules with their
    places, and the permissions granted for the session. Blocks until the sandbox is detected; raises `NexusError` if
    the settings cannot be read."""
    permission = state.dispatcher.permission
    probe = permission.probe_backend()
    rules = permission.rules_in_force()
    return {
        "version": 1,
        "level": state.limits.allow or "read",
        "bound_by": next((bound.bound_by for bound in state.bounds if bound.name == "allow"), "defaults"),
        "levels": [{"name": level, "runs": describe_level(state, level)} for level in (PLAN, *LEVELS)],
        "sandbox": probe.to_json() if probe is not None else None,
        "rules": [rule.to_json() for rule in rules.listed()],
        "problems": list(rules.problems),
        "allowed": [scope_name(scope, state.dispatcher.project) for scope in sorted(state.dispatcher.always)],
    }
