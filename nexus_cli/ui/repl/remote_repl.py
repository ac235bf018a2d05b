"""The REPL in front of an agent of `nexus serve`: conversation, steering, stop, questions, a few commands.

The agent's session runs elsewhere: commands that need it here print one line about that. Implements `ReplController`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from nexus_cli.client import CallError, Client
from nexus_cli.commands import parse
from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.permission.approvals import TAKEN_BACK
from nexus_cli.reports.forms import draw_report
from nexus_cli.rpc.client_approver import question_id
from nexus_cli.session.event_json import read_event
from nexus_cli.text.cells import cut, one_line
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.question_text import question_text
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.input_queue import brief
from nexus_cli.ui.repl.pager import show_in_pager
from nexus_cli.ui.repl.view import ReplView

TRIES = 5
"""Consecutive attempts to reopen a lost connection."""
WAIT_SECONDS = 1.0
"""Seconds before the first attempt; each further wait is longer by as much."""
COMMANDS: Mapping[str, str] = {
    "compact": "Summarize older messages; add what to keep.",
    "continue": "Resume a turn that was cut short.",
    "context": "Show the contents of the next request.",
    "cost": "Show the tokens and cost of the turns seen here.",
    "exit": "Leave; the agent stays.",
    "help": "List these commands.",
}
"""The supported commands with their line of help."""
ALLOWED_UNTIL = " \N{MIDDLE DOT} until the server ends this agent"
"""Appended to a permission granted for the session, because the command that revokes it is not supported here."""
ELSEWHERE = "is not supported over --connect"


class RemoteRepl:
    """One agent of a server, as a person sees it."""

    def __init__(
        self, client: Client, agent: Mapping[str, Any], url: str, view: ReplView, renderer: RichRenderer, theme: Theme
    ) -> None:
        """`agent` is the agent's row of `list_agents`."""
        self._client, self._url = client, url
        self.agent_id = str(agent["agent_id"])
        self._model, self._used = str(agent["model"]), int(agent["used"])
        self._in_turn = agent["state"] != "idle"
        self.view, self.renderer, self.theme = view, renderer, theme
        self.status_code = 0
        """The exit status."""
        self._approver = PersonApprover(
            view, lambda question, number: question_text(question, view.width, theme, number)
        )
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._unsent: list[str] = []
        """Messages that were sent and whose turn has not begun."""
        self._steering: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._failed = 0
        """Number of consecutive failures of the connection."""
        self._turns, self._input, self._output = 0, 0, 0
        self._cost: float | None = 0.0
        self._leaving = False

    # Content of the view

    @property
    def running(self) -> bool:
        """True if a turn runs or waits."""
        return self._in_turn or bool(self._unsent)

    @property
    def moving(self) -> bool:
        """True if the spinner moves."""
        return self.renderer.moving

    def live(self, rows: int) -> list[str]:
        """See `ReplController`."""
        return self.renderer.live(rows)

    def spinner(self) -> str:
        """See `ReplController`."""
        return self.renderer.spinner()

    def queued(self) -> list[str]:
        """See `ReplController`."""
        waiting = [f"sending after this step: {brief(text)}" for text in self._steering]
        return waiting + [f"queued: {brief(text)}" for text in (self._unsent if self._in_turn else ())]

    def status(self, width: int) -> str:
        """See `ReplController`."""
        dot = f" {self.theme.signs.dot} "
        text = dot.join((one_line(self._model), f"{self.agent_id} at {self._url}", f"{self._used:,} tokens"))
        return self.theme.paint("dim", cut(text, max(0, width - 1), self.theme.signs.cut))

    # Actions of the person

    def submit(self, typed: TypedMessage) -> None:
        """Enter: words for the agent, or one of `COMMANDS`."""
        command = parse(typed.text)
        if typed.text.strip().casefold() in ("exit", "quit"):
            command = ("exit", "")
        if command is not None:
            self._echo(typed.shown)
            self._command(*command)
        elif typed.text.startswith("!"):
            self._echo(typed.shown)
            self.show_note(f"a ! line {ELSEWHERE}", "warn")
        elif self._in_turn:
            self._steering.append(typed.text)
            self._begin(self._steer(typed.text))
        else:
            self.enqueue(typed)
        self.view.invalidate()

    def enqueue(self, typed: TypedMessage) -> None:
        """Alt+Enter: for afterwards; the server keeps the order."""
        self._unsent.append(typed.text)
        self._begin(self._send(typed.text))
        self.view.invalidate()

    def take_back(self) -> str:
        """Return nothing: sent messages are at the server."""
        return ""

    def detach(self) -> bool:
        """Return False: there are no attachments."""
        return False

    def edit_last(self) -> None:
        """Report that this is not supported here."""
        self.show_note(f"editing the last message {ELSEWHERE}")

    def interrupt(self, *, gently: bool = False) -> None:
        """Stop the turn."""
        if self.running:
            self._begin(self._client.cancel(self.agent_id))

    def request_exit(self) -> None:
        """Leave; the agent continues."""
        if not self._leaving:
            self._leaving = True
            self.view.leave()

    def cycle_level(self) -> None:
        """Report that this is not supported here."""
        self.show_note(f"changing the permission level {ELSEWHERE}: --allow sets it for a new agent")

    def toggle_thinking(self) -> None:
        """Show or hide thinking."""
        self.renderer.toggle_thinking()
        self.view.invalidate()

    def show_last_output(self) -> None:
        """Show the whole newest tool output."""
        if last := self.renderer.last_output:
            self._begin(show_in_pager(self.view, "\n".join(last)))

    # Effects

    def show_note(self, text: str, role: str = "dim") -> None:
        """Show a line to the person."""
        self.renderer.show_note(text, role)

    def _echo(self, text: str) -> None:
        if text and not self.view.echoes:
            self.renderer.show_user_message(text)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Show a failure as a line."""
        try:
            await work
        except (CallError, ConnectionError) as error:
            self.show_note(f"nexus: {one_line(str(error))}", "error")
        self.view.invalidate()

    async def _send(self, text: str) -> None:
        await self._connected.wait()
        try:
            await self._client.send(self.agent_id, text)
        except CallError as error:
            if error.code != -32004:  # the failed turn has shown its own end
                self.view.fill(text)
                raise
        except ConnectionError:
            if text in self._unsent:
                self.view.fill(text)
                raise  # the turn has begun, and `_read` reports the connection
        finally:
            if text in self._unsent:
                self._unsent.remove(text)

    async def _steer(self, text: str) -> None:
        try:
            await self._client.steer(self.agent_id, text)
        except CallError:
            self._steering.remove(text)
            self._unsent.append(text)  # the turn has ended
            await self._send(text)

    def _command(self, name: str, rest: str) -> None:
        match name.casefold():
            case "exit" | "quit":
                self.request_exit()
            case "compact":
                self._begin(self._compact(rest))
            case "continue":
                self._begin(self._send(""))
            case "context":
                self._begin(self._show_context())
            case "cost":
                cost = "unknown price" if self._cost is None else f"${self._cost:.4f}"
                self.show_note(f"{self._turns} turns seen here: {self._input:,} in, {self._output:,} out, {cost}")
            case "help":
                self.show_note("\n".join(f"/{name:8} {about}" for name, about in COMMANDS.items()))
            case other:
                self.show_note(f"/{one_line(other)} {ELSEWHERE}; /help lists the commands", "warn")

    async def _compact(self, instructions: str) -> None:
        await self._client.compact(self.agent_id, instructions or None)

    async def _show_context(self) -> None:
        value = await self._client.get_context(self.agent_id)
        self.view.put(f"\n{draw_report('context', value, self.view.width, self.theme.look)}\n")

    # Events from the server

    async def run(self) -> None:
        """Run until the person leaves or the terminal is gone."""
        reading = asyncio.create_task(self._read())
        try:
            await self.view.run(self)
        finally:
            for task in (reading, *self._tasks, *self._questions.values()):
                task.cancel()
            await asyncio.gather(reading, *self._tasks, *self._questions.values(), return_exceptions=True)

    async def _read(self) -> None:
        """Show the agent's events; reopen a lost connection."""
        after: int | None = None
        while True:
            try:
                async for line in self._client.events(self.agent_id, after, self._note_connection):
                    after = line.get("seq", after)
                    self._take(line)
                why = "the server has ended the connection"
            except CallError as error:
                self._failed, why = TRIES, str(error)
            except ConnectionError as error:
                why = one_line(str(error))
            self._failed += 1
            if self._failed > TRIES:
                self.show_note(f"nexus: {self.agent_id} has ended: {why}", "error")
                self.status_code = 1
                self.view.leave()
                return
            if self._failed == 1:
                self.show_note(f"connection lost ({why}); retrying", "warn")
                self.view.invalidate()
            await asyncio.sleep(WAIT_SECONDS * self._failed)

    def _note_connection(self) -> None:
        self._failed = 0
        self._connected.set()

    def _take(self, line: Mapping[str, Any]) -> None:
        """Show one object of the stream."""
        if line["type"] == "result":
            self._count(line)
        elif line["type"] == "gap":
            self.show_note(f"{line['last'] - line['first'] + 1} events were missed", "warn")
        else:
            try:
                event = read_event(line)
            except (KeyError, TypeError, ValueError):  # from another version
                event = None
            if event is not None:
                self._feed(event)
        self.view.invalidate()

    def _count(self, result: Mapping[str, Any]) -> None:
        usage = result["usage"]
        self._turns += 1
        self._input += usage["input"]
        self._output += usage["output"]
        cost = usage["cost_usd"]
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        self._used = (result["context"] or {}).get("used", self._used)

    def _feed(self, event: e.Event) -> None:
        inner, agent = (event.event, event.agent) if isinstance(event, e.AgentEvent) else (event, "")
        if isinstance(inner, e.ApprovalRequest):
            key = question_id(inner.question.call.id, agent)
            self._questions[key] = asyncio.create_task(self._ask(key, inner.question))
        elif isinstance(inner, e.ApprovalAnswer):
            task = self._questions.pop(question_id(inner.call_id, agent), None)
            if task is not None:
                task.cancel()  # answered elsewhere, or done
        elif isinstance(event, e.TurnStart):
            self._in_turn = True
            if event.text in self._unsent:
                self._unsent.remove(event.text)
            self._echo(event.text)
        elif isinstance(event, e.SteeringMessage) and event.text in self._steering:
            self._steering.remove(event.text)
        elif isinstance(event, e.TurnEnd):
            self._in_turn = False
            self._steering.clear()
        if isinstance(event, e.Notice) and TAKEN_BACK in event.text:
            event = replace(event, text=f"{event.text.partition(TAKEN_BACK)[0]}{ALLOWED_UNTIL}")
        self.renderer.feed(event)
        if isinstance(event, e.TurnEnd) and event.outcome.was_declined:
            self.show_note("Stopped. Type what to do instead, or /continue without it.")
        elif isinstance(event, e.TurnEnd) and event.outcome.error:
            self._show_failure(event.outcome.error)

    def _show_failure(self, error: Mapping[str, str]) -> None:
        """Show the reason that a turn ended early."""
        if error["kind"] == "aborted":
            self.show_note("Interrupted. Completed steps are kept; /continue resumes.")
        else:
            role = "dim" if error["kind"] == "waiting" else "error"
            self.show_note(f"nexus: {error['message']}. {error['hint']}", role)

    async def _ask(self, key: str, question: Question) -> None:
        """Ask the person and send the answer. No rule can be stored from here."""
        answer = await self._approver.ask(replace(question, stores=()))
        given = "no" if not isinstance(answer, Allow) else "session" if answer.always else "once"
        words = answer.why if isinstance(answer, Deny) and answer.said else ""
        await self._guard(self._client.approve(self.agent_id, key, given, words or None))
