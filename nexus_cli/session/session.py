"""`Session`: one conversation. Takes triggers and emits events; the turn loop does the work.

Every front end is `async for event in session.run(trigger)`. The work runs in its own task, so that `cancel` and a time
limit can stop it at any moment; completed work is kept. Turns and acts are queued and run one at a time; a queued one
changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, cast

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core import event
from nexus_cli.core.attachment import AttachedFile, Trigger
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import SWITCH, Cause, Drop, Kind
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import Event, Outcome
from nexus_cli.core.event_json import event_value, result_of
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.limits import CYCLE, PLAN, Limits, next_levels
from nexus_cli.core.memo_kinds import EVENT, LEVEL_SET
from nexus_cli.core.request import Provider, close_if_closable
from nexus_cli.core.running_workers import RunningWorkers
from nexus_cli.core.services import Jobs, Log, ServerTools, Workers
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.shielded_work import run_shielded, run_to_end
from nexus_cli.core.tool import Tool
from nexus_cli.engine.requests.clip_output import clip_to_cap, omit_repeats
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.turn import turn
from nexus_cli.ledger import SessionLog
from nexus_cli.permission.approvals import ApprovalDeferred
from nexus_cli.session.base_session import BaseSession, Opening
from nexus_cli.session.continuation import Continuation, next_message
from nexus_cli.session.limits_record import NEWEST, describe_ended_answers, describe_former_level, set_level
from nexus_cli.session.start_conversation import (
    expand_trigger,
    find_continuations,
    record_trigger,
    start_conversation,
)
from nexus_cli.text.cells import one_line
from nexus_cli.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from nexus_cli.core.event_json import AskResult, ContextFigures
    from nexus_cli.session.attached_texts import AttachedTexts
    from nexus_cli.session.session_jobs import SessionJobs
    from nexus_cli.session.status import Status

MAX_OUTCOMES = 16
"""Most outcomes kept until their results are read."""
BRIEF = 500
"""Most characters of a shell line in the name of its output."""
_UNREACHABLE_SECONDS = 0.5
"""Most seconds in which a ledger is closed whose server does not answer."""


class Session(BaseSession):
    """One conversation with its model, tools and log."""

    def __init__(
        self,
        provider: Provider,
        context: ContextManager | None = None,
        logger: Log | None = None,
        registry: ToolRegistry | None = None,
        *,
        opening: Opening | None = None,
    ) -> None:
        """Make a session of provider, context, logger and registry, or that of the factory with its `opening`."""
        super().__init__(provider, context, logger, registry, opening=opening)
        self._control = self.engine.control
        self._before_plan = CYCLE[0]
        """The level before plan mode."""
        self._work_tasks: list[asyncio.Task[None]] = []
        """Running and queued turns and acts, in order."""
        self._ends: deque[tuple[Outcome, Sequence[Drop]]] = deque(maxlen=MAX_OUTCOMES)
        """Outcomes of the newest turns, with the drops of each."""

    @property
    def busy(self) -> bool:
        """True if a turn or an act runs, so that `cancel` has something to stop."""
        return self._control.running

    @property
    def provider(self) -> Provider:
        return self.engine.provider

    def refuse_to_leave(self) -> None:
        """Raise `NexusError("ledger", ...)` if leaving the session would lose it."""
        if self.has_no_ledger:
            return
        self.ledger.save(self.id)
        if self.ledger.is_kept and not self.saved:
            why = "part of the session is not saved and exists only in this process"
            raise NexusError(
                "ledger", f"cannot leave session {self.id}", why, "Save a copy with /export, then use /exit"
            )

    def refuse_while_busy(self) -> None:
        """Raise `UsageError` if workers or jobs run, which another session would end."""
        if self.workers is not None and (busy := self.workers.running()):
            why = f"leaving would stop {', '.join(busy)}"
            raise UsageError("cannot leave the session", why, "Wait, or stop each worker with /agents stop ID")
        if self.jobs is not None and (jobs := self.jobs.running()):
            why = f"leaving would stop {', '.join(jobs)}"
            raise UsageError("cannot leave the session", why, f"To stop a job: /jobs stop {jobs[0]}")

    def is_copied_to(self, other_id: str) -> bool:
        """Return True if the session with the id `other_id`, "" for none yet, was forked from this one."""
        return bool(other_id) and self.ledger.session(other_id).parent == self.id

    async def end_hooks(self, next_id: str) -> None:
        """Run the hooks for the end of this session before `next_id`, "" for a new one, is opened in its place."""
        if (hooks := self.dispatcher.hooks) and next_id != self.id:
            await hooks.end("resume" if next_id and not self.is_copied_to(next_id) else "clear")

    def inherit_from(self, previous: Session) -> None:
        """Copy what waits for the next message, and the sandbox probe, from the previous session."""
        self.queue_missed_runs(previous.engine.readings.away)
        self.dispatcher.permission.share_probe(previous.dispatcher.permission)
        self._control.attachment_memos |= previous._control.attachment_memos

    def continue_from(self, previous: Session) -> None:
        """Take over allowances, pending notices and messages, and workers of `previous`, the same session until now."""
        self.dispatcher.always |= previous.dispatcher.always
        self.dispatcher.permission.continue_from(previous.dispatcher.permission)
        mine, theirs = self.engine.readings, previous.engine.readings
        mine.epoch_cause = mine.epoch_cause or theirs.epoch_cause
        waiting, earlier = self.engine.notices.waiting, previous.engine.notices.waiting
        # A line that only this one has loaded waited for a turn of the other that ended before its request.
        waiting[:] = [*(line for line in waiting if line not in earlier), *earlier]
        previous.engine.notices.waiting = waiting  # its checks may still run
        for kind in (Workers, Jobs):
            self.services.continue_from(kind, previous.services)
        if self.workers is not None:
            self.workers.work_for(self)
        if self.jobs is not None:
            self.jobs.work_for(self)
        self._control.steering.extend(previous._control.steering)
        previous._control.steering.clear()

    def queue_missed_runs(self, notices: Sequence[Mapping[str, str]]) -> None:
        """Send with the next message what the person was shown about unattended runs, see `Sources.away`."""
        self.engine.readings.away.extend(notices)

    def set_level(self, level: str) -> None:
        """Set the permission level, as far as recipe and settings allow; decides open questions again. Raises
        `NexusError("config", ...)` for `all` if a deny rule cannot be parsed."""
        self.dispatcher.permission.refuse_unguarded(level)
        now = self.dispatcher.level
        if now != PLAN:
            self._before_plan = now
        set_level(self, level)
        self.dispatcher.withdraw_questions()
        if self.workers is not None:
            self.workers.set_level(level)
        if self.conversation.last:  # a session without messages is not kept
            self.conversation.memo(LEVEL_SET, {"limits": to_json_value(self.dispatcher.bounds)})

    def leave_plan(self) -> str:
        """Return from plan mode, if it is on, to the level before it; return the level in force."""
        if self.dispatcher.level == PLAN:
            self.set_level(self._before_plan)
        return self.dispatcher.level

    def cycle_level(self) -> None:
        """Switch to the next level."""
        self.set_level(next_levels(self.dispatcher.level)[0])

    @property
    def workers(self) -> RunningWorkers[Session] | None:
        """The workers of this session, None if it never had one."""
        return self.services.get_existing(RunningWorkers)

    @property
    def jobs(self) -> SessionJobs | None:
        """The background jobs of this session, None if it never had one."""
        return cast("SessionJobs | None", self.services.get_existing(Jobs))

    def has_jobs(self) -> bool:
        """Return True if a background job of this session or of a worker runs."""
        return bool((self.jobs and self.jobs.running()) or (self.workers and self.workers.have_jobs()))

    @property
    def attached_texts(self) -> AttachedTexts:
        """The texts that wait for the next message."""
        from nexus_cli.session.attached_texts import AttachedTexts  # noqa: PLC0415  (typed in a terminal)

        return AttachedTexts(self)

    @property
    def undelivered(self) -> tuple[str, ...]:
        """Messages for the running turn that were not delivered yet."""
        return tuple(words.text for words in self._control.steering)

    def describe_resumed(self) -> list[str]:
        """Return the lines about the limits of the session for the person who resumes it."""
        return [*filter(None, (describe_former_level(self), describe_ended_answers(self)))]

    def status(self) -> Status:
        """Return the figures of the status line."""
        from nexus_cli.session.status import status  # noqa: PLC0415  (a status line is shown)

        with SessionLog.for_screen():
            return status(self)

    def prepare_next_request(self, notify: TakeText = lambda line: None) -> RequestPlan:
        """Return the next request, not sent, drafting its epoch and loading the cache history if needed. Blocks.

        `notify` receives lines about what could not be read for that epoch.
        """
        engine = self.engine
        self.load_cache_history()
        if not self.has_no_ledger and engine.conversation.is_recorded and engine.begins_epoch:
            draft = engine.drafting(notify)
            planned = run_to_end(draft.prompt.draft_epoch(draft.context))
            epoch = draft.conversation.make_epoch(draft.conversation.arranged, SWITCH, planned.epoch)
            engine.readings.drafted = replace(planned, epoch=epoch)  # without its price, which nobody asks for
        return engine.next_request()

    async def warn_of_cold_request(self) -> str:
        """Return the warning, once, about a next request that misses the cache at some cost; "" for none."""
        if self.conversation.sent.last is None:  # nothing was sent before
            return ""
        from nexus_cli.session.cold_request import warn_of_cold_request  # noqa: PLC0415  (not for the first)

        return await warn_of_cold_request(self)

    def tools(self) -> list[Tool]:
        """Return the tools of the model."""
        return self.dispatcher.registry.tools()

    def is_open(self) -> bool:
        """Return True if the window ends with open work: calls without results, or a message without an answer."""
        conversation = self.conversation
        return bool(conversation.items) and not conversation.next_step().is_done

    def showing_end(self) -> AbstractContextManager[None]:
        """Read what a front end asks to show the end of the session, of a server in one round trip."""
        return self.ledger.showing(self.record, NEWEST)

    def take_notices(self) -> list[str]:
        """Return the notices from outside turns since the last call."""
        notices = list(self.notices)
        self.notices.clear()
        return notices

    @property
    def context(self) -> ContextManager:
        return self.engine.context

    async def run(
        self, trigger: Trigger | str, on_begin: Callable[[], object] = lambda: None
    ) -> AsyncGenerator[Event, None]:
        """Run one turn after those in the queue, and yield its events, the last of which is `TurnEnd`.

        Without text the turn resumes from the end of the window. `on_begin` is called when its turn has come, before
        anything of it is recorded; it may raise `CancelledError`.
        """
        trigger = Trigger(trigger) if isinstance(trigger, str) else trigger

        def work() -> Coroutine[Any, Any, None]:
            on_begin()
            return self._work(trigger)

        ended = False
        async with aclosing(self._stream(work)) as events:
            async for event_ in events:
                ended = ended or isinstance(event_, event.TurnEnd)
                yield event_
        if not ended:  # stopped before its first step, or in the queue
            stopped = Outcome().with_error(self._stopped())
            self._ends.append((stopped, ()))
            yield event.TurnEnd(stopped)

    async def _stream(self, work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[Event, None]:
        """Run `work` in a task after all queued work, and yield its events."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        ahead = [task for task in self._work_tasks if not task.done()]
        task = asyncio.create_task(self._in_turn(ahead, events, work))
        task.add_done_callback(lambda ended: events.put_nowait(None))
        self._work_tasks = [*ahead, task]
        if not ahead:  # so that `cancel` reaches it before its first step
            self._control.task = task
            self._control.stopped = ""
        try:
            while (event_ := await events.get()) is not None:
                yield event_
                events.task_done()
        finally:
            self._stop(task)
            await asyncio.wait([task])

    async def _in_turn(
        self,
        ahead: Sequence[asyncio.Task[None]],
        events: asyncio.Queue[Event | None],
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Run `work` when all tasks of `ahead` have ended, with its events in `events`."""
        if ahead:
            await asyncio.wait(ahead)
            self._control.task = asyncio.current_task()
            self._control.stopped = ""
        engine = self.engine
        self._control.events, self._control.problem = events, ""
        spent = engine.spending
        limits = self.dispatcher.limits
        engine.spending = Spending(
            limits, spent.recipes, spent.must_report, spent.is_chat, spent.is_served, spent.is_scheduled
        )
        limit = limits.timeout
        self._control.deadline = time.monotonic() + limit if limit else None
        timer = asyncio.get_running_loop().call_later(limit, self._control.stop, "timeout") if limit else None
        if not self.has_no_ledger:
            self.ledger.mark_busy(self.id, True)
            self.record.defer(True)
        try:
            await work()
        finally:
            await self._end_saving()
            if not self.has_no_ledger:
                self.ledger.mark_busy(self.id, False)
            if timer:
                timer.cancel()

    def _stop(self, task: asyncio.Task[None]) -> None:
        """Stop a running or queued turn or act."""
        if task is self._control.task:
            self._control.stop("end")
        else:
            task.cancel()

    def steer(
        self, text: str, pasted: Sequence[str] = (), *, files: Sequence[AttachedFile] = (), source: str = "person"
    ) -> None:
        """Send a message to the running turn, delivered after the current batch of tool calls. `files` are records of
        the files in the text; `source` is the author: `person` only if they typed it."""
        if text.strip():
            self._control.steering.append(Trigger(text, source, pasted=tuple(pasted), files=tuple(files)))

    def tell(self, text: str, memo: str, value: JsonObject) -> None:
        """Send data from outside to the running turn, as `steer` does, with a memo in the same commit."""
        self._control.steering.append(Trigger(text, pasted=(text,), actor="nexus", notes={memo: value}))

    def take_back(self, text: str = "") -> list[str]:
        """Withdraw and return undelivered messages to the running turn, oldest first; with `text` the newest such."""
        steering = self._control.steering
        messages = [words for words in steering if words.text == text][-1:] if text else list(steering)
        for words in messages:
            steering.remove(words)
        return [words.text for words in messages]

    def take_newest(self) -> str:
        """Withdraw and return the newest of these messages, "" if there are none."""
        return self._control.steering.pop().text if self._control.steering else ""

    def reload(self) -> None:
        """Reload instructions and the other inputs of an epoch with the next request."""
        readings = self.engine.readings
        readings.epoch_cause = readings.epoch_cause or "reload"
        readings.drafted = None

    async def share(self, command: str, output: str) -> str:
        """Return the output of a person's command as a block of a message, clipped as that of a tool's command; what is
        clipped becomes a drop."""
        context, label = self.engine.context, f"output of {command}"
        text = await omit_repeats(context, None, output, label)
        cut = await clip_to_cap(context, None, text, context.budget.output_cap, label, Cause.OUTPUT_CAP)
        return f'<shell command="{escape(command)}">\n{cut.text.rstrip()}\n</shell>'

    async def share_line(self, line: str, output: str, say: TakeText) -> tuple[str, str]:
        """Return the output of a person's shell line as a block of a message, as `share` does, and what the block is.

        The model does not see the values of keys; `say` prints their names. The timeline has the result.
        """
        output, masked = self.mask_secrets(output)
        command, further = self.mask_secrets(line)
        if names := ", ".join(f"[{name}]" for name in sorted({*masked, *further})):
            say(f"The model sees {names} instead of the value.")
        drop_count = len(self.drops())
        block = await self.share(command, output)
        self.attached_texts.note_command(block, command, output)
        dropped = self.drops()[drop_count:]
        omitted = plural(sum(drop.tokens for drop in dropped), "token")
        shortened = f", {omitted} left out: /drops {dropped[0].id}" if dropped else ""
        return block, f"output of `{one_line(command[:BRIEF])}`{shortened}"

    def mask_secrets(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Replace the values of variables with keys in `text` by `[NAME]`; return the text and the names."""
        return self.dispatcher.permission.mask_secrets(text)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Pass events of workers to `listener` while no turn runs."""
        self._control.listener = listener

    def has_sandbox(self) -> bool:
        """Return True if commands can be sandboxed here. Blocks while the sandbox is tested; thread-safe."""
        return self.dispatcher.permission.has_sandbox()

    def prepare(self) -> None:
        """Import the libraries of the first request (seconds of CPU). Thread-safe; may be called repeatedly."""
        getattr(self.provider, "prepare", lambda: None)()

    def release(self) -> list[str]:
        """Let the commands and workers that the turn waits for go on in the background; return the workers' ids."""
        self._control.release_commands()
        return self.workers.release() if self.workers is not None else []

    def cancel(self, by: str) -> None:
        """Stop the running turn or act for the `person`, the `parent` session or the `end` of this one; completed work
        is kept, open calls get results, and the queue continues."""
        self._control.stop(by)

    def end_after_step(self) -> list[asyncio.Task[None]]:
        """Let the running turn and its workers end after their current step; return the workers' tasks."""
        self._control.is_ending = True
        return self.workers.end_after_step() if self.workers else []

    def passed_limit(self) -> NexusError | None:
        """Return the error if the running turn has exceeded its time limit, else None. Thread-safe."""
        deadline = self._control.deadline
        late = deadline is not None and self._control.running and time.monotonic() > deadline
        return self._timed_out() if late else None

    def interrupt_from_signal(self, by: str) -> None:
        """Stop the turn (`person`, `end` or `timeout`) from a signal handler, while its own code blocks the loop."""
        self._control.interrupt_from_signal(by)

    async def act(self, act: Callable[[Session], Awaitable[None]]) -> AsyncIterator[Event]:
        """Run an `Act` after the work in the queue, and yield its events.

        Like a turn it is stopped by `cancel` and bounded by the limits. Raises `NexusError` at the end if it failed,
        kind `aborted` if it was stopped, with the window unchanged.
        """
        problem: NexusError | None = self._stopped()  # if it is stopped in the queue

        async def work() -> None:
            nonlocal problem
            problem = None
            try:
                self._control.recorder = partial(self._record_event, 0)
                await self._save()
                await start_conversation(self)
                await act(self)
                await self._save()
            except (Exception, asyncio.CancelledError) as error:  # as in `_work`
                problem = self._convert_error(error)

        async with aclosing(self._stream(work)) as events:
            async for event_ in events:
                yield event_
        if problem:
            raise problem

    async def compact(
        self, instructions: str = "", show: Callable[[Event], object] = lambda happened: None
    ) -> list[Event]:
        """Compact and return the events, errors included; `show` gets each as it happens. `cancel` stops it and leaves
        the window unchanged."""
        from nexus_cli.session.acts.compaction import compaction  # noqa: PLC0415  (on command only)

        events: list[Event] = []
        try:
            async for event_ in self.act(compaction(instructions)):
                events.append(event_)
                show(event_)
        except NexusError as error:
            why = "interrupted" if error.kind == "aborted" else error.message.removeprefix("not compacted: ")
            tokens = self.engine.next_request().tokens
            events.append(event.CompactionDone(False, tokens, tokens, why))
            show(events[-1])
        return events

    def result(self, outcome: Outcome) -> AskResult:
        """Return the object that `--json` prints at the end of a turn (`nexus docs json`)."""
        newest = self._ends[-1][1] if self._ends else ()
        drops = next((ended_drops for ended, ended_drops in self._ends if ended is outcome), newest)
        request = self.engine.next_request()
        figures: ContextFigures = {
            "window": request.budget.window,
            "budget": request.budget.available,
            "used": request.tokens,
            "basis": request.basis,
            "epoch": self.conversation.epoch.id,
        }
        return result_of(outcome, self.id, self.model, figures, drops)

    def failed_result(self, error: NexusError) -> AskResult:
        """Return the object for a turn that `error` ends and nobody waits for, from what is in memory."""
        from nexus_cli.session.outcome import outcome  # noqa: PLC0415  (no request needs it)

        return result_of(replace(outcome(self, error), text=""), self.id or None, self.model)

    async def aclose(self) -> None:
        """Stop running and queued work, and release the resources of the session. May be called twice."""
        tasks = [task for task in self._work_tasks if not task.done()]
        for task in tasks:
            self._stop(task)
        if self.jobs is not None:  # a turn may wait for one
            await self.jobs.end_all()
        await asyncio.gather(*tasks, return_exceptions=True)
        if hooks := self.dispatcher.hooks:
            await hooks.end()
        if self.workers is not None:
            await self.workers.aclose()
        if self.jobs is not None:
            await self.jobs.end_all()
        self.dispatcher.permission.close()
        if servers := self.services.get_existing(ServerTools):
            await servers.aclose()
        await self.dispatcher.call_changes.aclose()
        if not self.has_no_ledger:
            await self._close_storage()

    async def _close_storage(self) -> None:
        """Close log, provider and ledger, as far as the session has opened them, and release the session's lock."""
        if not self.shares:
            await close_if_closable(self.provider)
        if self.record.is_away:  # what it could not save is in a file
            await asyncio.wait(
                {asyncio.ensure_future(asyncio.to_thread(self._close_ledger))}, timeout=_UNREACHABLE_SECONDS
            )
        else:
            self._close_ledger()

    def _close_ledger(self) -> None:
        self.record.close()  # first: what it still writes back keeps the session from being released as empty
        with suppress(NexusError):  # deleted or not writable: there is nothing left to release
            self.ledger.release(self.id)
        if not self.shares:
            self.ledger.close()

    async def _work(self, trigger: Trigger) -> None:
        engine, dispatcher = self.engine, self.dispatcher
        last_drop = 0 if self.has_no_ledger else self.record.last_drop()
        first = engine.conversation.last + 1 if trigger.text else 0
        self._control.recorder = partial(self._record_event, first)
        dispatcher.granted = ()
        dispatcher.denied.clear()
        dispatcher.changed.clear()
        dispatcher.call_changes.not_covered.clear()
        dispatcher.permission.begin_turn()
        continuations: Sequence[Continuation] = ()
        error: NexusError | None = None
        try:
            engine.control.emit(event.SessionStart(self.id, self.model, dispatcher.recipe.name, self.resumed))
            await self._save()
            if dispatcher.hooks or trigger.may_expand:
                await run_shielded(start_conversation(self, trigger.text))
            if dispatcher.hooks:
                await dispatcher.hooks.begin_turn(trigger.text, is_resumed=self.resumed)
            if trigger.may_expand:
                trigger = await expand_trigger(self, trigger)
            continuations = find_continuations(self, trigger)
            await run_shielded(record_trigger(self, trigger, continuations))
            await self._save()
            await self._begin(continuations)
            dispatcher.assessed = Limits()
            if trigger.text and engine.settings.assess.model:
                from nexus_cli.session.assessment import assess  # noqa: PLC0415  (only where it is switched on)

                dispatcher.assessed = await assess(engine, dispatcher, trigger.text)
            await turn(engine, dispatcher)
            while text := await next_message(continuations):
                await run_shielded(engine.record_user_message(Kind.STEER, Trigger(text, actor="nexus")))
                await turn(engine, dispatcher)
            # What was typed while the continuations were asked is answered; none of them is asked about that answer.
            await turn(engine, dispatcher)
        except (Exception, asyncio.CancelledError) as problem:  # a person never sees a traceback
            error = self._convert_error(problem)
        ended = await self._end(error, continuations)
        self._ends.append((ended, [drop for drop in self.drops() if int(drop.id[1:]) > last_drop]))
        self._control.recorder = None
        engine.control.emit(event.TurnEnd(ended))

    async def _begin(self, continuations: Sequence[Continuation]) -> None:
        """Prepare the first request of a turn whose message is recorded."""
        engine, dispatcher = self.engine, self.dispatcher
        dispatcher.call_changes.begin_turn()
        dispatcher.look_early()
        if line := await self.warn_of_cold_request():
            engine.control.emit_notice(line)
        for continuation in continuations:
            await continuation.begin()

    async def _end(self, error: NexusError | None, continuations: Sequence[Continuation]) -> Outcome:
        """Record what the person typed last, end the background work, and return the outcome of a turn that `error`
        stopped, if it is given."""
        engine = self.engine
        try:
            await engine.deliver_steering()
            await self._save(waits=error is None)
        except (Exception, asyncio.CancelledError) as problem:  # as in `_work`
            error = error or self._convert_error(problem)
        if error is not None and self.workers is not None and not self.has_more_turns:
            with suppress(asyncio.CancelledError):  # the turn ends anyway, with all costs counted
                await run_shielded(self.workers.aclose())
        if self.jobs is not None:
            with suppress(asyncio.CancelledError):
                await run_shielded(self.jobs.end_turn())
        from nexus_cli.session.outcome import outcome  # noqa: PLC0415  (no request needs it)

        ended = outcome(self, error)
        if continuations and (hooks := self.dispatcher.hooks):
            hooks.end_turn()
        for continuation in continuations:
            try:
                ended = continuation.close(ended)
            except Exception as problem:  # the others are closed all the same
                ended = ended.with_error(self._convert_error(problem))
        if self._control.recorder is not None:
            self._control.recorder(event.TurnEnd(replace(ended, text="")))  # the newest answer has the text
        await self._end_saving()
        return ended

    def _record_event(self, first: int, recorded: event.RecordedEvent) -> None:
        """Record an event if a person saw it. `first` is the entry with which its turn begins, 0 for one that goes on.
        A ledger that fails is reported by the next commit that matters."""
        if isinstance(recorded, event.CacheResult) and not recorded.why:
            return
        if isinstance(recorded, event.Retry) and recorded.cut:  # it is recorded with the cut text
            return
        if isinstance(recorded, event.TurnEnd) and self.conversation.last < first:  # its message was not recorded
            return
        kind, fields = event_value(recorded)
        with suppress(NexusError):
            self.conversation.memo(EVENT, {"type": kind, **fields}, max(first, self.conversation.last))

    async def _save(self, *, waits: bool = True) -> None:
        await self.conversation.log.save(waits=waits)

    async def _end_saving(self) -> None:
        """Save what the turn has recorded, or keep it for a server that is away; nothing waits if that is done, so that
        no event of background work comes after `TurnEnd`."""
        if not self.has_no_ledger and self.record.defers:
            try:
                await run_shielded(self._save(waits=False))
            except (Exception, asyncio.CancelledError):  # the outcome of the turn has told it, or is about to
                pass
            finally:
                self.record.defer(False)

    def _convert_error(self, problem: BaseException) -> NexusError:
        """Return the error of a turn or an act that `problem` has ended."""
        match problem:
            case NexusError():
                return problem
            case ApprovalDeferred():
                return NexusError("denied", "paused", "a tool approval was deferred", "Resume the session to decide")
            case asyncio.CancelledError():
                return self._stopped()
        from nexus_cli.config.crash_report import report_bug  # noqa: PLC0415  (after a bug only)

        return report_bug(problem)

    def _stopped(self) -> NexusError:
        if self._control.stopped == "timeout":
            return self._timed_out()
        note = "; completed steps are kept" if self.saved else ""
        return NexusError("aborted", "stopped", f"the turn was interrupted{note}")

    def _timed_out(self) -> NexusError:
        problem = f": {self._control.problem}" if self._control.problem else ""
        why = f"the turn took longer than {round(self.dispatcher.limits.timeout or 0.0, 1)} s{problem}"
        hint = self.engine.spending.describe_raise("timeout")
        return NexusError("limit", "limit timeout reached", why, hint)
