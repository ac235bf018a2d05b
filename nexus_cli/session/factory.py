"""Open a session from options and settings. The only module that knows all parts of a session.

Order: the ledger (in memory if it cannot be opened), the session (new or resumed), model and budget, context, tools
with their services, contributors. Sends nothing and imports no model library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from nexus_cli.config.command_records import is_unchecked
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import find_worktree, project_identity
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens.counter import StoredCounter, TiktokenCounter, TokenCounter
from nexus_cli.context.tokens.estimator import TokenEstimator
from nexus_cli.context.window.lane import Lane
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.approval import Approver
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import UNASKED, Limits, compose_limits
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import RunFacts
from nexus_cli.core.session_services import SessionServices
from nexus_cli.lane.control import Control
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow, Model
from nexus_cli.lane.open_session import (
    find_session,
    load_model_info,
    lock_session,
    needs_ledger,
    open_instead,
    open_ledger,
)
from nexus_cli.lane.options import CHAT, Options, limit_layers
from nexus_cli.lane.prompt_assembly import PromptAssembly
from nexus_cli.lane.recipes import recipe_of
from nexus_cli.lane.section_sources import SessionSources, make_collector
from nexus_cli.lane.spending import Spending, unknown_price
from nexus_cli.lane.tool_selection import select_tools, unknown_tools
from nexus_cli.lane.upcoming import Upcoming
from nexus_cli.ledger import RUN, FailoverLog, Ledger, SessionInfo
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.provider.call_arguments import effort_notice, sent_effort
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.model_table import check_model, model_info
from nexus_cli.provider.retry import RetryingProvider
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.limits_record import SessionLimits, permission_facts
from nexus_cli.session.memory.session_facts import SessionFacts
from nexus_cli.session.service_makers import ServiceMakers, offered_services
from nexus_cli.session.session import Session
from nexus_cli.session.session_state import SessionState
from nexus_cli.tools.registry import ToolRegistry
from nexus_cli.turn.dispatch import Dispatcher


def open_session(
    options: Options,
    settings: Settings,
    *,
    approver: Approver | None,
    provider: Provider | None = None,
    clock: Clock = local_now,
    earlier: Session | None = None,
    ledger: Ledger | None = None,
    services: ServiceMakers = (),
) -> Session:
    """Open a session for its first trigger; raise `NexusError` if options, files or the ledger prevent it.

    With `ledger` (and a `provider`) both are shared with other sessions and left open. `services` are the makers of
    `nexus_cli.service_list`.
    With `earlier` it takes over ledger and provider of that session, and its allowances if it is the same session;
    after an error `earlier` remains usable.
    """
    notices = [] if earlier is not None else list(settings.notices)

    def opened(ledger: Ledger, provider: Provider | None = provider) -> Session:
        return _open(ledger, options, settings, approver, provider, clock, notices, services)

    if earlier is not None and earlier.ledger is not None:
        return _succeed(earlier, earlier.ledger, lambda ledger: opened(ledger, provider or earlier.provider))
    if ledger is not None:
        made = opened(ledger)
        made.state = replace(made.state, shares=True)
        return made
    ledger = open_ledger(options, notices)
    try:
        return opened(ledger)
    except NexusError as error:
        ledger.close()
        if error.kind != "ledger" or needs_ledger(options):
            raise
        return opened(open_instead(error, notices))
    except BaseException:
        ledger.close()
        raise


def make_provider(settings: Settings) -> Provider:
    """Make the provider for all models that litellm knows, with the retries of the settings."""
    return RetryingProvider(
        LitellmBackend(info=lambda name: model_info(name, settings.models)),
        tries=settings.provider.retries + 1,
        seconds=settings.provider.retry_seconds,
    )


def _succeed(earlier: Session, ledger: Ledger, opened: Callable[[Ledger], Session]) -> Session:
    """Open a session after `earlier`, in the same process and ledger."""
    earlier.refuse_to_leave()
    made = opened(ledger)
    if made.id != earlier.id and earlier.workers is not None and (busy := earlier.workers.running()):
        ledger.release(made.id)
        why = f"{', '.join(busy)} {'works' if len(busy) == 1 else 'work'} for it in the background"
        raise NexusError("usage", "the session cannot be left", why, "Wait, or stop them: /agents stop NAME")
    made.state = replace(made.state, shares=earlier.state.shares)
    made.inherit_from(earlier)
    if made.id == earlier.id:
        made.continue_from(earlier)
    else:
        earlier.state.dispatcher.permission.close()
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
    services: ServiceMakers,
) -> Session:
    notices.extend(_settle(options))
    found = find_session(ledger, options)
    recipe, told = recipe_of(found, options)
    notices.extend([*told, *unknown_tools(recipe)])
    name = options.model or (found.model if found else "")
    if not name:
        raise NexusError("usage", "no model", "neither an option nor the session names one", "Use --model NAME")
    if provider is None or isinstance(provider, RetryingProvider):
        check_model(name)
    info = load_model_info(ledger, name, settings, ledger.log(found.id) if found else None)
    if not (info.known or info.window_refused):
        notices.append(f"unknown context window for {info.name}; assuming {info.window:,} tokens")
    if notice := effort_notice(info.name, options.effort):
        notices.append(notice)
    if found and found.worktree not in ("", options.worktree):
        resume = f"nexus -w {found.worktree} -r {found.id}"
        notices.append(f"this session worked in worktree {found.worktree}; it continues in {options.cwd} ({resume})")
    made = found or ledger.create_session(
        folder=str(options.cwd),
        project=str(project_identity(options.cwd)),
        model=info.name,
        recipe=recipe.name,
        at=format_utc(clock()),
        front=options.front,
        spawner=options.spawner,
        worktree=options.worktree,
    )
    asked = provider or make_provider(settings)
    factory = SessionFactory(
        ledger, ledger, options, settings, clock, notices, recipe, info, made, found is not None, asked, services
    )
    held = ledger.is_locked(made.id)
    lock_session(ledger, made)
    try:
        session = factory.session(approver)
        _check_bounds(session, info, settings)
    except BaseException:
        if not held:
            ledger.release(made.id)
        raise
    front = options.front if found and found.front == RUN != options.front else None
    if found and ledger.writes and (front or found.model != info.name or options.recipe not in ("", found.recipe)):
        ledger.touch_session(found.id, model=info.name, recipe=options.recipe or None, front=front)
    return session


def _settle(options: Options) -> list[str]:
    """Undo changes to protected places by a command whose nexus process was killed; return lines for the person.

    Runs before anything reads the project. Raises `NexusError` on failure: git or an editor might obey these changes.
    """
    project, own = project_root(options.cwd), places()
    if not is_unchecked(project, own.data):
        return []
    from nexus_cli.sandbox.command_guard import settle_project  # noqa: PLC0415  (after a process was killed)

    try:
        return settle_project(project, own)
    except OSError as error:
        why = error.strerror or str(error)
        raise NexusError("internal", "the project was not checked", why, f"Records lie in {own.data}") from error


def _anchor_estimate(window: LaneWindow, log: FailoverLog) -> None:
    """Anchor the token estimate of a resumed lane, unless its record is damaged."""
    from nexus_cli.lane.estimate_anchor import take_anchor  # noqa: PLC0415  (a session is resumed)

    with suppress(NexusError):
        take_anchor(window.estimator, log, window.lane.epoch, window.lane.items)


async def _extract_facts(dispatcher: Dispatcher, lane_state: LaneState) -> None:
    from nexus_cli.session.acts.memory import extract_facts  # noqa: PLC0415  (before a compaction only)

    await extract_facts(dispatcher, lane_state)


def _check_bounds(session: Session, info: ModelInfo, settings: Settings) -> None:
    """Raise `NexusError` if a required sandbox, the rules or the dollar limit could not be enforced."""
    permission, limits = session.state.dispatcher.permission, session.state.limits
    if limits.max_cost is not None and (info.input_price is None or info.output_price is None):
        raise unknown_price(info.name)
    level = limits.allow or "read"
    if settings.sandbox.backend == "required":
        permission.require_sandbox()
    permission.check_rules(level)
    session.notices.extend(permission.take_problems(level))


@dataclass
class SessionFactory:
    """Builds a session, to run it or only to inspect it (`session/draft.py`)."""

    ledger: Ledger
    """The ledger of the session."""
    known: Ledger
    """The ledger with the person's facts: the same one, or theirs if the session's is in memory."""
    options: Options
    settings: Settings
    clock: Clock
    notices: list[str]
    recipe: Recipe
    info: ModelInfo
    made: SessionInfo
    resumed: bool
    provider: Provider
    services: ServiceMakers
    control: Control = field(default_factory=Control)

    def session(self, approver: Approver | None) -> Session:
        """Build the session. Records, sends and locks nothing."""
        services = offered_services(self.services, self.known, self.options, lambda: session)
        session = Session(self.provider, state=self._state(approver, services))
        return session

    def _state(self, approver: Approver | None, services: SessionServices) -> SessionState:
        """Build the members, each after those that it needs."""
        options, info = self.options, self.info
        effort = sent_effort(info.name, options.effort)
        limits, bounds = compose_limits(limit_layers(self.settings, self.recipe, options, self.resumed))
        log = self._log()
        root = self._root()
        model = Model(info, self.provider, effort, root.id, self.settings.provider.stall_seconds)
        budget = TokenBudget.of(info.window, info.max_output)
        counter = StoredCounter(TiktokenCounter(info.encoding), log)
        context = self._context(log, budget, counter)
        facts = SessionFacts.of(self.known, self.made.id, options.cwd, self.clock)
        registry = ToolRegistry(() if options.no_tools and not self.resumed else None, services)
        tools = select_tools(registry, self.recipe, context.lane.epoch if self.resumed else None)
        dispatcher = self._make_dispatcher(registry, log, limits, approver, services)
        upcoming, is_run = Upcoming(), RunFacts in services
        run_facts = (lambda: services[RunFacts].facts()) if is_run else None
        collector = make_collector(
            options,
            info,
            self.recipe,
            budget,
            count=counter.count,
            log=log,
            clock=self.clock,
            started=datetime.fromisoformat(root.created).astimezone(),
            failed=self.control.emit_notice,
            dropped=self.control.emit_drop,
            settings=self.settings,
            tools=tuple(str(one["function"]["name"]) for one in tools),
            runs=approver is not None or limits.allow in UNASKED,
            is_run=is_run,
            **facts.source_fields(),
            permission=partial(permission_facts, dispatcher),
            **SessionSources(
                context, log.seen_files, upcoming.notices, upcoming.away, options.front, run_facts
            ).source_fields(),
        )
        lane_state = LaneState(
            LaneWindow(context, model, budget, TokenEstimator(log.calibration(info.served_name)), log),
            Spending(limits, (self.recipe,), options.reports, options.front == CHAT, options.served),
            self.control,
            self.clock,
            self.settings,
            PromptAssembly(collector, context, tools, rules_for(info.provider, info.name).dumps(), effort),
            SessionLimits(dispatcher, bounds, self.recipe),
            upcoming=upcoming,
            step=log.step(),
        )
        if context.lane.is_recorded and context.lane.epoch.model == info.name:
            _anchor_estimate(lane_state.window, log)
        if self.settings.compact.extract and facts.saves:
            lane_state.before_summary = partial(_extract_facts, dispatcher)
        return SessionState(
            lane_state,
            dispatcher,
            limits,
            bounds,
            self.recipe,
            self.made.id,
            self.resumed,
            self.notices,
            log,
            self.ledger,
            options,
            services,
        )

    def _log(self) -> FailoverLog:
        saves, spools = self.options.require_save, self.ledger.spools
        return FailoverLog(self.ledger.db, self.made.id, require_save=saves, warn=self._warn, spools=spools)

    def _make_dispatcher(
        self,
        registry: ToolRegistry,
        log: FailoverLog,
        limits: Limits,
        approver: Approver | None,
        services: SessionServices,
    ) -> Dispatcher:
        options, project = self.options, project_root(self.options.cwd)
        # Nexus's data folder is protected as a whole, unless the project is a worktree in it.
        own = (places().config,) if find_worktree(project) else (places().config, places().data)
        permission = CallPermission(options.cwd, project, own, self.settings.sandbox, answers=options.answers)
        return Dispatcher(
            registry,
            log,
            limits,
            options.cwd,
            project,
            permission,
            approver,
            services,
            self.recipe.limits.allow,
            self.recipe.signals,
        )

    def _warn(self, line: str) -> None:
        """Emit a line at once during a turn, else add it to the notices of the session."""
        if self.control.running:
            self.control.emit_notice(line)
        else:
            self.notices.append(line)

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

    def _root(self) -> SessionInfo:
        """Return the oldest existing ancestor of the session: its forks share its cache key and start time."""
        session = self.made
        try:
            while session.parent:
                session = self.ledger.session(session.parent)
        except NexusError:
            return replace(session, id=session.parent or session.id)
        return session
