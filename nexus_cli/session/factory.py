"""Open a session from options and settings. The only module that knows all parts of a session.

Order: the ledger (in memory if it cannot be opened), the session (new or resumed), model and budget, context, tools
with their services, contributors. Sends nothing and imports no model library.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.tokens.counter import StoredCounter, TiktokenCounter
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.approval import Approver
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.effort import DEFAULT_EFFORT
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import Notice
from nexus_cli.core.front_ends import CHAT, RUN, SERVED
from nexus_cli.core.limits import ASK, Bound, Limits, compose_limits
from nexus_cli.core.memo_kinds import ADDED_FOLDERS, WORK_FOLDER
from nexus_cli.core.request import Model, ModelInfo, Provider
from nexus_cli.core.services import Jobs, RunFacts
from nexus_cli.core.session_services import SessionServices
from nexus_cli.engine.calls.call_changes import CallChanges
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.prompt_assembly import PromptAssembly
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.requests.tool_selection import ToolOffer, describe_left_out
from nexus_cli.ledger import Ledger, SessionInfo, SessionLog
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.provider.call_arguments import effort_notice, sent_effort
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.model_table import check_model
from nexus_cli.provider.retry import RetryingProvider, make_provider
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.sections.find_recipe import find_agents
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.base_session import Opening
from nexus_cli.session.open_session import (
    find_session,
    lock_session,
    needs_ledger,
    open_instead,
    open_ledger,
    recipe_of,
)
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.section_sources import AGENT_TOOL, SessionSources, find_whole_name, make_collector
from nexus_cli.session.service_makers import ServiceMakers, added_tools, offered_services
from nexus_cli.session.session import Session
from nexus_cli.session.session_facts import SessionFacts
from nexus_cli.session.settle_projects import settle_projects
from nexus_cli.tools.registry import ToolRegistry, discover_tools, plugin_tools

MEMORY_TOOLS = ("remember", "search_memory")
"""Tools that a session is offered by themselves once there are facts."""


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
        notices.extend(settle_projects([project_root(options.cwd), *options.add_dirs]))
        session = find_session(ledger, options)
        with _read_and_lock(ledger, session, options):
            if session:
                _settle_session(session.id)
            return _open(ledger, session, options, settings, approver, provider, clock, notices, services)

    if earlier is not None:
        earlier.refuse_to_leave()
        return _succeed(earlier, opened(earlier.ledger, provider or earlier.provider))
    if ledger is not None:
        opened_session = opened(ledger)
        opened_session.shares = True
        return opened_session
    ledger = open_ledger(options, notices)
    try:
        return opened(ledger)
    except NexusError as error:
        ledger.close()
        if error.kind != "ledger" or needs_ledger(options):
            error.why = "; ".join([error.why, *ledger.notices])  # perhaps why the session is missing
            raise
        return opened(open_instead(error, notices))
    except BaseException:
        ledger.close()
        raise


def _succeed(earlier: Session, session: Session) -> Session:
    """Let a session take over from `earlier`, in the same process and ledger; return it."""
    ledger = earlier.ledger
    if session.id != earlier.id:
        try:
            earlier.refuse_while_busy()
        except NexusError:
            ledger.release(session.id)
            raise
    session.shares = earlier.shares
    session.inherit_from(earlier)
    if (hooks := session.dispatcher.hooks) and (before := earlier.dispatcher.hooks):
        hooks.continue_from(before, is_same=session.id == earlier.id)
    earlier.dispatcher.call_changes.close()
    if session.id == earlier.id:
        session.continue_from(earlier)
    else:
        earlier.dispatcher.permission.close()
        ledger.release(earlier.id)
    return session


def _settle_session(session: str) -> None:
    """Record what a command of a killed nexus changed in a session that is resumed: later changes are the person's.
    Blocks."""
    data = places().data
    if any((data / "undo" / "looks").glob("*.json")):
        from nexus_cli.undo.follow_changes import settle_killed  # noqa: PLC0415  (after a process was killed)

        with suppress(OSError, ValueError):  # the next undo tries again
            settle_killed(data, session)


@contextmanager
def _read_and_lock(ledger: Ledger, info: SessionInfo | None, options: Options) -> Iterator[None]:
    """Read the rows that opening a session needs, and lock a resumed session; an error releases the lock."""
    if info is None:
        with ledger.beginning(ledger.project_of(options.cwd)):
            yield
        return
    was_locked = ledger.is_locked(info.id)
    try:
        lock_session(ledger, info)
        with ledger.opening(info):
            if ledger.writes and not was_locked:
                ledger.close_lost_requests(info)
            yield
    except BaseException:
        if not was_locked:
            ledger.unlock(info.id)
        raise


def _open(
    ledger: Ledger,
    resumed: SessionInfo | None,
    options: Options,
    settings: Settings,
    approver: Approver | None,
    provider: Provider | None,
    clock: Clock,
    notices: list[str],
    services: ServiceMakers,
) -> Session:
    """Open a new session, or the session `resumed`, which is locked."""
    control = Control()
    log = open_log(ledger, resumed, options, settings, control, notices, is_new=False) if resumed else None
    added = log.memos(ADDED_FOLDERS) if log else ()
    kept_folders = [str(folder) for folder in added[-1].value["folders"]] if added else []
    if kept_folders:
        options = _with_folders(options, kept_folders, notices)
    recipe, recipe_notices = recipe_of(resumed, options)
    notices.extend(recipe_notices)
    info = _load_first_info(_name_model(resumed, options, provider), settings, recipe, options, log, notices)
    if not info.tools and not options.no_tools:
        options = replace(options, no_tools=True)
        notices.append(f"{info.name} does not support tools: it can only answer with text")
    if notice := effort_notice(info.name, options.effort):
        notices.append(notice)
    if resumed and resumed.worktree not in ("", options.worktree):
        notices.append(_describe_other_place(resumed, options.cwd))
    session_info = resumed or ledger.create_session(
        folder=str(options.cwd),
        project=ledger.project_of(options.cwd),
        model=info.name,
        recipe=recipe.name,
        at=format_utc(clock()),
        front=SERVED if options.served else options.front,
        spawner=options.spawner,
        worktree=options.worktree,
        locks=True,
    )
    try:
        if resumed is None:
            lock_session(ledger, session_info)
        backend = provider or make_provider(settings, saves=options.save)
        log = log or open_log(ledger, session_info, options, settings, control, notices, is_new=True)
        factory = SessionFactory(
            ledger,
            ledger,
            options,
            settings,
            clock,
            notices,
            recipe,
            info,
            session_info,
            log,
            backend,
            services,
            control,
        )
        session = factory.session(approver)
        if options.add_dirs and kept_folders != (folders := list(map(str, options.add_dirs))):
            session.conversation.memo(ADDED_FOLDERS, {"folders": folders})
        _check_bounds(session, info, settings)
    except BaseException:
        if resumed is None:
            ledger.release(session_info.id)
        raise
    if resumed and ledger.writes:
        _record_resume(ledger, resumed, info.name, options, session)
    return session


def _name_model(resumed: SessionInfo | None, options: Options, provider: Provider | None) -> str:
    """Return the name of the session's model; raise `UsageError` for none or an unknown one."""
    name = options.model or (resumed.model if resumed else "")
    if not name:
        raise UsageError("no model", "neither an option nor the session specifies a model", "Use --model NAME")
    if provider is None or isinstance(provider, RetryingProvider):
        check_model(name)
    return name


