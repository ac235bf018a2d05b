"""The only place that knows every part: opens a session from options and settings.

Order: the ledger (in memory where it cannot be opened), the session (new, or the one to resume), model and budget,
context, tools with their services, contributors. Nothing is sent and no model library is imported here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from nexus_cli.context.contributors import Sources, View, discover
from nexus_cli.context.gather import Gatherer
from nexus_cli.context.lane import Lane
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.meter import Anchor, Meter
from nexus_cli.context.recipe import Recipe, load_recipe
from nexus_cli.context.timeline import Timeline
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter, TokenCounter
from nexus_cli.core.approval import Approver
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, local_now, stamp
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import compose
from nexus_cli.core.paths import defaults, places, project
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Recall, Seen
from nexus_cli.core.services import TokenCounter as Counting
from nexus_cli.core.settings import Settings
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.retry import Retrying
from nexus_cli.provider.windows import model_info
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.control import Control
from nexus_cli.session.dispatch import Dispatcher
from nexus_cli.session.engine import Engine, Model
from nexus_cli.session.frames import Frames, drop_of
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.opening import chosen_session, hold, open_ledger
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.parts import Parts, ignore
from nexus_cli.session.session import Session
from nexus_cli.session.spending import Spending, unknown_price
from nexus_cli.session.steady import SteadyLog
from nexus_cli.tools.registry import ToolRegistry


def open_session(
    options: Options,
    settings: Settings,
    *,
    approver: Approver | None,
    provider: Provider | None = None,
    clock: Clock = local_now,
) -> Session:
    """A session that is ready for its first trigger; `NexusError` where options, files or the ledger forbid it."""
    notices: list[str] = []
    ledger = open_ledger(options, notices)
    try:
        return _open(ledger, options, settings, approver, provider, clock, notices)
    except BaseException:
        ledger.close()
        raise


def _open(
    ledger: Ledger,
    options: Options,
    settings: Settings,
    approver: Approver | None,
    provider: Provider | None,
    clock: Clock,
    notices: list[str],
) -> Session:
    recipe = load_recipe(options.recipe, [places().config / "recipes", defaults() / "recipes"])
    found = chosen_session(ledger, options)
    name = options.model or (found.model if found else "")
    if not name:
        raise NexusError("usage", "no model", "neither an option nor the session names one", "Use --model NAME")
    info = model_info(name, settings.models)
    if not info.known:
        notices.append(f"the window of {info.name} is unknown: {info.window} tokens are assumed")
    made = found or ledger.create_session(
        folder=str(options.cwd), project=str(project(options.cwd)), model=info.name, recipe=recipe.name,
        at=stamp(clock()),
    )  # fmt: skip
    hold(ledger, made)
    if found and found.model != info.name:
        ledger.touch_session(found.id, model=info.name)
    log = SteadyLog(
        SessionLogger(ledger=ledger, session=made.id), require_save=options.require_save, warn=notices.append
    )
    parts = _parts(log, made, found is not None, info, recipe, options, settings, provider, clock, notices)
    parts.dispatcher.approver = approver
    return Session(parts.engine.model.provider, parts=parts)


def _parts(
    log: SteadyLog,
    made: SessionInfo,
    resumed: bool,
    info: ModelInfo,
    recipe: Recipe,
    options: Options,
    settings: Settings,
    provider: Provider | None,
    clock: Clock,
    notices: list[str],
) -> Parts:
    limits, bounds = compose(limit_layers(settings, recipe, options, resumed))
    if limits.max_cost is not None and (info.input_price is None or info.output_price is None):
        raise unknown_price(info.name)
    asked = provider or Retrying(
        LitellmBackend(info=lambda name: model_info(name, settings.models)),
        tries=settings.provider.retries,
        seconds=settings.provider.retry_seconds,
    )
    model = Model(info, asked, options.effort, made.id, settings.provider.stall_seconds)
    budget = TokenBudget.of(info.window, info.max_output)
    counter = StoredCounter(TiktokenCounter(info.encoding), log)
    context = _context(log, budget, counter, settings, clock)
    services: dict[type, Any] = {Recall: log, Seen: log, Counting: counter}
    registry = ToolRegistry(() if options.no_tools and not resumed else None, services)
    frames = _frames(log, context, model, budget, recipe, made, registry, options, clock, notices)
    engine = Engine(
        context, model, budget, Meter(log.calibration(info.name)), settings.compact, clock, ignore, Spending(limits),
        Control(), log.side, lambda: frames.gather(engine), frames.frame, lambda: _summarizer(model, settings), log,
        step=log.logger.step(),
    )  # fmt: skip
    frames.gatherer.sources = replace(frames.gatherer.sources, notices=lambda: engine.notices)
    dispatcher = Dispatcher(
        registry, log, limits, options.cwd, project(options.cwd), services=services,
        config_dirs=(places().config, places().data),
    )  # fmt: skip

    async def close() -> None:
        shut = getattr(getattr(asked, "inner", asked), "aclose", None)
        if shut is not None:
            await shut()
        log.logger.ledger.close()

    return Parts(
        engine, dispatcher, limits, bounds, recipe.name, made.id, resumed, notices,
        lambda current: _begin(current, frames, log), log.drops, close,
    )  # fmt: skip


def _context(
    log: SteadyLog, budget: TokenBudget, counter: TokenCounter, settings: Settings, clock: Clock
) -> ContextManager:
    config = ContextConfig(budget.window, budget.window - budget.available, settings.truncation.strategy)
    context = ContextManager(config, log, token_counter=counter, low_water=settings.truncation.low_water, markers=True)
    epoch = log.logger.current_epoch()
    if epoch is not None:
        context.lane = Lane.load(Timeline(log, clock), context.measure, epoch, log.logger.cursor())
    return context


def _frames(
    log: SteadyLog,
    context: ContextManager,
    model: Model,
    budget: TokenBudget,
    recipe: Recipe,
    made: SessionInfo,
    registry: ToolRegistry,
    options: Options,
    clock: Clock,
    notices: list[str],
) -> Frames:
    gatherer = Gatherer(
        {name: contributor for name, contributor in discover().items() if recipe.admits(name)},
        Sources.of(options.cwd, datetime.fromisoformat(made.created).astimezone(), clock=clock),
        View.of(model.info.name, recipe.name, budget, context.counter.count),
        notices.append,
        drop_of(log, clock),
    )
    rules = rules_for(model.info.provider).dumps()
    return Frames(gatherer, model, rules, registry.get_definitions(), context.system_cost, context.tools_cost)


async def _begin(engine: Engine, frames: Frames, log: SteadyLog) -> None:
    """Before the first turn: the first epoch of a new session, or where a resumed one stands."""
    lane = engine.lane
    if log.logger.current_epoch() is None:
        lane.reframe(await frames.frame())
        lane.begin()
        return
    await frames.resume(engine)
    last = log.logger.last_request()
    if last and last.usage and last.reported and last.manifest.epoch == lane.epoch.id:
        sent = sum(slot.tokens for slot in lane.slots if slot.entry <= last.manifest.last)
        fixed = lane.epoch.system_tokens + lane.epoch.tools_tokens
        engine.meter.anchor = Anchor(last.manifest.last, last.usage.input, fixed + sent)
    if (lane.epoch.model, lane.epoch.effort) != (engine.model.info.name, engine.model.effort or lane.epoch.effort):
        engine.pending = "model"


def _summarizer(model: Model, settings: Settings) -> Model:
    """Who sums up a plain transcript: `compact.model`, else the session's own."""
    name = settings.compact.model
    return replace(model, info=model_info(name, settings.models), effort="") if name else model
