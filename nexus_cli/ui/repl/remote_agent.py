"""An agent of `nexus serve` behind the REPL: its turns and commands run in the server, its events arrive as a stream.

Other clients may begin turns of the same agent. A lost connection is opened again; missed events are sent again.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

from nexus_cli.client import CallError, Client
from nexus_cli.commands import discover
from nexus_cli.commands.command import Choice, Command, CommandContext
from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import ErrorObject, NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.read_event import read_event, read_value
from nexus_cli.core.server_results import MAX_ATTACHED, ConversationObject
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.rpc.jsonrpc import REFUSED, TURN_FAILED
from nexus_cli.rpc.served_command import ACT, describe_client_command
from nexus_cli.session.status import Status
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.repl.agent_connection import AgentConnection
from nexus_cli.ui.repl.command_context import TerminalContext
from nexus_cli.ui.repl.input_queue import brief
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.repl import Repl
from nexus_cli.ui.repl.shell_line import ShellLine

TRIES = 5
"""Consecutive attempts to reopen a lost connection."""
WAIT_SECONDS = 1.0
"""Seconds before the first attempt; each further wait is longer by as much."""
TURNS = 20
"""Most turns that are shown on return."""
AT_WORK = ("running", "asking")
"""States of an agent in which a turn runs, for a server that does not say `in_turn`."""
CALLS = ("say", "show", "fill", "attach", "start")
"""Actions at this terminal that a command of the server may request at any time."""
ALLOWED_UNTIL = " \N{MIDDLE DOT} until the server ends this agent"
"""Appended to a permission granted for the session, because the command that revokes it is the person's alone."""


