"""Side lanes of a session: forks that begin with the main lane's lines, and lanes of their own."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.tokens.estimator import TokenEstimator
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Kind
from nexus_cli.core.message import Message, Role
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.cache.last_request import CacheHistory
from nexus_cli.session.lane_state import LaneState, Model


def forked(engine: LaneState, agent: str, instruction: str) -> LaneState:
    """An engine whose lane begins with the lines of this one's, plus one instruction of ours."""
    lane = engine.lane
    log = engine.side_log(agent, lane.timeline.last)
    context = engine.context.fork(lane.fork(Timeline(log, engine.clock)))
    context.lane.append(Kind.INSTRUCTION, Message(Role.USER, instruction), "nexus")
    return replace(
        engine, context=context, meter=engine.meter.fork(), cache=engine.cache.fork(), step=0, notices=[], in_force=None
    )


def sized(engine: LaneState, model: Model) -> tuple[TokenBudget, TokenEstimator]:
    """The budget of a lane of `model`, and a meter that knows what was learned of it."""
    known = engine.calibrations.calibration(model.info.served_name) if engine.calibrations else None
    budget = TokenBudget.of(model.info.window, model.info.max_output)
    return budget, TokenEstimator(engine.meter.calibration if _same(engine, model) else known)


def _same(engine: LaneState, model: Model) -> bool:
    return model.info.served_name == engine.model.info.served_name


def separate(engine: LaneState, agent: str, model: Model) -> LaneState:
    """An engine with an empty lane of its own: no system text, no tools. What its requests teach of the session's own
    model is forgotten with it: they are made of other things than the session's."""
    log = engine.side_log(agent, None)
    budget, meter = sized(engine, model)
    config = ContextConfig(budget.window, budget.window - budget.available)
    context = ContextManager(config, log, token_counter=engine.context.counter)
    rules = rules_for(model.info.provider, model.info.name).dumps()
    context.reframe(replace(context.frame(), model=model.info.name, rules=rules))
    context.lane.begin()
    return replace(
        engine, context=context, model=model, budget=budget, meter=meter, step=0, notices=[],
        cache=CacheHistory(uses=engine.cache.uses), files=tuple, event=(), in_force=None,
        calibrations=None if _same(engine, model) else engine.calibrations,
    )  # fmt: skip