def _describe_other_place(info: SessionInfo, cwd: os.PathLike[str]) -> str:
    """Return the notice about a session that continues outside its worktree, with the way to return."""
    resume = f"nexus -w {info.worktree} -r {info.id}"
    if os.path.isdir(info.folder):
        return f"this session worked in worktree {info.worktree}; it continues in {cwd} (to return: {resume})"
    why = f"this session worked in worktree {info.worktree}, which was removed; it continues in {cwd}"
    return f"{why} (to create worktree {info.worktree} again from the current project: {resume})"


def _record_resume(ledger: Ledger, info: SessionInfo, model: str, options: Options, session: Session) -> None:
    """Record how a session is resumed, and that it continues in another folder if its own is gone; add a notice about
    another folder than before."""
    notices, last_folder = session.notices, session.opening.last_folder
    front = options.front if info.front in (RUN, SERVED) and options.front != RUN else None
    if front or info.model != model or options.recipe not in ("", info.recipe):
        ledger.touch_session(info.id, model=model, recipe=options.recipe or None, front=front)
    if info.worktree == options.worktree and not os.path.isdir(info.folder):
        session.conversation.memo(WORK_FOLDER, {"folder": last_folder})  # until a turn tells the model
        facts = ledger.move_session(info.id, options.cwd)
        notices.append(f"this session worked in {info.folder}, which no longer exists; it continues in {options.cwd}")
        if facts:
            notices.append(f"kept {plural(facts, 'fact')} of {info.project}, the former folder of this project")
    elif info.worktree in ("", options.worktree) and last_folder != str(options.cwd):
        notices.append(f"this session worked in {last_folder}; it continues in {options.cwd}")


