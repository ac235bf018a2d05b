"""Open side conversations of a session: forks that share the conversation's history, and separate, empty
conversations."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager, Model
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Kind
from nexus_cli.core.message import Message, Role
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.model_info import load_model_info
from nexus_cli.engine.requests.readings import Readings
from nexus_cli.provider.available_models import resolve_alias
from nexus_cli.provider.wire_rules import rules_for


def forked(engine: Engine, agent: str, instruction: str) -> Engine:
    """Fork the conversation and append one instruction.

    Shared with the parent: spending, control, clock, settings, prompt, calibrations, the token estimate but for its
    anchor. Copied: model, budget, anchor, sent requests, event sections. Everything else is new. Of the session's
    limits only those of `spending` apply.
    """
    conversation = engine.conversation
    context = engine.context.fork(conversation.fork(conversation.log.open_lane(agent, conversation.last)))
    context.cut_run = -1
    context.conversation.append(Kind.INSTRUCTION, Message(Role.USER, instruction), "nexus")
    return Engine(
        context,
        engine.provider,
        engine.spending,
        engine.control,
        engine.settings,
        engine.prompt,
        readings=Readings(preamble=engine.readings.preamble),
    )


def separate(engine: Engine, agent: str, model: Model, text: str = "") -> Engine:
    """Open a conversation for `model`, without system text and tools, empty or with a message of this text.

    Shared with `engine`: spending, control, clock, settings, prompt, cache use times, and calibrations unless
    `model` is the session's own, whose calibration other contents must not change. Everything else is new.
    """
    budget, estimate = sized(engine.context, model)
    log = engine.conversation.log.open_lane(agent)
    context = ContextManager(logger=log, token_counter=engine.context.counter)
    context.conversation = Conversation(log, engine.conversation.clock, context.measure)
    context.conversation.sent = SentRequests(uses=engine.conversation.sent.uses)
    rules = rules_for(model.info.provider, model.info.name).dumps()
    context.set_header(replace(context.conversation.epoch, model=model.info.name, rules=rules))
    context.conversation.begin()
    if text:
        context.conversation.append(Kind.USER, Message(Role.USER, text), "nexus")
    same = model.info.served_name == engine.model.info.served_name
    context.use_model(model, budget, estimate, None if same else engine.context.calibrations)
    return Engine(
        context,
        engine.provider,
        engine.spending,
        engine.control,
        engine.settings,
        engine.prompt,
    )


def other_model(context: ContextManager, settings: Settings, name: str) -> Model:
    """Return the model with this name or alias; the session's own for "" or a window without calibrations."""
    name = resolve_alias(name, settings)
    if not name or context.calibrations is None:
        return context.model
    info = load_model_info(context.calibrations, name, settings)
    return replace(context.model, info=info, effort="")


def sized(context: ContextManager, model: Model) -> tuple[TokenBudget, Estimate]:
    """Return the budget of a conversation for `model`, and an estimate by the model's calibration."""
    name = model.info.served_name
    known = context.calibrations.calibration(name) if context.calibrations else None
    budget = TokenBudget.of(model.info.window, model.info.max_output)
    return budget, Estimate.of(context.estimate.calibration if name == context.model.info.served_name else known)