class RemoteAgent(TerminalContext, AgentConnection):
    """Implements `AgentConnection`: one agent of a server, as one of its clients sees it."""

    ends_with_repl = False
    earlier_answer = ""

    def __init__(
        self,
        client: Client,
        agent_id: str,
        status: JsonObject,
        url: str,
        reconnect: str,
        folder: Path,
        approver: PersonApprover,
        raw: TakeText,
    ) -> None:
        """`status` is what `get_status` returns; `reconnect` the command to connect again; `folder` of this machine has
        the files that a message mentions; `raw` as in `TerminalContext`."""
        super().__init__(raw)
        self._client, self.agent_id, self._url, self._folder = client, agent_id, url, folder
        self._reconnect = reconnect
        self._is_older = False
        """True for a server before 0.3: it knows neither the session of a message nor who typed one to a running turn,
        and has no stream of all events."""
        self._status = self._read_status(status)
        self._shown_session = self.status.session
        """The session that the person knows of."""
        self.status_code = 0
        """The exit status."""
        self._approver = approver
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._expected: list[str] = []
        """Texts of this client whose turn has not begun."""
        self._in_turn = self.status.in_turn
        self._ended_turns = 0
        """Number of turns whose end was shown."""
        self._steered: list[str] = []
        self._steering = asyncio.Lock()
        self._next_event = self.status.next
        """The number of the next event."""
        self._is_calling = False
        """True while the server runs a command of this client."""
        self._called = ""
        """The notice of the newest command of this client, "" once it has arrived."""
        self._stored_texts: deque[str] = deque(maxlen=MAX_ATTACHED)
        """The newest texts that wait in the session, also one that was detached until the server knows it."""
        self._departures = 0
        """The number of times that attached texts may have left: with a message, or because the session changed."""
        self._typed = ""
        """The arguments of the newest command of this client."""
        self._news = asyncio.Event()
        """Set by every event."""
        self._connected = asyncio.Event()
        self._failed = 0
        """Number of consecutive failures of the connection."""

    def connect(self, repl: Repl) -> None:
        """Serve `repl`, which was made with this backend."""
        self.repl = repl

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def status(self) -> Status:
        return self._status

    @property
    def is_cut_short(self) -> bool:
        return self.status.is_cut_short

    def keeps(self, attached: str) -> bool:
        return attached in self._stored_texts

    @property
    def commands(self) -> Mapping[str, Command]:
        built_in = {name: verb for name, verb in discover().items() if verb.at_terminal or verb.is_served}
        return {**self._own_commands, **built_in}

    def read_own_commands(self) -> None:
        """Begin to read the commands of the person and the project on the machine of the server."""
        self._reading = self._begin(self._read_own_commands())

    async def _read_own_commands(self) -> None:
        from nexus_cli.commands.own_guides import make_typed_command  # noqa: PLC0415  (after the start)

        try:
            command_list = await self._client.list_commands(self.agent_id)
        except ConnectionError:  # `read_events` reports it; the next idle moment reads them
            return
        commands = [
            make_typed_command(own_command["name"], own_command["usage"], own_command["help"])
            for own_command in command_list["commands"]
        ]
        self._own_commands = {command.name: command for command in commands}
        self.repl.offer_commands()

    @property
    def _message_session(self) -> str | None:
        """The session that a message or command of now is for."""
        return None if self._is_older else self._shown_session

    @property
    def undelivered(self) -> Sequence[str]:
        return self._steered

    # Turns

    async def run(self, trigger: Trigger) -> None:
        self._expected.append(trigger.text)
        images, session = [base64.b64encode(part.data).decode() for part in trigger.parts], self._message_session
        try:
            await self._connected.wait()
            try:
                typed, pasted = trigger.source == "person" or None, trigger.pasted or None
                await self._client.send(self.agent_id, trigger.text, images or None, typed, pasted, session)
            except CallError as error:
                if error.code != TURN_FAILED:  # the failed turn has shown its own end
                    raise _nexus_error(error) from error
            await self._catch_up()
        except ConnectionError as error:  # `read_events` reports it
            if not await self._has_begun(trigger.text):
                raise NexusError("network", self._url, str(error), "The message was not sent") from error
            await self._follow()
        finally:
            if trigger.text in self._expected:
                self._expected.remove(trigger.text)
            if not trigger.text:  # it took them, or they are lost
                self._steered.clear()

    async def _has_begun(self, text: str) -> bool:
        """Return True if a turn of this client has begun with `text`, whose answer was lost: once the connection is
        back, the events say so. Else take it back from the server, where it may wait."""
        with suppress(CallError):  # the server was restarted
            if text in self._expected:
                await self._deliver(self._catch_up)
            if text and text in self._expected:
                await self._deliver(lambda: self._client.unqueue(self.agent_id, text))
        return text not in self._expected

    async def _follow(self) -> None:
        """Wait until the running turn has ended."""
        turn = self._ended_turns
        while self._in_turn and self._ended_turns == turn:
            self._news.clear()
            await self._news.wait()

    async def _show_turn(self) -> None:
        """Wait until the turn of another client has ended."""
        await self._follow()
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Read the agent's figures, and wait for the events until now."""
        await self._read_figures()
        while self._next_event < self.status.next:
            self._news.clear()
            await self._news.wait()

    async def _read_figures(self) -> None:
        self._status = self._read_status(await self._client.get_status(self.agent_id))
        if self.status.next >= self._next_event:  # else the events are newer than this answer
            self._report_session(self.status.session)
        self.repl.show_status()

    def _report_session(self, session: str) -> None:
        """Tell the person once that the agent continues with `session`, unless a command of this client may have moved
        it there. What is attached stays with the session before; queued messages are named and not sent.

        The figures may say so before the event does.
        """
        before = self._shown_session
        if session != before and not self._is_calling:
            self._shown_session = session
            moved = f"a client moved {self.agent_id} to session {session}; to return: /resume {before}"
            self.repl.show_note(moved, "warn")
            self.repl.hand_over.withdraw()
            queue = self.repl.input_queue
            unsent = [message for message in queue.unsent(self._steered)[0] if message is not queue.sending]
            self.repl.show_unsent((brief(message.text) for message in unsent), stored=False)
            queue.drop_all()
            self._steered.clear()
            self._leave_attached()
            self._begin(self._load_attached())

    def _read_status(self, value: JsonObject) -> Status:
        status: Status = read_value(Status, value)
        in_turn = value.get("in_turn", status.activity in AT_WORK)
        self._is_older = "in_turn" not in value
        return replace(status, allow=value["level"], in_turn=in_turn, server=self._url.rpartition("/")[2])

    def refresh(self) -> None:
        self._begin(self._refresh())

    async def _refresh(self) -> bool:
        """Read the agent's figures; return False if that fails: the stream of events fails too and says so."""
        with suppress(CallError, ConnectionError):
            await self._read_figures()
            return True
        return False

    def note(self, event: e.Event) -> None:
        inner = e.without_worker(event)
        if isinstance(inner, e.StepEnd | e.WorkerState | e.CompactionDone):
            self.refresh()

    async def steer(self, trigger: Trigger) -> bool:
        self._steered.append(trigger.text)
        session = self._message_session
        try:
            async with self._steering:
                typed = (trigger.source == "person" and not self._is_older) or None
                pasted = (typed and trigger.pasted) or None
                await self._client.steer(self.agent_id, trigger.text, session, typed, pasted)
        except (CallError, ConnectionError):
            if trigger.text in self._steered:  # else it was taken back meanwhile
                self._steered.remove(trigger.text)
                return False
        return True

    async def release_workers(self) -> Sequence[str]:
        return (await self._with_lines(self._client.release(self.agent_id)))["workers"]

    def cancel(self) -> bool:
        if not (self._in_turn or self._expected or self._is_calling):
            return False
        self._begin(self._cancel(self.repl.jobs.current, self._ended_turns))
        return True

    async def _cancel(self, job: Job | None, turn: int) -> None:
        """Stop the work `job`, after `turn` turns; once a lost connection is back, only if it still runs."""
        try:
            await self._client.cancel(self.agent_id)
        except ConnectionError:
            await self._deliver(lambda: self._cancel_late(job, turn))

    async def _cancel_late(self, job: Job | None, turn: int) -> None:
        """Stop the work `job` unless an event says that it has ended: a turn of another client may run."""
        await self._catch_up()
        if self.repl.jobs.current is job and self._ended_turns == turn:
            await self._client.cancel(self.agent_id)

    def take_newest(self) -> str:
        if not self._steered:
            return ""
        text = self._steered.pop()
        self._begin(self._unqueue(text))
        return text

    async def _unqueue(self, text: str) -> None:
        """Take a text back from the server; say so if the turn has used it."""
        async with self._steering:  # behind the call that sent it
            withdrawn = await self._client.unqueue(self.agent_id, text)
        if not withdrawn["texts"]:
            self.repl.show_note(f"already sent: {brief(text)}", "warn")

    def attach(self, block: str, what: str) -> None:
        if self.status.keeps_attached:
            self._stored_texts.append(block)
        super().attach(block, what)

    def forget_attachment(self, text: str) -> None:
        self._begin(self._forget(text))

    async def _forget(self, text: str) -> None:
        await self._deliver(lambda: self._client.unqueue(self.agent_id, text))
        self._stored_texts = deque((stored for stored in self._stored_texts if stored != text), MAX_ATTACHED)

    def watch(self) -> None:
        """Show the turn of another client as running work."""
        if self._in_turn and self.repl.jobs.current is None:
            self.repl.jobs.start("turn", "", self._with_lines(self._show_turn()))

    # What the person does

    async def run_command(self, command: Command, arguments: str) -> None:
        if command.at_terminal or self._own_commands.get(command.name) is command:
            await command.invoke(cast("CommandContext", self), arguments)
        else:
            self._typed = arguments
            await self._repeat(await self._call(command.name, arguments))

    async def _call(self, name: str, arguments: str) -> JsonObject:
        """Run a command in the server, up to its next choice; its events are shown when this returns."""
        self._called = describe_client_command(f"/{name} {arguments}".rstrip())
        session = self._message_session
        call = self._client.run_command(self.agent_id, name, arguments or None, asks=True, session=session)
        return await self._finish(call)

    async def _finish(self, call: Awaitable[JsonObject]) -> JsonObject:
        """Return the result of a call that runs a command; raise its error as one for the person."""
        self._is_calling = True
        try:
            result = await self._with_lines(call, "The command may still run in the server")
            await self._with_lines(self._catch_up())
        finally:
            self._is_calling = False
        if any(call["method"] == "reopened" for call in result["calls"]):
            self._shown_session = self.status.session
        self._report_session(self.status.session)
        return result

    async def _repeat(self, result: JsonObject) -> None:
        """Do at this terminal what a command of the server did; raise its error."""
        for call in result["calls"]:
            method, params = call["method"], call["params"]
            if method in CALLS:
                getattr(self, method)(**params)
            elif method == "save":
                await self._save_here(**params)
            elif method == "choose":
                await self._repeat(await self._choose_here(**params))
            elif method == "reopened":
                self._leave_unsent(copied=params.get("copied", True))
                self.repl.renderer.forget()
                self.earlier_answer = ""
                if params["shows"]:
                    await self._with_lines(self.show_conversation())
        if error := result["error"]:
            raise NexusError.of(error)

    def _leave_unsent(self, *, copied: bool) -> None:
        """Leave attachments to the session before, and messages too unless the session is a copy of it."""
        queue = self.repl.input_queue
        if not copied:
            self.repl.show_unsent((brief(message.text) for message in queue.list_own()), stored=False)
            queue.drop_own()
        self._leave_attached()

    def _leave_attached(self) -> None:
        """Leave attachments to the session before, and say so."""
        attached = self.repl.input_queue.attached
        for attachment in attached:
            is_kept = self.keeps(attachment.text)
            self.repl.show_unsent([attachment.what], stored=is_kept, session=" the previous session" * is_kept)
        attached.clear()
        self._stored_texts.clear()
        self._departures += 1

    async def _choose_here(self, id: str, title: str, choices: Sequence[Mapping[str, str]]) -> JsonObject:
        """Let the person choose what a command of the server asks for; return how the command ends."""
        try:
            key = await self.choose(title, [Choice(**choice) for choice in choices])
        except asyncio.CancelledError:
            self._begin(self._client.choose(self.agent_id, id))
            raise
        return await self._finish(self._client.choose(self.agent_id, id, key))

    async def _save_here(self, name: str, default: str, text: str) -> None:
        """Write a file of the server here: only that of a name which the person typed, or in a folder of that name."""
        if not self._typed.endswith(name):
            raise NexusError("refused", name, "the server returned a different file name", "No file was written")
        await self.save(name, Path(default).name, (text,))

    async def run_shell(self, line: ShellLine) -> None:
        result = await self._call("!!" if line.private else "!", line.command)
        try:
            await self._repeat(result)
        except NexusError as error:
            if error.kind != "denied":  # the events have shown the refusal
                raise

    async def set_level(self, level: str) -> None:
        await self._call("permissions", level)

    async def show_conversation(self) -> None:
        """Show the last turns, as a resumed session does."""
        conversation = await self._client.get_conversation(self.agent_id, TURNS)
        self._next_event = max(self._next_event, conversation.get("next", 0))  # an older server has none
        turns = [[event for line in turn if (event := _event_of(line)) is not None] for turn in conversation["turns"]]
        end = {**conversation["end"], "open": [] if self._in_turn else conversation["end"]["open"]}
        self.earlier_answer = end["assistant"]
        self.repl.show_turns(end, turns, "This turn is running." if self._in_turn else "")
        self._attach_waiting(conversation)

    async def _load_attached(self) -> None:
        """Attach the texts that wait in the session; read them again if some have left meanwhile."""
        departures = -1
        while departures != self._departures:
            departures = self._departures
            conversation = await self._client.get_conversation(self.agent_id, 1)
        self._attach_waiting(conversation)

    def _attach_waiting(self, conversation: ConversationObject) -> None:
        """Attach the texts that wait in the session: this client or another one attached them."""
        known = {*self._stored_texts, *(attachment.text for attachment in self.repl.input_queue.attached)}
        for text in conversation.get("attached", ()):  # an older server names none
            if text["block"] not in known:
                self._stored_texts.append(text["block"])
                super().attach(**text)

    def _drop_sent(self, message: str) -> None:
        """Detach what a message of any client has taken along."""
        self._departures += 1
        queue = self.repl.input_queue
        queue.attached = [attachment for attachment in queue.attached if attachment.text not in message]
        self._stored_texts = deque((text for text in self._stored_texts if text not in message), MAX_ATTACHED)

    # Events

    async def read_events(self) -> None:
        """Show the agent's events; reopen a lost connection, and end the REPL where that fails."""
        is_restarted = False
        while True:
            is_first = self._is_older and not (self._connected.is_set() and self._next_event)
            after = None if is_first else self._next_event - 1
            try:
                note = partial(self._note_connection, is_first=is_first)
                async for line in self._client.events(self.agent_id, after, note, questions=True):
                    await self._take(line)
                why = "the server closed the connection"
            except CallError as error:
                is_restarted = error.code == HTTPStatus.UNAUTHORIZED  # each server has its own token
                self._failed, why = TRIES, "the server was restarted" if is_restarted else str(error)
            except ConnectionError as error:
                why = str(error)
            self._failed += 1
            if self._failed > TRIES:
                session, lost = self.status.session, "perhaps not sent"
                way = (
                    f"If the server still runs, reconnect with: {self._reconnect} -r {self.agent_id}. "
                    f"After the server has exited, resume the session there: nexus --resume {session}"
                )
                if is_restarted:
                    is_kept = self._in_turn or self.status.keeps_attached  # a session without messages is gone
                    resumes = f" -r {session}" if is_kept else ""
                    way, lost = f"Reconnect with: {self._reconnect}{resumes}", "not sent"
                self.repl.renderer.close_text()
                error_text = f"nexus: disconnected from {self.agent_id} at {self._url}: {why}"
                self.repl.show_note(f"{error_text}. {way}", "error")
                for text in self._steered:
                    self.repl.show_note(f"{lost}: {brief(text)}", "warn")
                self.status_code = 1
                self.repl.request_exit()
                return
            if self._failed == 1:
                self.repl.show_note(f"{why}; reconnecting to {self._url}", "warn")
                self.repl.renderer.show_connection(is_lost=True)
                self.repl.view.invalidate()
            await asyncio.sleep(WAIT_SECONDS * self._failed)

    def _note_connection(self, *, is_first: bool) -> None:
        if self._failed:
            self._failed = 0
            self.repl.renderer.show_connection(is_lost=False)
        self._begin(self._synchronize(is_first=is_first))

    async def _synchronize(self, *, is_first: bool) -> None:
        """Read the agent's figures again. Events from before the connection follow, except at the first one to an older
        server."""
        for _ in range(TRIES):
            await self._read_figures()
            if self._next_event <= self.status.next:  # else the events are newer than this answer
                break
        if self._next_event <= self.status.next:
            self._in_turn = self.status.in_turn
            if is_first:
                self._next_event = self.status.next
        self._news.set()
        self._connected.set()
        self.watch()
        if not is_first:  # the answer to a command may be lost
            await self._load_attached()

    async def _take(self, line: JsonObject) -> None:
        """Show one object of the stream."""
        if line["type"] == "gap":
            missed = line["last"] - line["first"] + 1
            self.repl.show_note(f"{plural(missed, 'event was', 'events were')} missed", "warn")
        elif (event := _event_of(line)) is not None:
            if isinstance(event, e.TurnEnd):
                is_read = await self._refresh()  # else the figures are those of an earlier turn
                self.repl.renderer.counted = self.status.changes if is_read else ""
            self._show(event, line)
        self._next_event = max(self._next_event, line.get("seq", -1) + 1)
        self._news.set()
        self.repl.view.invalidate()

    def _show(self, event: e.Event, line: JsonObject) -> None:
        inner = e.without_worker(event)
        if isinstance(inner, e.ApprovalRequest | e.PersonAsked) and line["id"] in self._questions:
            return  # sent again to a client that connects again
        if isinstance(inner, e.ApprovalRequest):
            asker = event.agent if isinstance(event, e.AgentEvent) else ""
            question = replace(inner.question, agent=asker, stores=())  # no rule can be stored from here
            self._questions[line["id"]] = self._begin(self._ask(line["id"], question))
        elif isinstance(inner, e.PersonAsked):
            self._questions[inner.id] = self._begin(self._answer(inner))
        elif isinstance(inner, e.ApprovalAnswer | e.PersonAnswered):
            self._withdraw(line["id"])  # answered elsewhere, or done
        elif isinstance(inner, e.ToolResultEvent):  # a call that is stopped while it asks has no answer
            self._withdraw(e.question_id(inner.call.id, event.agent if isinstance(event, e.AgentEvent) else ""))
        elif isinstance(event, e.SessionStart) and event.session != self._shown_session:
            self._report_session(event.session)
            self.refresh()
        elif isinstance(event, e.SteeringMessage):
            self._drop_sent(event.text)
            if event.text in self._steered:
                self._steered.remove(event.text)
        elif isinstance(event, e.TurnEnd):
            self._in_turn = False
            self._ended_turns += 1
        elif isinstance(event, e.TurnStart):
            self._in_turn = True
            self._drop_sent(event.text)
            if not self._take_expected(event.text):
                if typed := split_attachments(event.text)[0]:
                    self.repl.renderer.show_user_message(typed)
                self.repl.renderer.feed(event)
                self.repl.hand_over.withdraw()
                self.watch()
                return
        if isinstance(inner, e.Notice) and inner.text.startswith(ACT):
            if self._is_calling and self._called == inner.text:
                self._called = ""
                return  # of this client
            self.refresh()
        if isinstance(inner, e.Notice) and inner.undo.startswith("/"):
            inner = e.Notice(f"{inner.text}{ALLOWED_UNTIL}", inner.warning)
            event = replace(event, event=inner) if isinstance(event, e.AgentEvent) else inner
        self.repl.feed(event)

    def _take_expected(self, text: str) -> bool:
        """Forget the text of this client that a turn begins with; False if there is none. Guides may follow it."""
        matches = [expected for expected in self._expected if text == expected or text.startswith(f"{expected}\n\n")]
        if matches:
            self._expected.remove(max(matches, key=len))
        return bool(matches)

    def _withdraw(self, key: str) -> None:
        """Stop asking a question, if it is open."""
        if (task := self._questions.pop(key, None)) is not None:
            task.cancel()

    async def _ask(self, key: str, question: Question) -> None:
        """Ask the person and send the answer."""
        answer = await self._approver.ask(question)
        decision = "no" if not isinstance(answer, Allow) else "session" if answer.always else "once"
        words = answer.why if isinstance(answer, Deny) and answer.said else ""
        await self._send_answer(lambda: self._client.approve(self.agent_id, key, decision, words or None))

    async def _answer(self, request: e.PersonAsked) -> None:
        """Put questions of the model to the person, and send the answers."""
        answers = await self._approver.put_questions(request.questions)
        await self._send_answer(lambda: self._client.answer(self.agent_id, request.id, answers))

    async def _send_answer(self, call: Callable[[], Awaitable[None]]) -> None:
        """Send an answer, unless the question has ended meanwhile, as by Ctrl+C: the events say how."""
        try:
            await self._deliver(call)
        except CallError as error:
            if error.code != REFUSED:
                raise

    async def _deliver(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call; if the connection is lost, again until it is back: a question is shown once, and no turn stops
        by itself."""
        while True:
            try:
                await call()
                return
            except ConnectionError:  # `read_events` reports it
                await asyncio.sleep(WAIT_SECONDS)

    def became_idle(self, ended: Job) -> None:
        self.read_own_commands()

    def _begin(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        task = self.repl.jobs.start_background(self._with_lines(work))
        task.add_done_callback(lambda _: work.close())  # a question may be answered before its task begins
        return task

    async def _with_lines(self, work: Awaitable[T], lost: str = "Try again") -> T:
        """Return the result of calls; raise the error of one as a `NexusError`, with the hint `lost` if the connection
        was lost."""
        try:
            return await work
        except CallError as error:
            raise _nexus_error(error) from error
        except ConnectionError as error:
            raise NexusError("network", self._url, str(error), lost) from error


def _nexus_error(error: CallError) -> NexusError:
    """Return the error that the server has described."""
    refused: ErrorObject = {"kind": "refused", "message": str(error), "hint": ""}
    return NexusError.of(error.data or refused)


def _event_of(line: JsonObject) -> e.Event | None:
    """Return the event of an object of the stream; None for any other, also from another version."""
    try:
        return read_event(line)
    except (KeyError, TypeError, ValueError):
        return None