def open_log(
    ledger: Ledger,
    session: SessionInfo,
    options: Options,
    settings: Settings,
    control: Control,
    notices: list[str],
    *,
    is_new: bool,
) -> SessionLog:
    """Open the log of a session. A warning is shown at once during a turn, else it is one of the `notices`."""

    def warn(line: str) -> None:
        if control.running:
            control.emit_notice(line)
        else:
            notices.append(line)

    return SessionLog.for_session(
        ledger,
        session.id,
        session,
        require_save=options.require_save,
        warn=warn,
        wait=settings.ledger.wait,
        is_new=is_new,
    )


def _load_first_info(
    name: str,
    settings: Settings,
    recipe: Recipe,
    options: Options,
    log: SessionLog | None,
    notices: list[str],
) -> ModelInfo:
    """Return the info of the model as the session opens. A limit of dollars or a contract waits for its server."""
    limits, _ = compose_limits(limit_layers(settings, recipe, options))
    waits = limits.max_cost is not None or options.contract is not None
    return load_model_info(name, settings, log, waits=waits, saves=options.save, tell=notices.append)


def _with_folders(options: Options, kept_folders: list[str], notices: list[str]) -> Options:
    """Return `options` with the folders that a session kept; add a notice for each that is gone."""
    from nexus_cli.config.added_folders import merge_folders  # noqa: PLC0415  (few sessions have any)

    folders, lost = merge_folders(kept_folders, options.add_dirs, project_root(options.cwd))
    notices.extend(lost)
    notices.extend(settle_projects(folders))
    return replace(options, add_dirs=folders)


async def _before_summary(
    dispatcher: Dispatcher, extracts: bool, engine: Engine, cause: str, instructions: str
) -> None:
    from nexus_cli.session.acts.memory import extract_facts  # noqa: PLC0415  (before a compaction only)

    if dispatcher.hooks:
        await dispatcher.hooks.before_compaction(cause == "command", instructions)
    if extracts:
        await extract_facts(dispatcher, engine)


def _check_bounds(session: Session, info: ModelInfo, settings: Settings) -> None:
    """Raise `NexusError` if a required sandbox, the rules or the dollar limit could not be enforced."""
    permission, limits = session.dispatcher.permission, session.dispatcher.limits
    if limits.max_cost is not None and info.covered:
        session.notices.append(f"max_cost has no effect: requests to {info.name} are covered by the subscription")
    elif limits.max_cost is not None:
        session.engine.spending.require_prices(info)
    level = limits.allow or ASK
    if settings.sandbox.backend == "required":
        permission.require_sandbox()
    permission.check_rules(level)
    session.notices.extend(permission.take_problems(level))


