"""Open side lanes of a session: forks that share the lane's history, and separate, empty lanes."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.config.settings import Settings
from nexus_cli.context.lane_window import LaneWindow, Model
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Lane
from nexus_cli.conversation.sent_requests import CacheHistory
from nexus_cli.conversation.timeline import MemoryLog, Timeline
from nexus_cli.conversation.tokens.estimator import TokenEstimator
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Kind
from nexus_cli.core.message import Message, Role
from nexus_cli.core.services import Log
from nexus_cli.engine.requests.lane_state import LaneState
from nexus_cli.engine.requests.model_facts import load_model_info
from nexus_cli.ledger import LaneLog
from nexus_cli.provider.available_models import resolve_alias
from nexus_cli.provider.wire_rules import rules_for


def forked(lane_state: LaneState, agent: str, instruction: str) -> LaneState:
    """Fork the lane and append one instruction.

    Shared with the parent: spending, control, clock, settings, prompt, calibrations. Copied: model, budget, token
    estimate, cache history, event sections. Everything else is new. Of the session's limits only those of `spending`
    apply.
    """
    parent, lane = lane_state.window, lane_state.lane
    log = _open_log(lane, agent, lane.timeline.last)
    context = parent.context.fork(lane.fork(Timeline(log, lane_state.clock)))
    context.lane.append(Kind.INSTRUCTION, Message(Role.USER, instruction), "nexus")
    return LaneState(
        LaneWindow(context, parent.model, parent.budget, parent.estimator.fork(), parent.calibrations),
        lane_state.spending,
        lane_state.control,
        lane_state.clock,
        lane_state.settings,
        lane_state.prompt,
        event_sections=lane_state.event_sections,
        cache=replace(lane_state.cache, last_usage=None),
    )


def separate(lane_state: LaneState, agent: str, model: Model, text: str = "") -> LaneState:
    """Open a lane for `model`, without system text and tools, empty or with a message of this text.

    Shared with `lane_state`: spending, control, clock, settings, prompt, cache use times, and calibrations unless
    `model` is the session's own, whose calibration other contents must not change. Everything else is new.
    """
    budget, estimator = sized(lane_state.window, model)
    log = _open_log(lane_state.lane, agent, None)
    context = ContextManager(logger=log, token_counter=lane_state.window.context.counter)
    rules = rules_for(model.info.provider, model.info.name).dumps()
    context.reframe(replace(context.frame(), model=model.info.name, rules=rules))
    context.lane.begin()
    if text:
        context.lane.append(Kind.USER, Message(Role.USER, text), "nexus")
    same = model.info.served_name == lane_state.model.info.served_name
    return LaneState(
        LaneWindow(context, model, budget, estimator, None if same else lane_state.window.calibrations),
        lane_state.spending,
        lane_state.control,
        lane_state.clock,
        lane_state.settings,
        lane_state.prompt,
        cache=CacheHistory(uses=lane_state.cache.uses),
    )


def other_model(window: LaneWindow, settings: Settings, name: str) -> Model:
    """Return the model with this name or alias; the session's own for "" or a window without calibrations."""
    name = resolve_alias(name, settings)
    if not name or window.calibrations is None:
        return window.model
    info = load_model_info(window.calibrations, name, settings)
    return replace(window.model, info=info, effort="")


def sized(window: LaneWindow, model: Model) -> tuple[TokenBudget, TokenEstimator]:
    """Return the budget of a lane for `model`, and an estimator with the model's calibration."""
    name = model.info.served_name
    known = window.calibrations.calibration(name) if window.calibrations else None
    budget = TokenBudget.of(model.info.window, model.info.max_output)
    return budget, TokenEstimator(window.estimator.calibration if name == window.model.info.served_name else known)


def _open_log(lane: Lane, agent: str, at_entry: int | None) -> Log:
    """Open the log of a side lane: a fork at `at_entry`, or (None) an empty one; in memory if the parent's log cannot
    store lanes."""
    log = lane.timeline.log
    if isinstance(log, LaneLog):
        return log.open_lane(agent, at_entry)
    return MemoryLog(at_entry or 0, epochs=lane.epoch.id + 1)
