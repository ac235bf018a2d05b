"""The methods of one agent: turns in order, steering and stopping the running one, answers, reports.

Each `rpc_method` is a method of the server. The agent never waits for its listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, cast

from nexus_cli.commands import discover as list_built_in
from nexus_cli.commands.command import Command
from nexus_cli.config.crash_report import report_bug
from nexus_cli.context.manager import ContextManager
from nexus_cli.core.attachment import AttachedFile, Trigger
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import Entry
from nexus_cli.core.errors import WAITING, ErrorObject, NexusError, UsageError
from nexus_cli.core.event import (
    ApprovalAnswer,
    ApprovalRequest,
    CompactionDone,
    Event,
    Notice,
    Outcome,
    PersonAsked,
    TurnEnd,
    TurnStart,
    WorkerState,
)
from nexus_cli.core.event_json import AskResult, EventNumbers, event_value
from nexus_cli.core.image_check import decode_image
from nexus_cli.core.json_value import JsonObject, JsonOf, to_json_value
from nexus_cli.core.limits import BUDGET_ENDED, describe_budget, level_fields
from nexus_cli.core.run import Run
from nexus_cli.core.server_results import (
    Acknowledged,
    AgentActivity,
    AttachedObject,
    CommandList,
    CommandResult,
    CompactResult,
    ConversationObject,
    MessageList,
    MessageObject,
    ReleasedWorkers,
    TokenUsage,
    UnqueuedTexts,
)
from nexus_cli.reports.context import ContextReport, estimate_next_tokens, live_report
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.git_branch import read_branch
from nexus_cli.reports.last_exchange import is_cut_short, last_exchange
from nexus_cli.reports.turn_changes import count_newest_turn
from nexus_cli.reports.workers import WorkerList, recorded_workers
from nexus_cli.rpc.client_approver import ANSWERS, ClientApprover
from nexus_cli.rpc.event_feed import EventFeed, FeedItem, Listener
from nexus_cli.rpc.jsonrpc import BUSY, INVALID_PARAMS, REFUSED, TURN_FAILED, RpcError
from nexus_cli.rpc.method import number, one_of, rpc_method
from nexus_cli.rpc.served_command import ServedContext, find_served
from nexus_cli.runs.live_wait import resume_run, wait_until_over, waiting_run
from nexus_cli.runs.missed_runs import waiting_runs
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status

MAX_WAITING = 16
"""Messages and commands of one agent that may wait for their turn."""
MAX_MESSAGES = 1_000
"""Most messages in one answer."""
MAX_TURNS = 100
MAX_OFFSET = 2**53 - 1
STOP_SECONDS = 5.0
"""Seconds that a turn may take to stop."""
TAKEN_BACK = "the message was removed by `unqueue`"
STOPPING = "the server is stopping"
ENDED = "this agent has ended"


class StatusObject(JsonOf[Status]):
    """The figures for a client; `allow` has the former name of the level."""

    level: str


class AgentDispatcher:
    """Runs the turns of one agent and answers its methods."""

    def __init__(
        self,
        session: Session,
        context: ContextManager | None = None,
        *,
        approver: ClientApprover | None = None,
        opened: Callable[[Options, Session], Awaitable[Session]] | None = None,
    ) -> None:
        """Initialize. Scripts may pass `context`, which is always that of the session; `approver` must be the one that
        the session was opened with, `opened` opens the session that follows another one."""
        self.session = session
        self._opened = opened
        self.approver = approver or ClientApprover()
        self.feed = EventFeed()
        self.noted: Callable[[Outcome | None], None] = lambda outcome: None
        """Called when a turn begins, with None, and with its outcome when it ends."""
        self.heard: Callable[[Event], None] = lambda event: None
        """Called with every event, for a front end in this process."""
        self.wait_until_shown: Callable[[], Awaitable[None]] = _do_nothing
        """Awaited after each event of a turn: that front end has shown all events."""
        self.unheard: list[Event] = []
        """Events from before the first turn, when nobody could listen: the first turn begins with them."""
        self.approver.publish = self.publish
        session.listen(self.publish)
        self._works: set[asyncio.Task[Any]] = set()
        """The turns."""
        self._in_turn = False
        """True between the first and the last event of a turn."""
        self._queued: dict[asyncio.Task[Any], str] = {}
        """The turns that have not begun, in order, with their content."""
        self._commands: dict[asyncio.Task[None], ServedContext] = {}
        """Slash commands that run, wait for a choice, or wait until no turn runs."""
        self._changes = ""
        """The files and lines that the newest turn changed."""
        self._sleep: asyncio.Task[None] | None = None
        """Watches the wait of the session's run, and resumes the run when it is over."""
        self._ending = False

    @property
    def state(self) -> AgentActivity:
        """`idle`, `running`, `asking` or `waiting`."""
        if self.approver.waiting:
            return "asking"
        if self._works:
            return "running"
        return "waiting" if self._is_sleeping else "idle"

    @property
    def _is_sleeping(self) -> bool:
        return self._sleep is not None and not self._sleep.done()

    # -- turns -------------------------------------------------------------------------------------------------

    @rpc_method(BUSY, REFUSED, TURN_FAILED)
    async def send(
        self,
        content: str,
        images: Sequence[str] = (),
        typed: bool = False,
        pasted: Sequence[str] = (),
        session: str = "",
    ) -> AskResult:
        """Run a turn. With `Accept: text/event-stream` the answer is its events, the last of them the result. A busy
        agent takes it afterwards; empty content goes on with a turn that was cut short.

        content: The words of the person.
        images: Images in base64, to go with it.
        typed: True: a person typed it, and a guide that it calls (`/NAME`, `$NAME`) is added.
        pasted: The parts of content that were pasted: they call no guide and attach nothing.
        session: The session that it is for: if the agent continues with another one by then, it is refused.
        """
        turn = self.begin_turn(content, images, typed=typed, pasted=pasted, session=session)
        _, result = await self._follow_turn(turn)
        if error := result["error"]:
            turn_fields = {"usage": result["usage"], "session": result["session"], "text": result["text"]}
            raise RpcError(TURN_FAILED, error["message"], {**error, **turn_fields})
        return result

    def begin_turn(
        self,
        content: str,
        images: Sequence[str] = (),
        listener: Listener | None = None,
        *,
        typed: bool = False,
        pasted: Sequence[str] = (),
        session: str = "",
    ) -> asyncio.Task[tuple[Outcome, AskResult]]:
        """Start or queue a turn; return the task that ends with its outcome and result object. Guides that `typed`
        content calls outside its `pasted` parts are added. With `session` the task fails unless that one is open then.

        `listener` gets the events of this turn alone, numbered from 0, and ends with the result. The turn runs to its
        end even if nobody listens. Raise `RpcError` if too many wait or no turn may begin.
        """
        content = content if content.strip() else ""
        try:
            parts = tuple(decode_image(image, "image") for image in images)
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, f"invalid base64 image: {error}") from None
        files = tuple(AttachedFile(part.name, part.media_type, len(part.data)) for part in parts)
        trigger = Trigger(content, "person" if typed else "client", parts, files, pasted=tuple(pasted), expands=typed)
        task = self._queue(trigger, EventFeed(listener) if listener else None, len(self._works), session)
        if listener is not None:  # a task that is cancelled before its first step runs no `finally`
            task.add_done_callback(lambda _: listener.end())
        return task

    async def run(self, trigger: Trigger) -> Outcome:
        """Run a turn of a front end in this process; raise `RpcError` if it may not begin or is taken back."""
        return (await self._follow_turn(self._queue(trigger)))[0]

    def _queue(
        self, trigger: Trigger, own_feed: EventFeed | None = None, ahead: int = 0, session: str = ""
    ) -> asyncio.Task[Any]:
        self._check_room()
        commands = tuple(self._commands.values())
        if not commands:  # else one may open that session
            self._require_session(session)
        task = self._begin(self._run_turn(trigger, own_feed, ahead, commands, session, is_queued=True))
        self._queued[task] = trigger.text
        return task

    async def _follow_turn(self, task: asyncio.Task[tuple[Outcome, AskResult]]) -> tuple[Outcome, AskResult]:
        """Return the outcome and result object of a turn, which goes on without its caller."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise RpcError(REFUSED, TAKEN_BACK) from None

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._end_work)
        return task

    def _end_work(self, task: asyncio.Task[Any]) -> None:
        self._works.discard(task)
        self._queued.pop(task, None)
        if not task.cancelled() and (bug := task.exception()) is not None and not isinstance(bug, RpcError):
            self.publish(Notice(report_bug(bug).message))
        self._send_reports()

    def _send_reports(self) -> None:
        """Begin a turn with the reports of workers that a client moved to the background, if no turn runs."""
        workers = None if self._works or self._ending else self.session.workers
        if workers is not None and (reports := workers.take_reports()):
            trigger = Trigger(reports, source="agent", actor="nexus")
            self._begin(self._run_turn(trigger, None, 0, tuple(self._commands.values())))

    def _refuse_at_end(self) -> None:
        if self._ending:
            raise RpcError(BUSY, STOPPING)

    def _require_session(self, session: str) -> None:
        """Raise `RpcError` if a message or command is for a session that is no longer open; "" stands for any."""
        if session not in ("", self.session.id):
            raise RpcError.of(NexusError("refused", "not sent", f"a client has opened session {self.session.id}"))

    def _check_room(self) -> None:
        self._refuse_at_end()
        if len(self._works) + len(self._commands) > MAX_WAITING:
            raise RpcError(BUSY, f"{MAX_WAITING} messages and commands are already queued for this agent")

    def _note_begin(self, task: asyncio.Task[Any] | None) -> None:
        """Note that a turn begins, and tell the model its budget. A queued one that was taken back just before does
        not begin."""
        if task is not None and self._queued.pop(task, None) is None:
            raise asyncio.CancelledError
        engine = self.session.engine
        if engine.spending.must_report:
            engine.notices.tell(describe_budget(self.session.dispatcher.limits))
        self.noted(None)

    async def _run_turn(
        self,
        trigger: Trigger,
        own_feed: EventFeed | None,
        ahead: int,
        commands: Collection[ServedContext],
        session: str = "",
        *,
        is_queued: bool = False,
    ) -> tuple[Outcome, AskResult]:
        task = asyncio.current_task() if is_queued else None
        await self._wait_for_commands(commands)
        self._require_session(session)
        while self.unheard:
            self.publish(self.unheard.pop(0), own_feed)
        if ahead:
            self.publish(Notice(f"queued behind {plural(ahead, 'message')}", warning=False), own_feed)
        ended: Outcome | None = None
        async for event in self.session.run(trigger, partial(self._note_begin, task)):
            if isinstance(event, TurnEnd):
                ended = event.outcome.without_partial_text()
                spending = self.session.engine.spending
                if ended.ok and spending.ending and spending.limits.max_steps != 1:
                    ended = ended.with_error(spending.reached(spending.ending, BUDGET_ENDED))
                event = TurnEnd(ended)
                may_have_changed = ended.changed or ended.steps > 1
                self._changes = await asyncio.to_thread(count_newest_turn, self.session) if may_have_changed else ""
            self.publish(event, own_feed)
            await self.wait_until_shown()
        assert ended is not None, "every turn ends with its outcome"
        self.noted(ended)
        result: AskResult = to_json_value(self.session.result(ended))
        self.approver.forget()
        self._add("result", result, own_feed)
        if ended.error and ended.error["kind"] == WAITING and not self._is_sleeping:
            self._sleep = asyncio.create_task(self._sleep_until_over())
        return ended, result

    async def _sleep_until_over(self) -> None:
        """Resume the run of the session when its wait is over."""
        try:
            if await wait_until_over(self.session) and not self._ending:
                self._begin(resume_run(self.session, self._run_resumed))
        except NexusError as error:
            self.publish(Notice(f"{error.message}; `nexus runs list` shows the run"))

    async def _run_resumed(self, run: Run, trigger: Trigger) -> Outcome:
        return (await self._run_turn(trigger, None, 0, tuple(self._commands.values())))[0]

    def listen(self, after: int | None = None, *, questions: bool = False) -> Listener:
        """Return a listener of the agent's events after the number `after`, without a number of new events; without a
        number, or with `questions`, also of the earlier questions that wait for an answer."""
        listener = self.feed.listen(after)
        waiting = self.approver.waiting if questions or after is None else ()
        for item in (question.item for question in waiting if question.item is not None):
            number = item.seq if after is None else after  # as an id: who continues behind it reads no event twice
            if item.seq <= number:
                listener.put(item._replace(seq=number))
        return listener

    def publish(self, event: Event, own_feed: EventFeed | None = None) -> None:
        """Send an event to all listeners, and to the caller of the turn."""
        self.heard(event)
        kind, value = event_value(event)
        if isinstance(event, TurnStart | TurnEnd):  # of the session, not of a worker
            self._in_turn = isinstance(event, TurnStart)
        item = self._add(kind, value, own_feed)
        if kind in (ApprovalRequest.kind, PersonAsked.kind):
            self.approver.expect(value["id"], item)
        elif kind == ApprovalAnswer.kind:
            self.approver.forget(value["id"])
        elif kind == WorkerState.kind:
            self._send_reports()

    def _add(self, kind: str, value: JsonObject, own_feed: EventFeed | None) -> FeedItem:
        if own_feed is not None:
            own_feed.add(kind, value)
        return self.feed.add(kind, value)

    @rpc_method(REFUSED)
    async def steer(
        self, content: str, session: str = "", typed: bool = False, pasted: Sequence[str] = ()
    ) -> Acknowledged:
        """Say something to the running turn, delivered after its tool calls.

        content: The words of the person.
        session: The session that they are for: if another one is open, they are refused.
        typed: True: a person typed them.
        pasted: Parts of `content` that were not typed.
        """
        if not content.strip():
            raise RpcError(INVALID_PARAMS, "content has no text")
        self._require_session(session)
        if not self._works:
            raise RpcError(REFUSED, "no turn is running: use `send`")
        self.session.steer(content, tuple(pasted), source="person" if typed else "client")
        return {"ok": True}

    @rpc_method()
    async def unqueue(self, content: str = "") -> UnqueuedTexts:
        """Remove messages that no turn has used yet; the `send` of a removed message fails with -32003.

        content: Only the newest message with this text, or the attached text; default: all messages.
        """
        texts = self.session.take_back(content)
        turns = [task for task, text in self._queued.items() if content in ("", text)]
        for task in turns if not content else turns[-1:] if not texts else ():
            texts.append(self._queued.pop(task))
            task.cancel()
        if content and not texts:
            self.session.attached_texts.remove(content)
        return {"texts": texts}

    @rpc_method()
    async def cancel(self) -> Acknowledged:
        """Stop the running turn. Completed steps are kept."""
        self.session.cancel("person")
        return {"ok": True}

    @rpc_method()
    async def release(self) -> ReleasedWorkers:
        """Let the commands and workers that the running turn waits for go on in the background."""
        return {"workers": self.session.release()}

    def cancel_all(self) -> None:
        """Stop the running turn, all commands, and the turns that wait."""
        for task in (*self._queued, *self._commands):
            task.cancel()
        self._queued.clear()
        self.session.cancel("person")

    @rpc_method(REFUSED)
    async def approve(self, id: str, answer: Annotated[str, one_of(*ANSWERS)], words: str = "") -> Acknowledged:
        """Answer the question of an `approval.ask` event.

        id: The `id` of that event.
        answer: Allow it, also for the session, or not.
        words: With `no`: the reason for the model.
        """
        self.approver.answer(id, answer, words)
        return {"ok": True}

    @rpc_method(REFUSED)
    async def answer(self, id: str, answers: Sequence[str]) -> Acknowledged:
        """Answer the questions of a `question.ask` event.

        id: The `id` of that event.
        answers: An answer to each; with fewer the others have none.
        """
        self.approver.answer_questions(id, answers)
        return {"ok": True}

    @rpc_method(BUSY)
    async def compact(self, instructions: str = "") -> CompactResult:
        """Summarize older messages.

        instructions: What the summary has to keep.
        """
        self._check_room()
        events = await asyncio.shield(self._begin(self.session.compact(instructions, self.publish)))
        result = next(event for event in reversed(events) if isinstance(event, CompactionDone))
        return {"before": result.before, "after": result.after, "why": result.why}

    @rpc_method(BUSY, REFUSED)
    async def run_command(self, name: str, arguments: str = "", asks: bool = False, session: str = "") -> CommandResult:
        """Run a slash command beside the session: one that reads or changes this session alone.

        name: Its name, without the slash.
        arguments: The rest of the line.
        asks: True: its last call may be `choose`, and it waits for that method.
        session: The session that it is for: if the agent continues with another one by then, it is refused.
        """
        self._refuse_at_end()
        context = ServedContext(lambda: self.session, self.publish, self._reopen, asks=asks)
        argument_line = arguments.strip()
        command = find_served(name, argument_line, context)
        waits = command.idle and not command.at_once(argument_line)
        if waits:
            self._check_room()
            context.holds_turns = True
        ahead = set(self._works) if waits else set()
        task = asyncio.create_task(self._invoke(command, context, argument_line, ahead, session))
        self._commands[task] = context
        task.add_done_callback(lambda task: self._commands.pop(task).paused.set())
        return await self._follow_command(task, context)

    @rpc_method()
    async def list_commands(self) -> CommandList:
        """List the commands of the person, the project and its MCP servers: a `typed` message calls one."""
        return {
            "commands": [
                {"name": command.name, "usage": command.usage, "help": command.help}
                for command in await self.read_own_commands()
            ]
        }

    async def read_own_commands(self) -> Collection[Command]:
        """Return the commands of the person, the project and its MCP servers."""
        from nexus_cli.commands.own_guides import message_commands  # noqa: PLC0415  (few clients ask)

        servers = () if self.session.has_no_ledger else self.session.options.servers
        return (await asyncio.to_thread(message_commands, self.session.folder, list_built_in(), servers)).values()

    @rpc_method(REFUSED)
    async def choose(self, id: str, key: str | None = None) -> CommandResult:
        """Answer the choice of a command, which then runs on.

        id: The `id` of that call.
        key: The `key` of the choice; without one nothing is chosen.
        """
        for task, context in list(self._commands.items()):
            if context.choice_id == id:
                while context.holds_turns and self._works:
                    await asyncio.wait(list(self._works))
                if context.answer(id, key):
                    return await self._follow_command(task, context)
        raise RpcError(REFUSED, f"no choice {id[:80]} is waiting for an answer")

    async def _follow_command(self, task: asyncio.Task[None], context: ServedContext) -> CommandResult:
        """Wait until a command has ended or asks for a choice; return what it did at the terminal until then."""
        await context.paused.wait()
        problem: ErrorObject | None = None
        try:
            if task.done():
                task.result()
        except NexusError as error:
            problem = error.to_json()
        except asyncio.CancelledError:
            raise RpcError(REFUSED, ENDED) from None
        value = None if context.reported is None else to_json_value(context.reported)
        return {"calls": context.take_calls(), "value": value, "error": problem}

    async def _wait_for_commands(self, commands: Collection[ServedContext]) -> None:
        """Wait until each of `commands` that holds the turns has ended or asks for a choice."""
        for context in commands:
            if context.holds_turns:
                await context.paused.wait()
                self._refuse_at_end()

    async def _invoke(
        self, command: Command, context: ServedContext, arguments: str, ahead: set[asyncio.Task[Any]], session: str
    ) -> None:
        """Run a command after the turns `ahead` of it; those that are queued later wait for it."""
        if ahead:
            await asyncio.wait(ahead)
        if self._ending:
            raise RpcError(REFUSED, ENDED)
        self._require_session(session)
        await command.invoke(context, arguments)
        if context.act and self.feed.has_listeners:
            self.publish(Notice(context.act, warning=False))

    async def _reopen(self, options: Options) -> None:
        """Open the session of `options`: this one, or another one in its place."""
        if self._opened is None or self.session.busy:
            raise UsageError(
                "this agent",
                "its session cannot be changed now",
                "Try again when no turn or command is running",
            )
        self.session = await self._opened(options, self.session)
        self.session.listen(self.publish)
        for line in self.session.take_notices():
            self.publish(Notice(line))

    # -- reports -----------------------------------------------------------------------------------------------

    @rpc_method()
    async def get_status(self) -> StatusObject:
        """Return the figures of the status line."""
        session = self.session
        now, workers = session.status(), session.workers
        asking, run = 0, None
        with suppress(NexusError):  # the session reports a failed ledger
            run = waiting_run(session) if self.state == "waiting" else None
            has_runs = not session.has_no_ledger and session.ledger.has_runs()
            asking = len(waiting_runs(session.ledger, session.folder)) if has_runs else 0
            if not (now.settled or self._works):  # nothing was sent yet
                now = replace(now, used=await asyncio.to_thread(estimate_next_tokens, session))
        status = replace(
            now,
            branch=read_branch(session.folder),
            workers=len(workers.running()) if workers is not None else 0,
            waits=run.waits.why if run and run.waits else "",
            asking=asking,
            activity=self.state,
            in_turn=self._in_turn,
            changes=self._changes,
            next=self.feed.next,
            is_cut_short=is_cut_short(session),
            keeps_attached=session.attached_texts.is_kept,
        )
        return StatusObject({**to_json_value(status), **level_fields(status.allow)})

    @rpc_method()
    async def get_tokens(self) -> TokenUsage:
        """Return the tokens of the window."""
        return cast("TokenUsage", dict(self.session.context.get_token_usage()))

    @rpc_method(REFUSED)
    async def get_context(self) -> ContextReport:
        """Return the content of the next request, as `nexus context --json` does."""
        return await asyncio.to_thread(live_report, self.session)

    @rpc_method(REFUSED)
    async def list_workers(self) -> WorkerList:
        """List the workers of the session."""
        if self.session.has_no_ledger:
            return {"workers": []}
        return {"workers": await asyncio.to_thread(recorded_workers, self.session.ledger, self.session.id)}

    @rpc_method()
    async def get_messages(
        self,
        offset: Annotated[int, number(0, MAX_OFFSET)] = 0,
        limit: Annotated[int, number(1, MAX_MESSAGES)] = 100,
    ) -> MessageList:
        """Return messages of the session, the oldest first, also those that the window no longer shows.

        offset: Messages to skip.
        limit: Messages to return; 100 without it.
        """
        conversation = self.session.conversation
        total = conversation.last
        last = min(total, offset + limit)
        entries = await asyncio.to_thread(conversation.read, offset + 1, last) if offset < total else ()
        return {"messages": [_message_value(entry) for entry in entries], "total": total}

    @rpc_method(REFUSED)
    async def get_conversation(self, turns: Annotated[int, number(1, MAX_TURNS)] = 10) -> ConversationObject:
        """Return the newest turns as events, as a client shows them on return.

        turns: Turns to return; 10 without it.
        """
        return await asyncio.to_thread(self._read_conversation, turns, self.feed.next)

    def _read_conversation(self, turns: int, next_event: int) -> ConversationObject:
        numbers = EventNumbers()
        newest = islice(newest_turns(self.session), turns)
        turn_lines = [list(map(numbers.event_line, turn)) for turn in newest]
        waiting = self.session.attached_texts.load()["texts"]
        attached = [AttachedObject(block=text["text"], what=text["what"]) for text in waiting]
        end = to_json_value(last_exchange(self.session))
        return {"end": end, "turns": turn_lines, "attached": attached, "next": next_event}

    # -- the end -----------------------------------------------------------------------------------------------

    def _begin_end(self) -> None:
        self._ending = True
        if self._sleep is not None:
            self._sleep.cancel()

    async def finish_step(self, seconds: float) -> None:
        """Let the running turn finish its step and begin no other; stop it after `seconds`."""
        self._begin_end()
        workers = self.session.end_after_step()
        self.approver.end()
        for tasks, limit in (({*self._works, *workers}, seconds), (self._works, STOP_SECONDS)):
            if tasks:
                await asyncio.wait(list(tasks), timeout=limit)
            if self._works:
                self.session.cancel("end")

    async def aclose(self) -> None:
        """Stop the turn and release the session, which stays in the ledger."""
        self._begin_end()
        for command in self._commands:
            command.cancel()
        await asyncio.sleep(0)  # lets a turn that was just requested start, so that it can be stopped
        await self.session.aclose()
        if tasks := [*self._works, *self._commands]:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        self.feed.end()


async def _do_nothing() -> None:
    """Wait for no front end."""


Dispatcher = AgentDispatcher
"""The name that scripts import; the session's `Dispatcher` dispatches tool calls."""


def _message_value(entry: Entry) -> MessageObject:
    """Return a message in the form of Chat Completions, with the number of its entry and its time."""
    message = entry.message
    value: MessageObject = {
        "entry": entry.id,
        "at": entry.at,
        "role": str(message.role),
        "content": message.content,
    }
    if message.tool_calls:
        value["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        value["tool_call_id"] = message.tool_call_id
    return value
