"""The only place that knows every part: opens a session from options and settings.

Order: the ledger (in memory where it cannot be opened), the session (new, or the one to resume), model and budget,
context, tools with their services, contributors. Nothing is sent and no model library is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.sections.collect import SectionCollector
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens.counter import StoredCounter, TiktokenCounter, TokenCounter
from nexus_cli.context.tokens.estimator import TokenEstimator
from nexus_cli.context.window.lane import Lane
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core import event
from nexus_cli.core.approval import Approver
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Bound, compose_limits
from nexus_cli.core.memory import Facts
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Assembly, Recall, Seen
from nexus_cli.core.services import TokenCounter as Counting
from nexus_cli.ledger import FailoverLog, Ledger, SessionInfo
from nexus_cli.provider.call_arguments import effort_notice
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.model_table import check_model, model_info
from nexus_cli.provider.retry import Retrying
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.acts.memory import extract_facts
from nexus_cli.session.available_models import resolve_alias
from nexus_cli.session.cache.request_history import load_history
from nexus_cli.session.context_fit import replan_sections
from nexus_cli.session.context_tool_service import ContextToolService
from nexus_cli.session.control import Control
from nexus_cli.session.dispatch import Dispatcher
from nexus_cli.session.estimate_anchor import take_anchor
from nexus_cli.session.goals import list_goals
from nexus_cli.session.lane_state import LaneState, Model
from nexus_cli.session.limits_record import LIMITS, LimitsRecorder, describe_changed_limits
from nexus_cli.session.memory.session_facts import SessionFacts
from nexus_cli.session.opening import (
    find_session,
    in_memory_notice,
    load_model_info,
    lock_session,
    needs_ledger,
    open_ledger,
    refuse_to_leave,
)
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.prompt_assembly import PromptAssembly
from nexus_cli.session.recipes import recipe_of
from nexus_cli.session.reports.live import live_report
from nexus_cli.session.section_sources import SessionSources, make_collector
from nexus_cli.session.session import Session
from nexus_cli.session.session_state import SessionState, ignore
from nexus_cli.session.spending import Spending, unknown_price
from nexus_cli.session.tool_selection import select_tools, tool_names, unknown_tools
from nexus_cli.tools.registry import ToolRegistry


def open_session(
    options: Options,
    settings: Settings,
    *,
    approver: Approver | None,
    provider: Provider | None = None,
    clock: Clock = local_now,
    earlier: Session | None = None,
) -> Session:
    """A session that is ready for its first trigger; `NexusError` where options, files or the ledger forbid it.

    With `earlier` it takes over the ledger and the provider of a session that is done with, and what the person allowed
    in it if it is the same one; after an error the earlier one can go on as if nothing had been.
    """
    notices = [] if earlier is not None else list(settings.notices)

    def opened(ledger: Ledger, provider: Provider | None = provider) -> Session:
        return _open(ledger, options, settings, approver, provider, clock, notices)

    if earlier is not None and earlier.ledger is not None:
        return _succeed(earlier, earlier.ledger, lambda ledger: opened(ledger, provider or earlier.provider))
    ledger = open_ledger(options, notices)
    try:
        return opened(ledger)
    except NexusError as error:
        ledger.close()
        if error.kind != "ledger" or needs_ledger(options):
            raise
        notices.append(in_memory_notice(error))
        return opened(Ledger.open(None))
    except BaseException:
        ledger.close()
        raise


def _succeed(earlier: Session, ledger: Ledger, opened: Callable[[Ledger], Session]) -> Session:
    """A session after `earlier`, in the same process and ledger."""
    refuse_to_leave(earlier)
    made = opened(ledger)
    if made.id == earlier.id:
        made.take_over(earlier)
    else:
        ledger.release(earlier.id)
    return made


def _open(
    ledger: Ledger,
    options: Options,
    settings: Settings,
    approver: Approver | None,
    provider: Provider | None,
    clock: Clock,
    notices: list[str],
) -> Session:
    found = find_session(ledger, options)
    recipe, told = recipe_of(found, options)
    notices.extend([*told, *unknown_tools(recipe)])
    name = options.model or (found.model if found else "")
    if not name:
        raise NexusError("usage", "no model", "neither an option nor the session names one", "Use --model NAME")
    if provider is None or isinstance(provider, Retrying):
        check_model(name)
    info = load_model_info(ledger, name, settings)
    if not (info.known or info.window_refused):
        notices.append(f"the window of {info.name} is unknown: {info.window} tokens are assumed")
    if notice := effort_notice(info.name, options.effort):
        notices.append(notice)
        options = replace(options, effort="")
    made = found or ledger.create_session(
        folder=str(options.cwd), project=str(project_root(options.cwd)), model=info.name, recipe=recipe.name,
        at=format_utc(clock()),
    )  # fmt: skip
    asked = provider or Retrying(
        LitellmBackend(info=lambda name: model_info(name, settings.models)),
        tries=settings.provider.retries + 1,
        seconds=settings.provider.retry_seconds,
    )
    factory = _Factory(ledger, options, settings, clock, notices, recipe, info, made, found is not None, asked)
    held = ledger.is_held(made.id)
    lock_session(ledger, made)
    try:
        session = Session(asked, state=factory.state(approver))
    except BaseException:
        if not held:
            ledger.release(made.id)
        raise
    if found and ledger.writes and (found.model != info.name or options.recipe not in ("", found.recipe)):
        ledger.touch_session(found.id, model=info.name, recipe=options.recipe or None)
    return session


def _sent_lines(log: FailoverLog, lane: Lane) -> tuple[list[bytes], dict[int, bytes]]:
    """The hashes of the lines that were sent under the lane's epoch."""
    head, entries = log.line_hashes(lane.epoch.id, lane.cursor)
    return head, dict(entries)


