"""Run the workers of one session in parallel, each in a session of its own in the same ledger.

A worker's requests begin with the bytes of its parent's: system text and tools are those of the parent's epoch, what
the task forbids is refused at dispatch (`nexus docs recipes`). Its task and results are memos in the parent's
conversation, for a process that resumes the session.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.prompts import load_prompt
from nexus_cli.config.worktree_record import is_removed
from nexus_cli.conversation.compaction.work_log import CommandRun, WorkLog
from nexus_cli.core.approval import Allow
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import AgentEvent, ApprovalAnswer, Event, Notice, ToolResultEvent, WorkerState
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ASK, BUDGET, BUDGET_ENDED, Limits, describe_budget, require_level
from nexus_cli.core.memo_kinds import WORK, WORKER
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.running_workers import FAILED, FINISHED, REPORTS, STOPPED, UNKNOWN, WAITING, RunningWorkers
from nexus_cli.core.services import EditorTexts, ServerTools, WorkerTask
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.shielded_work import run_shielded
from nexus_cli.core.tool import Effect, Tool, find_governing
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.guides.agent_roles import WORKTREE
from nexus_cli.guides.guide_model import GuideModel
from nexus_cli.guides.skills import Skill
from nexus_cli.ledger import LaneLog
from nexus_cli.permission.run_limits import CHANGES
from nexus_cli.provider.available_models import resolve_for_worker
from nexus_cli.sections.find_recipe import find_agents, recipe_for
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session import Session
from nexus_cli.workers.lent_servers import LentServers
from nexus_cli.workers.review_worktree import refresh_reviews, review_worktree
from nexus_cli.workers.worker import Worker, WorkerApprover, list_lines

if TYPE_CHECKING:
    from nexus_cli.worktrees.worktrees import WorktreeStay


MAX_FILES = 20
"""Most files whose content is included; the others are only named."""


async def first_message(worker: Worker, session: Session, rights: Limits) -> str:
    """Return the first message of a worker's session.

    Files that may not be read unasked are named without their content. If `rights`, those of the parent session, allow
    no reading, no file is included.
    """
    lines = []
    if worker.worktree:
        lines.append(f"- Your working folder is {session.folder}, a copy of the project, not the one named above.")
        lines += [f"- In it: {notice}." for notice in worker.notices]
    recipe = session.dispatcher.recipe
    if tools := (worker.scope & recipe.limits).tools:
        lines.append(f"- For this task you may use: {', '.join(sorted(tools))}. Other calls are refused.")
    if budget := describe_budget(worker.scope):
        lines.append(f"- {budget}")
    if role := recipe.role or (recipe.instruction if recipe.name != "worker" else ""):
        lines.append(f"\n# Role\n{role}")
    text = load_prompt("worker", place="\n".join(lines), task=worker.task)
    tool = find_reader(session)
    reading = Limits(tools=frozenset({tool.name} if tool else ()), categories=frozenset({str(Effect.READ)}))
    may_read = reading <= Limits(tools=rights.tools, categories=rights.categories)
    files = list(dict.fromkeys(worker.files))
    file_texts = [await _quote_file(path, session, may_read) for path in files[:MAX_FILES]]
    file_texts += [f"{path}: not included (only the first {MAX_FILES} files are)" for path in files[MAX_FILES:]]
    return "\n\n".join([text, *(["# Files", *file_texts] if file_texts else [])])


def name_sender(text: str, source: str) -> str:
    """Return a later message to a worker; that of a model begins with a line that no text of its can pass for."""
    return text if source == "person" else f"[nexus: from the agent that started you, not from the person]\n{text}"


def find_reader(session: Session) -> Tool | None:
    """Return the tool by which the session reads a file, None if it has none."""
    return find_governing(session.dispatcher.registry.tools(), Effect.READ)


async def _quote_file(path: str, session: Session, may_read: bool) -> str:
    if not may_read:
        return f"{path}: not shown (this run is not allowed to read files)"
    result = await read_unasked(path, session)
    if result is None or result.error:
        return f"{path}: not shown ({result.error if result else 'reading it needs permission'})"
    if result.images:
        result = session.engine.control.take_images(path, result, session.engine.model.info)
    return f"<file path={json.dumps(path)}>\n{result.output}\n</file>"


async def read_unasked(path: str, session: Session) -> ToolResult | None:
    """Return a file as a call of the session's model would read it, with the hooks around it; None if reading it needs
    approval."""
    dispatcher = session.dispatcher
    tool = find_reader(session)
    if tool is None:
        return None
    call = ToolCall(f"file-{secrets.token_hex(6)}", tool.name, {tool.paths[0]: path})
    if refusal := dispatcher.begin_own_call(session.engine, call, tool):
        return ToolResult(error=refusal.why)
    checked = await dispatcher.check(call, tool)
    if isinstance(checked, ToolResult):
        return checked
    decision = await dispatcher.decide_now(checked)
    if decision.is_denied:
        return ToolResult(error=decision.why)
    if not decision.is_granted:
        return None
    context = dispatcher.make_context(decision)
    read = partial(tool.run, checked.arguments, context)
    return await (dispatcher.hooks.run_call(checked, context, read) if dispatcher.hooks else read())


MOST_DEPTH = 2
"""Depth of nested workers: a worker may have workers, and these have none."""
MAX_AT_ONCE = 8
AT_ONCE = 3
"""Workers that run at the same time unless a limit (`sub_agent_budget`) says otherwise."""
FRONT = "worker"
"""Front end of its session."""


class SessionWorkers(RunningWorkers[Session]):
    """The workers of one session, see `RunningWorkers`."""

    def __init__(
        self, session: Session, *, depth: int = 1, prefix: str = "w", places: asyncio.Semaphore | None = None
    ) -> None:
        """`depth` is the depth of the workers made here; `places` are shared by the whole tree."""
        self.session = session
        self._depth = depth
        self._prefix = prefix
        self._places = places or asyncio.Semaphore(self._budget())
        self._workers: dict[str, Worker] = {}
        self._reviewing = asyncio.Lock()
        self._shared: tuple[object, Spending, Limits] | None = None
        """The step whose workers share the rest of this spending, and the share of each."""
        self._reports: asyncio.Queue[Worker] = asyncio.Queue()
        """Background workers that have ended and whose report was not delivered."""
        self._restore()

    def work_for(self, session: Session) -> None:
        self.session = session

    def all(self) -> list[Worker]:
        """Return all workers of the session, oldest first, including those of earlier processes."""
        return list(self._workers.values())

    def running(self) -> list[str]:
        return [worker.id for worker in self.all() if not worker.has_ended]

    def have_jobs(self) -> bool:
        return any(worker.session.has_jobs() for worker in self.all() if worker.session)

    def rows(self) -> list[JsonObject]:
        return [worker.to_json() for worker in self.all()]

    async def start(self, call_id: str, task: WorkerTask, stopped: TakeText) -> ToolResult:
        try:
            worker = self._prepare(call_id, task)
        except NexusError as error:
            return ToolResult(error=f"no worker was started: {error.sentences}".removesuffix("."), ran=False)
        self._launch(worker, None, self._spending)
        if worker.in_background:
            return ToolResult(f"{worker.id} works in the background; `agents` reads its report, steers or stops it.")
        return await self._wait(worker, stopped)

    def _prepare(self, call_id: str, task: WorkerTask) -> Worker:
        """Return a worker with its budget reserved; raise `NexusError` if none can be started."""
        limits = self.session.rights()
        requested = task.limits
        if not task.task.strip():
            raise UsageError("no worker was started", "`task` is empty")
        if not task.wait and limits.mode not in (None, "plan_execute"):
            raise NexusError("limit", "background workers are not allowed", f"this run has the mode {limits.mode}")
        if self._depth > MOST_DEPTH:
            raise NexusError("limit", "workers are nested too deep", f"the maximum is {MOST_DEPTH} levels")
        self._refuse_without_place()
        recipe = recipe_for(task.recipe or FRONT, self.session.folder, with_agents=True)[0]
        agents = find_agents(self.session.folder).values() if task.recipe else ()
        agent = next((guide for guide in agents if guide.path == recipe.source), None)
        level = None if requested.allow is None else require_level(requested.allow, "limits.allow")
        scope = Limits(allow=level, tools=None if requested.tools is None else frozenset(requested.tools))
        parts: JsonObject = {name: getattr(requested, name) for name in BUDGET}
        if wrong := [name for name, value in parts.items() if value is not None and value <= 0]:
            raise UsageError("invalid limits of the worker", f"{', '.join(wrong)} must be above 0")
        model = resolve_for_worker(task.model, self.session.model, self.session.engine.settings)
        if agent is not None and not task.model:
            model = self._read_model(agent)
        name = f"{self._prefix}{len(self._workers) + 1}"
        worker = Worker(name, call_id, task.task, recipe.name, task.files, model)
        worker.scope = scope & self._reserve(worker, Limits(**parts), self._spending)
        if task.worktree or (agent is not None and agent.fields.get("isolation") == WORKTREE):
            worker.worktree = f"{self.session.id[-6:].lower()}-{worker.id.replace('.', '-')}"
        self._workers[worker.id] = worker
        worker.in_background = worker.is_report_unread = not task.wait
        self._record(worker)
        return worker

    def _read_model(self, agent: Skill) -> str:
        """Return the model that an agent asks for, "" for the session's; name what cannot be applied."""
        model = GuideModel.read(agent, self.session.model, self.session.engine.settings)
        for problem in model.problems:
            notice = Notice(f"agent {agent.name} requests {problem}; using the session's model", warning=False)
            self._control.emit_from_background(notice)
        return model.model

    def _refuse_without_place(self) -> None:
        """Raise `NexusError` if a nested worker would have to wait: its spawner occupies a place, so that the
        wait could last for ever."""
        running = len(self.running())
        if self._depth > 1 and (self._places.locked() or running >= self._budget()):
            raise NexusError(
                "limit",
                "the limit of workers is reached",
                f"running workers: {running}",
                "Do the work yourself, or try later",
            )

    def _reserve(self, worker: Worker, requested: Limits, spending: Spending) -> Limits:
        """Reserve the budget of a worker: workers that one message asks for get equal parts."""
        dispatcher = self._dispatcher
        if self._shared is None or self._shared[0] is not dispatcher.step or self._shared[1] is not spending:
            tools = [dispatcher.registry.get(call.name) for call in dispatcher.step.calls]
            delegations = sum(tool is not None and tool.delegates for tool in tools)
            parts = (delegations or len(tools) or 1) if spending is self._spending else 1
            self._shared = (dispatcher.step, spending, spending.share(parts))
        return spending.reserve(worker.id, requested, self._shared[2])

    async def _enter_worktree(self, worker: Worker, stays: list[WorktreeStay]) -> None:
        """Let a worker work in its worktree, made from the session's project in its current state. Nobody can remove it
        until `stays` ends."""
        from nexus_cli.workers.prepare_worktree import enter_prepared  # noqa: PLC0415

        dispatcher = self._dispatcher
        stay = await asyncio.to_thread(enter_prepared, dispatcher.project_root, worker.worktree)
        stays.append(stay)
        worker.enter(stay)
        inside = stay.record.folder / dispatcher.cwd.relative_to(dispatcher.project_root)
        worker.folder = inside if inside.is_dir() else stay.record.folder

    @property
    def _dispatcher(self) -> Dispatcher:
        return self.session.dispatcher

    @property
    def _control(self) -> Control:
        return self.session.engine.control

    @property
    def _spending(self) -> Spending:
        return self.session.engine.spending

    def _budget(self) -> int:
        return min(self._dispatcher.limits.sub_agent_budget or AT_ONCE, MAX_AT_ONCE)

    # One run of a worker

    def _launch(self, worker: Worker, words: str | None, spending: Spending) -> None:
        """Let a worker do its task or, with `words`, continue."""
        worker.state = WAITING
        if worker.in_background:  # its call has its result at once
            self._show_state(worker)
        worker.running = asyncio.create_task(self._run(worker, words, spending))

    async def _run(self, worker: Worker, words: str | None, spending: Spending) -> None:
        usage = worker.usage
        steps = worker.steps + worker.nested_steps
        try:
            if self._places.locked():
                self._show_state(worker)
            async with self._places:
                worker.begin()
                await self._work(worker, words)
        except NexusError as error:
            worker.fail(error.message)
        except asyncio.CancelledError:
            if not worker.has_ended:
                worker.state = STOPPED
                worker.error = "the worker was stopped before it started"
                worker.session_id = worker.session_id if words else ""
        except Exception as bug:  # its parent continues
            worker.fail(report_bug(bug).message)
        finally:
            model = worker.model or self.session.model
            spending.settle(worker.id, worker.steps + worker.nested_steps - steps, worker.usage - usage, model)
            if not worker.worktree:
                self._dispatcher.changed.update(dict.fromkeys(worker.changed))
            self._record(worker)
            if worker.in_background:
                self._notify_parent(worker)
            self._show_state(worker)

    async def _work(self, worker: Worker, words: str | None) -> None:
        if not worker.worktree:
            await self._work_in_session(worker, words)
            return
        stays: list[WorktreeStay] = []
        try:
            await run_shielded(self._enter_worktree(worker, stays))
            await self._work_in_session(worker, words)
        finally:
            for stay in stays:
                stay.review = f"See its `diff` with `agents`, `apply` it, or `steer` {worker.id}"
                line = await run_shielded(asyncio.to_thread(stay.leave))
                worker.to_review = bool(line) or stay.record.home.is_dir()
                outcome = "is in use by another session" if worker.to_review else "had no new changes and was removed"
                worker.left = line or f"worktree {worker.worktree} {outcome}"

    async def _work_in_session(self, worker: Worker, words: str | None) -> None:
        session = worker.session = self._open(worker)
        if self._control.is_ending:
            session.end_after_step()
        try:
            worker.session_id = session.id
            self._record(worker)
            self._show_state(worker)
            text = await first_message(worker, session, self.session.rights()) if words is None else words
            if words is not None:
                session.engine.notices.tell(*(*worker.notices, describe_budget(worker.scope)))
            shown, parts = worker.task if words is None else "", session.engine.control.pop_images()
            trigger = Trigger(text, source=worker.source, parts=parts, display_text=shown)
            worker.in_turn = True
            async with aclosing(session.run(trigger)) as events:
                async for worker_event in events:
                    worker.note(worker_event)
                    self._note_work(worker, worker_event, session)
                    self._forward(worker, worker_event)
                    if (
                        isinstance(worker_event, ApprovalAnswer)
                        and isinstance(worker_event.answer, Allow)
                        and worker_event.answer.always
                    ):
                        self._withdraw_questions()
        finally:
            worker.session = None
            worker.in_turn = False
            if worker.state == FINISHED and session.engine.spending.ending and worker.scope.max_steps != 1:
                worker.error = BUDGET_ENDED
            worker.nested_steps += session.engine.spending.worker_steps
            await session.aclose()

    def _open(self, worker: Worker) -> Session:
        """Open the session of a worker with the parent's rights and model, and the beginning of its requests."""
        base, parent, dispatcher = self.session.options, self.session.engine, self.session.dispatcher
        limits = self.session.rights() & worker.scope & Limits(sub_agents=False if self._depth >= MOST_DEPTH else None)
        limits = replace(limits, **{name: getattr(worker.scope, name) for name in BUDGET})
        options = Options(
            worker.folder or base.cwd,
            worker.model or parent.model.info.name,
            recipe=worker.recipe,
            front=FRONT,
            resume=worker.session_id,
            allow=limits.allow or ASK,
            allow_from="parent",
            save=base.save,
            require_save=base.require_save,
            limits=replace(limits, allow=None),
            spawner=self.session.id,
            reports=True,
            worktree=worker.worktree,
        )
        own_workers = partial(SessionWorkers, depth=self._depth + 1, prefix=f"{worker.id}.", places=self._places)
        texts = self.session.services.find(EditorTexts)
        editor = [ServiceMaker(EditorTexts, lambda _: texts)] if texts else []
        session = open_session(
            options,
            parent.settings,
            approver=WorkerApprover(dispatcher.approver, worker) if dispatcher.approver else None,
            provider=parent.provider,
            clock=parent.conversation.clock,
            ledger=self.session.ledger,
            services=(ServiceMaker(RunningWorkers, own_workers), *editor, *self._lend_servers()),
        )
        session.dispatcher.call_changes.report_to(dispatcher.call_changes, worker.id)
        engine = session.engine
        engine.context.model = engine.context.model if worker.model else parent.model
        now = (engine.model.info.name, engine.model.effort)
        epochs = [engine.conversation.epoch] if worker.session_id else []
        epochs.append(parent.conversation.epoch)
        # None has them for a worker steered after a model switch, before the next request of its parent.
        engine.prompt.inherited = next((epoch for epoch in epochs if (epoch.model, epoch.effort) == now), None)
        # A rule that was allowed for a copy of the project does not hold in the project.
        session.dispatcher.always = set(dispatcher.always) if worker.worktree else dispatcher.always
        session.dispatcher.permission.share_probe(dispatcher.permission)
        session.dispatcher.permission.variables = dispatcher.permission.variables
        if session.dispatcher.hooks and dispatcher.hooks:
            session.dispatcher.hooks.work_for(
                dispatcher.hooks, worker.id, "" if worker.recipe == FRONT else worker.recipe
            )
        return session

    def _lend_servers(self) -> list[ServiceMaker[ServerTools]]:
        """Return the makers of the service by which a worker calls the tools of the session's MCP servers."""
        if (servers := self._dispatcher.services.get_existing(ServerTools)) is None:
            return []
        lender = self._dispatcher.registry
        return [ServiceMaker(ServerTools, lambda worker: LentServers(servers, lender, worker.dispatcher.registry))]

    def _forward(self, worker: Worker, worker_event: Event) -> None:
        marked = (
            worker_event
            if isinstance(worker_event, AgentEvent)
            else AgentEvent(worker.id, worker.session_id, worker_event)
        )
        self._control.emit_from_background(marked)

    def _show_state(self, worker: Worker) -> None:
        """Emit the present state of a worker."""
        self._forward(worker, WorkerState(worker.to_json()))

    def _note_work(self, worker: Worker, worker_event: Event, session: Session, worktree: str = "") -> None:
        """Add a call of a worker, or of a nested worker, to the record of this session's work."""
        worktree = worker.worktree or worktree
        if isinstance(worker_event, AgentEvent):
            nested = session.workers
            nested_worker = nested.find(worker_event.agent) if isinstance(nested, SessionWorkers) else None
            if nested_worker is not None:
                self._note_work(nested_worker, worker_event.event, nested_worker.session or session, worktree)
        elif isinstance(worker_event, ToolResultEvent):
            dispatcher, result = session.dispatcher, worker_event.result
            tool = dispatcher.registry.get(worker_event.call.name)
            if tool is None or tool.effect not in CHANGES:
                return
            command = (
                str(worker_event.call.arguments.get(tool.subject, "")).strip() if tool.effect is Effect.RUN else ""
            )
            run = CommandRun.read(command, result.text) if command else None
            if run is not None or result.changed:
                note = WorkLog.note(dispatcher.project_root, result.changed, worker.id, run, worktree)
                with suppress(NexusError):  # the session was deleted meanwhile
                    self.session.conversation.memo(WORK, note)

    def _withdraw_questions(self) -> None:
        """Decide all open questions again, here and for other workers: one answer holds for all."""
        for session in (self.session, *(worker.session for worker in self.all())):
            if session is not None:
                session.dispatcher.withdraw_questions()

    def _notify_parent(self, worker: Worker) -> None:
        """Notify the model that a background worker has ended."""
        self._reports.put_nowait(worker)
        if worker.is_report_unread and self.session.has_more_turns:
            self.session.engine.notices.keep(worker.id, worker.ended_line())

    async def _wait(self, worker: Worker, stopped: TakeText) -> ToolResult:
        assert worker.running is not None
        released = worker.released = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([worker.running, released], return_when=asyncio.FIRST_COMPLETED)
            if released.done() and not worker.running.done():
                return ToolResult(
                    f"The person moved {worker.id} to the background. Continue; its report will arrive automatically."
                )
        except asyncio.CancelledError:
            await run_shielded(self._stop(worker))
            stopped(worker.describe(worker.report))
            raise
        step = self._dispatcher.step
        step.declined = worker.declined or step.declined
        return worker.result()

    def release(self) -> list[str]:
        waiting = [
            worker
            for worker in self.all()
            if worker.released is not None and not worker.has_ended and not worker.in_background
        ]
        for worker in waiting:
            assert worker.released is not None
            worker.in_background = worker.is_report_unread = True
            worker.released.set_result(None)
            self._record(worker)
            self._show_state(worker)
        return [worker.id for worker in waiting]

    async def _stop(self, worker: Worker) -> None:
        if worker.running is None or worker.running.done():
            return
        if worker.session is not None and worker.in_turn:  # its last event has its usage
            worker.session.cancel(self._control.stopped or "parent")
        elif not worker.has_ended:
            worker.running.cancel()
        await asyncio.wait([worker.running])

    # The tool `agents`

    async def manage(self, action: str, agent: str, text: str, path: str = "") -> ToolResult:
        if action in ("list", "read"):
            await refresh_reviews(self.all(), self._dispatcher.project_root)
        if action == "list":
            return ToolResult(list_lines(self.all()))
        worker = self.find(agent)
        if worker is None:
            names = ", ".join(self._workers) or "none"
            return ToolResult(error=f"there is no worker {agent[:40]!r}. Workers: {names}", ran=False)
        if action == "stop":
            await self._stop(worker)
        if worker.has_ended and (action != "steer" or not self._explain_no_resume(worker)):
            self._record_report_read(worker)
            worker.in_background = False
        if action == "steer":
            return await self.steer(worker.id, text)
        if action in ("diff", "apply"):
            async with self._reviewing:  # calls of one message come here in their order
                result = await review_worktree(worker, self._dispatcher, action, path)
            if result.changed:
                note = WorkLog.note(self._dispatcher.project_root, result.changed, worker.id)
                with suppress(NexusError):  # the files are written
                    self.session.conversation.memo(WORK, note)
            return result
        why = "" if worker.state == FINISHED else worker.error  # that of a finished worker is among its figures
        body = "\n".join(filter(None, (worker.report or worker.doing, why))) if action == "read" else ""
        return ToolResult(worker.describe(body))

    def _record_report_read(self, worker: Worker) -> None:
        """Record that the model has received the report of a worker."""
        if worker.is_report_unread:
            worker.is_report_unread = False
            self._record(worker)
            self.session.engine.notices.keep(worker.id)

    def find(self, name: str) -> Worker | None:
        """Return a worker by its id or its session's id; without a name, the only one."""
        if not name and len(self._workers) == 1:
            return self.all()[0]
        sessions = {worker.session_id: worker for worker in self.all() if worker.session_id}
        return self._workers.get(name) or sessions.get(name)

    async def steer(self, name: str, text: str, *, wait: bool = True, source: str = "agent") -> ToolResult:
        worker = self._workers[name]
        if not text.strip():
            return ToolResult(error="`text` is empty", ran=False)
        if worker.running is not None and worker.has_ended:
            await asyncio.wait([worker.running])  # it closes its session
        if worker.session is not None and worker.session.engine.spending.ending:
            why = f"{worker.id} is writing its report, because its budget is used up. Steer it after that."
            return ToolResult(error=why, ran=False)
        if worker.session is not None and worker.session.busy:
            worker.session.steer(name_sender(text, source), source=source)
            return ToolResult(f"{worker.id} gets this with its next step.")
        if why := self._explain_no_resume(worker):
            return ToolResult(error=f"{worker.id} {why}", ran=False)
        spending = self._spending
        if not self.session.busy:  # the person's words: no turn pays for them
            spending = Spending(self._dispatcher.limits, spending.recipes, is_chat=spending.is_chat)
        try:
            self._refuse_without_place()
            part = self._reserve(worker, Limits(), spending)
        except NexusError as error:
            return ToolResult(error=error.message, ran=False)
        worker.scope = replace(worker.scope, **dict.fromkeys(BUDGET)) & part
        worker.in_background = worker.is_report_unread = not wait
        self.session.engine.notices.keep(worker.id)  # its next end may have the same line
        worker.released = None
        worker.source = source
        self._launch(worker, name_sender(text, source), spending)
        if worker.in_background:
            return ToolResult(f"{worker.id} continues in the background.")
        return await self._wait(worker, lambda text: None)

    def _explain_no_resume(self, worker: Worker) -> str:
        """Return the reason that a worker cannot be resumed, "" if it can."""
        if not worker.has_ended:
            return "has not started yet"
        if worker.spawner:
            return f"belongs to session {worker.spawner}, of which this session is a copy. Start another worker."
        if self.session.rights().sub_agents is False:
            return "cannot continue: this run is not allowed to start workers"
        if not worker.session_id:
            return "never started. Start another worker."
        try:
            over = worker.state == FINISHED and self._accepts_no_message(worker)
        except NexusError as error:  # its recipe is gone or not trusted any more
            return f"cannot continue: {error.sentences}".removesuffix(".")
        return "has reported and ended. Start another worker." if over else ""

    def _accepts_no_message(self, worker: Worker) -> bool:
        """True if a worker has reported and accepts no further message."""
        recipe = recipe_for(worker.recipe, self.session.folder, with_agents=True)[0]
        return bool((recipe.limits & self._dispatcher.limits).terminal_ends)

    def close_review(self, name: str, outcome: str) -> None:
        if worker := self.find(name):
            worker.close_review(outcome)
            self._record(worker)

    # Across processes

    def recover(self, call_id: str) -> ToolResult | None:
        worker = next((candidate for candidate in self.all() if candidate.call == call_id), None)
        if worker is None:  # it is recorded before it is started
            return ToolResult(error="nexus exited before it started a worker", ran=False)
        self._record_report_read(worker)
        return worker.result()

    def _record(self, worker: Worker) -> None:
        try:
            spawner = worker.spawner or self.session.id
            self.session.conversation.memo(WORKER, worker.to_record(spawner))
        except NexusError as error:  # the session was deleted meanwhile
            self._control.emit_from_background(Notice(error.message))

    def _restore(self) -> None:
        """Load the workers of earlier processes. Mark those as finished that ended without a record of it."""
        for memo in self.session.conversation.memos(WORKER):
            worker = Worker.from_json(memo.value)
            spawner = str(memo.value["spawner"])
            worker.spawner = spawner if spawner != self.session.id else ""
            self._workers[worker.id] = worker
        for worker in self.all():
            if worker.state == UNKNOWN:
                self._restore_progress(worker)
            if worker.to_review and worker.folder and is_removed(worker.folder):
                worker.close_review("applied or discarded")
            if worker.is_report_unread:  # the report of a copied session's worker goes to that session alone
                self.session.engine.notices.keep(worker.id, "" if worker.spawner else worker.ended_line())

    def _restore_progress(self, worker: Worker) -> None:
        """Restore the progress of a worker whose process was killed."""
        worker.error = (
            f"nexus exited while {worker.id} worked. Its session {worker.session_id} has what it did; "
            '`agents` with "steer" resumes it'
        )
        ledger = self.session.ledger
        if worker.spawner:
            worker.error = f"{worker.id} {self._explain_no_resume(worker)}"
            return
        try:
            log = ledger.log(worker.session_id) if worker.session_id else None
            if log is None or not log.last_id():  # killed before its task was sent
                worker.state = STOPPED
                worker.session_id = ""
                worker.error = "nexus exited before this worker started"
                return
            worker.report, is_done = _last_words(log)
            worker.steps = log.step()
            worker.usage = ledger.usage(worker.session_id)
            if worker.worktree:
                worker.to_review = True
                worker.left = f"worktree {worker.worktree} is kept: see its `diff` with `agents`"
        except NexusError:
            worker.error = f"the session of {worker.id} cannot be read"
            return
        if is_done:
            worker.state = FINISHED
            worker.error = ""

    # The session

    def set_level(self, level: str) -> None:
        for worker in self.all():
            if worker.session is not None:
                bound = Limits(allow=level) & self.session.rights() & worker.scope
                worker.session.set_level(bound.allow or ASK)

    def end_after_step(self) -> list[asyncio.Task[None]]:
        tasks = []
        for worker in self.all():
            if worker.session is not None:
                tasks += worker.session.end_after_step()
            if worker.running is not None and not worker.running.done():
                tasks.append(worker.running)
        return tasks

    async def next_report(self) -> str:
        while not self._reports.empty() or any(worker.in_background and not worker.has_ended for worker in self.all()):
            worker = await self._reports.get()
            if worker.is_report_unread:  # else `agents` has reported it
                return self._take_report(worker)
        return ""

    def take_reports(self) -> str:
        waited = (
            worker
            for worker in self.all()
            if worker.is_report_unread and worker.released is not None and worker.released.done()
        )
        return "\n\n".join(self._take_report(worker) for worker in waited if worker.state in (FINISHED, FAILED))

    def _take_report(self, worker: Worker) -> str:
        self._record_report_read(worker)
        return f"{REPORTS}{worker.id} has ended]\n{worker.result().text}"

    async def aclose(self) -> None:
        await asyncio.gather(
            *(self._stop(worker) for worker in self.all())
        )  # at once: when one ends, the next one begins


def _last_words(log: LaneLog) -> tuple[str, bool]:
    """Return the last reply of a session's model, and True if it ended a turn."""
    last = log.last_id()
    newest = log.read(last, last) if last else []
    if not newest or newest[0].kind is not Kind.ASSISTANT:
        return "", False
    message = newest[0].message
    return message.content, not (message.tool_calls or log.ends_unfinished())