@dataclass
class SessionFactory:
    """Builds a session, to run it or only to inspect it (`session/draft.py`)."""

    ledger: Ledger
    """The ledger of the session."""
    facts_ledger: Ledger
    """The ledger with the person's facts: the same one, or theirs if the session's is in memory."""
    options: Options
    settings: Settings
    clock: Clock
    notices: list[str]
    recipe: Recipe
    info: ModelInfo
    session_info: SessionInfo
    log: SessionLog
    provider: Provider
    services: ServiceMakers
    control: Control

    @property
    def resumed(self) -> bool:
        """True if the session was begun by an earlier opening."""
        return not self.log.lane_state.is_new

    def session(self, approver: Approver | None) -> Session:
        """Build the session. Records, sends and locks nothing."""
        services = offered_services(self.services, self.facts_ledger, self.options, lambda: session)
        session = Session(self.provider, opening=self._open(approver, services))
        return session

    def _open(self, approver: Approver | None, services: SessionServices) -> Opening:
        """Build the parts, each after those that it needs."""
        options, info = self.options, self.info
        effort = sent_effort(info.name, options.effort)
        limits, bounds = compose_limits(limit_layers(self.settings, self.recipe, options))
        log, root = self.log, self._root()
        model = Model(info, effort, options.cache_key or root.id, self.settings.provider.stall_seconds)
        context = self._context(model)
        facts = SessionFacts.of(self.facts_ledger, self.session_info.id, options.cwd, self.clock)
        registry = self._make_registry(services)
        dispatcher = self._make_dispatcher(registry, limits, bounds, approver, services)
        is_worker = bool(self.session_info.spawner)
        dispatcher.use_hooks(self.settings.hook, self.session_info.id, context, self.control, is_worker=is_worker)
        offer = self._make_offer(dispatcher, facts, context)
        run_facts = (lambda: services[RunFacts].facts()) if RunFacts in services else None
        sources = SessionSources(context, log.seen_files, [], options.front, run_facts, options.cwd, log.noted)
        collector = make_collector(
            options,
            self.settings,
            self.recipe,
            context,
            dispatcher,
            self.control,
            facts,
            sources,
            started=datetime.fromisoformat(root.created).astimezone(),
            tools=lambda: [str(schema["function"]["name"]) for schema in offer.schemas],
            jobs=lambda: jobs.names() if (jobs := services.get_existing(Jobs)) else {},
            away=lambda: engine.readings.away,
        )
        extracts = self.settings.compact.extract and facts.saves
        engine: Engine = Engine(
            context,
            self.provider,
            Spending(
                limits,
                (self.recipe,),
                options.reports,
                options.front == CHAT,
                options.served,
                is_scheduled=options.reports and not options.spawner,
            ),
            self.control,
            self.settings,
            PromptAssembly(collector, offer, rules_for(info.provider, info.name).dumps()),
            partial(_before_summary, dispatcher, extracts) if extracts or dispatcher.hooks else None,
            contract=options.contract,
            saves=options.save,
            step=log.lane_state.step,
        )
        engine.notices.waiting = sources.waiting
        if self.resumed:
            with suppress(NexusError):  # its record may be damaged
                engine.notices.load_unsent()
                engine.load_anchor(log)
        folder = str(context.conversation.newest_memo(WORK_FOLDER).get("folder", self.session_info.folder))
        return Opening(engine, dispatcher, self.ledger, log, options, folder, self.notices)

    def _make_registry(self, services: SessionServices) -> ToolRegistry:
        """Return the built-in tools, and those that services and plugins add; of two with one name the first stays."""
        if self.options.no_tools and not self.resumed:
            return ToolRegistry((), services)
        added = [*added_tools(self.services, services, self.options), *plugin_tools().values()]
        if not added:
            return ToolRegistry(None, services)
        tools = discover_tools()
        for tool in added:
            if tools.setdefault(tool.name, tool) is not tool:
                self.notices.append(f"the tool {tool.name} was not added: another tool has this name")
        return ToolRegistry(tools.values(), services)

    def _make_offer(self, dispatcher: Dispatcher, facts: SessionFacts, context: ContextManager) -> ToolOffer:
        """Make what decides on the tools of each epoch; tell the person if a small window lacks some."""

        def requested_tools() -> Collection[str]:
            with suppress(NexusError):
                memory = MEMORY_TOOLS if facts.search("", limit=1) else ()
                agents = (AGENT_TOOL,) if find_agents(self.options.cwd) else ()
                return {*dispatcher.permission.allowed_tools(), *(dispatcher.limits.tools or ()), *memory, *agents}
            return ()

        attended = self.options.interactive and not self.options.served
        offer = ToolOffer(dispatcher.registry, self.recipe, dispatcher.limits, attended, requested_tools, context.count)
        offer.is_denied = dispatcher.permission.is_tool_denied
        conversation = context.conversation
        offer.schemas = [*conversation.epoch.tools] if self.resumed else offer.select(self.info.window, conversation)
        if line := describe_left_out(self.info.window, offer.schemas):
            self.notices.append(line)
        return offer

    def _make_dispatcher(
        self,
        registry: ToolRegistry,
        limits: Limits,
        bounds: tuple[Bound, ...],
        approver: Approver | None,
        services: SessionServices,
    ) -> Dispatcher:
        options, project = self.options, project_root(self.options.cwd)
        # Nexus's data folder is protected as a whole, unless the project is a worktree in it.
        own_folders = (places().config,) if find_worktree(project) else (places().config, places().data)
        permission = CallPermission(options.cwd, project, own_folders, self.settings.sandbox, answers=options.answers)
        permission.added, permission.rules_ahead = options.add_dirs, options.rules
        permission.find_whole_name = partial(find_whole_name, options.cwd)
        dispatcher = Dispatcher(
            registry,
            limits,
            options.cwd,
            project,
            permission,
            approver,
            services,
            bounds,
            self.recipe,
            self.recipe.signals,
            call_changes=CallChanges(
                self.session_info.id if options.save and self.ledger.writes else "",
                self.log.count_turns,
                added=lambda: permission.added,
                max_mb=self.settings.undo.max_mb,
                max_file_mb=self.settings.undo.max_file_mb,
                requires=self.settings.undo.require,
                tell=lambda line: self.control.emit_from_background(Notice(line, warning=False)),
            ),
        )
        dispatcher.use_checks(self.settings.check)
        return dispatcher

    def _context(self, model: Model) -> ContextManager:
        """Make the owner of the conversation, new or as the log has it; without a choice of effort, with that of its
        epoch."""
        log, cut = self.log, self.settings.truncation
        config = ContextConfig(truncation_strategy=cut.strategy)
        counter = StoredCounter(TiktokenCounter(model.info.encoding), log)
        context = ContextManager(config, log, token_counter=counter, low_water=cut.low_water, markers=True)
        epoch = log.current_epoch() if self.resumed else None
        if epoch is None:
            context.conversation = Conversation(log, self.clock, context.measure)
        else:
            if not model.effort and self.options.effort != DEFAULT_EFFORT:
                model = replace(model, effort=epoch.effort)
            context.conversation = Conversation.load(
                log, self.clock, context.measure, epoch, log.lane_state.cursor, *log.read_window(epoch)
            )
        estimate = Estimate.of(log.calibration(model.info.served_name))
        context.use_model(model, estimate=estimate, calibrations=log)
        return context

    def _root(self) -> SessionInfo:
        """Return the oldest existing ancestor of the session: its forks share its cache key and start time."""
        session = self.session_info
        try:
            while session.parent:
                session = self.ledger.session(session.parent)
        except NexusError:
            return replace(session, id=session.parent or session.id)
        return session