@dataclass
class _Factory:
    """The parts of one session while they are put together."""

    ledger: Ledger
    options: Options
    settings: Settings
    clock: Clock
    notices: list[str]
    recipe: Recipe
    info: ModelInfo
    made: SessionInfo
    resumed: bool
    provider: Provider
    runs: bool = True
    """A command may run, or somebody can be asked whether it may."""

    def state(self, approver: Approver | None) -> SessionState:
        """All of them."""
        options, info = self.options, self.info
        limits, bounds = compose_limits(limit_layers(self.settings, self.recipe, options, self.resumed))
        if limits.max_cost is not None and (info.input_price is None or info.output_price is None):
            raise unknown_price(info.name)
        log = FailoverLog(
            self.ledger.db,
            self.made.id,
            require_save=options.require_save,
            warn=lambda line: engine.emit(event.Notice(line)) if engine.control.running else self.notices.append(line),
        )
        model = Model(info, self.provider, options.effort, self._root().id, self.settings.provider.stall_seconds)
        budget = TokenBudget.of(info.window, info.max_output)
        counter = StoredCounter(TiktokenCounter(info.encoding), log)
        context = self._context(log, budget, counter)
        own = ContextToolService(lambda: engine, lambda: gathers, log)
        services: dict[type, Any] = {Recall: log, Seen: log, Counting: counter, Assembly: own}
        services[Facts] = facts = SessionFacts.of(self.ledger, self.made, options.cwd, self.clock)
        registry = ToolRegistry(() if options.no_tools and not self.resumed else None, services)
        tools = select_tools(registry, self.recipe, context.lane.epoch if self.resumed else None)
        self.runs = approver is not None or limits.allow == "all"
        gathers = self._gatherer(log, budget, counter, tool_names(tools), facts, lambda: engine)
        rules = rules_for(info.provider, info.name).dumps()
        frames = PromptAssembly(
            gathers, model, rules, tools, context.system_cost, context.tools_cost
        )
        in_force = LimitsRecorder(
            lambda: engine.lane.timeline, lambda: engine.model.info, self.recipe,
            lambda: dispatcher.in_force(engine, bounds)[1],
        )  # fmt: skip
        engine = LaneState(
            context, model, budget, TokenEstimator(log.calibration(info.served_name)), self.settings.compact,
            self.clock, ignore,
            Spending(limits, (self.recipe,)), Control(), log.open_lane, lambda: in_force.noted(frames.gather(engine)),
            lambda: frames.frame(engine),
            lambda: self._summarizer(model), log, step=log.step(),
            files=log.seen_files, in_force=lambda: dispatcher.in_force(engine, bounds),
        )  # fmt: skip
        dispatcher = Dispatcher(
            registry, log, limits, options.cwd, project_root(options.cwd), approver, services,
            (places().config, places().data), self.recipe.limits.allow, self.recipe.signals,
        )  # fmt: skip
        if context.lane.is_recorded and context.lane.epoch.model == info.name:
            with suppress(NexusError):  # a damaged record: the estimate does without
                take_anchor(engine.meter, log, context.lane.epoch, context.lane.items)
        if self.settings.compact.extract and facts.saves:
            engine.before_summary = lambda: extract_facts(engine, dispatcher)
        return SessionState(
            engine, dispatcher, limits, bounds, self.recipe, self.made.id, self.resumed, self.notices,
            lambda current: self._begin(current, frames, log, bounds), log.drops, lambda: self._close(log),
            lambda: self.ledger.path is not None and log.is_saving, lambda: self._cost(engine),
            live_report, log, self.ledger, options, self.settings,
        )  # fmt: skip

    def _cost(self, engine: LaneState) -> float | None:
        try:
            return self.ledger.session(self.made.id).cost_usd
        except NexusError:
            return engine.spending.usage.cost_usd

    def _context(self, log: FailoverLog, budget: TokenBudget, counter: TokenCounter) -> ContextManager:
        cut = self.settings.truncation
        config = ContextConfig(budget.window, budget.window - budget.available, cut.strategy)
        context = ContextManager(config, log, token_counter=counter, low_water=cut.low_water, markers=True)
        epoch, timeline = log.current_epoch(), Timeline(log, self.clock)
        context.lane = Lane(timeline, context.measure)
        if epoch is not None:
            settled = bool(log.line_hashes(epoch.id, 0)[0])
            context.lane = Lane.load(timeline, context.measure, epoch, log.cursor(), head_open=not settled)
        return context

    def _gatherer(
        self, log: FailoverLog, budget: TokenBudget, counter: TokenCounter, tools: tuple[str, ...],
        facts: SessionFacts, engine: Callable[[], LaneState],
    ) -> SectionCollector:  # fmt: skip
        return make_collector(
            self.options,
            self.info,
            self.recipe,
            budget,
            count=counter.count,
            log=log,
            clock=self.clock,
            started=datetime.fromisoformat(self._root().created).astimezone(),
            failed=lambda line: engine().emit(event.Notice(line)),
            dropped=lambda drop: engine().emit(event.Dropped(drop)),
            notices=lambda: engine().notices,
            about=lambda: engine().asked,
            goals=lambda: list_goals(engine().lane.timeline),
            **facts.source_fields(),
            settings=self.settings,
            tools=lambda: tools,
            runs=self.runs,
            **SessionSources(engine, log.seen_files).source_fields(),
        )

    async def _begin(
        self, engine: LaneState, frames: PromptAssembly, log: FailoverLog, bounds: tuple[Bound, ...]
    ) -> None:
        """Before the first turn: the first epoch of a new session, or where a resumed one stands."""
        lane = engine.lane
        if log.current_epoch() is None:
            planned = await frames.frame()
            lane.replace_header(planned.frame)
            lane.begin(planned.drops, [one.note for one in planned.left])
            engine.emit_drops(planned.drops)
            return
        if not engine.model.effort:
            engine.model = frames.model = replace(engine.model, effort=lane.epoch.effort)
        frames.resume(engine)
        last = log.last_request()
        engine.last_usage = last.usage if last else None
        engine.cache = load_history(engine, self.ledger, log, self.settings)
        if (lane.epoch.model, lane.epoch.effort) != (engine.model.info.name, engine.model.effort):
            engine.pending = "model"
        elif not lane.renders_to(*_sent_lines(log, lane)):
            engine.pending = "reload"
            engine.emit(event.Notice("another version of nexus wrote this session; its next request is sent anew"))
        await replan_sections(engine)
        if self.made.folder != str(self.options.cwd):
            engine.notices.append(f"the working folder is now {self.options.cwd}, no longer {self.made.folder}")
        if changed := describe_changed_limits(lane.timeline.memos(LIMITS), bounds):
            engine.notices.append(changed)

    def _summarizer(self, model: Model) -> Model:
        """Who sums up a plain transcript: `compact.model`, else the session's own."""
        name = resolve_alias(self.settings.compact.model, self.settings)
        return replace(model, info=load_model_info(self.ledger, name, self.settings), effort="") if name else model

    def _root(self) -> SessionInfo:
        """The session that this one's first lines come from, as far as it is still there: its forks share a cache key
        and the time at which it all began."""
        session = self.made
        try:
            while session.parent:
                session = self.ledger.session(session.parent)
        except NexusError:
            return replace(session, id=session.parent or session.id)
        return session

    async def _close(self, log: FailoverLog) -> None:
        shut = getattr(getattr(self.provider, "inner", self.provider), "aclose", None)
        if shut is not None:
            await shut()
        try:
            self.ledger.release(self.made.id)
        except NexusError:
            pass  # it is not there any more, or cannot be written: nothing of it is lost that could be kept
        log.close()
        self.ledger.close()
