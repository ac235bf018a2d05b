"""An agent of `nexus serve` behind the REPL: its turns and commands run in the server, its events arrive as a stream.

Other clients may begin turns of the same agent. A lost connection is opened again; missed events are sent again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nexus_cli.client import CallError, Client
from nexus_cli.commands import discover
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import EXIT_STATUS, NexusError
from nexus_cli.core.limits import PLAN
from nexus_cli.core.read_event import read_event
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.permission.approvals import TAKEN_BACK
from nexus_cli.rpc.jsonrpc import TURN_FAILED
from nexus_cli.rpc.served_command import refuse_elsewhere
from nexus_cli.session.session import CYCLE
from nexus_cli.text.cells import cut, one_line
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.repl.command_context import TerminalContext
from nexus_cli.ui.repl.input_queue import brief
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.last_turns import CUT_SHORT
from nexus_cli.ui.repl.repl_backend import ReplBackend
from nexus_cli.ui.repl.shell_line import ShellLine

if TYPE_CHECKING:
    from nexus_cli.core.json_types.server_results import ListedAgent
    from nexus_cli.ui.repl.repl import Repl

TRIES = 5
"""Consecutive attempts to reopen a lost connection."""
WAIT_SECONDS = 1.0
"""Seconds before the first attempt; each further wait is longer by as much."""
TURNS = 20
"""Most turns that are shown on return."""
AT_WORK = ("running", "asking")
"""States of an agent in which a turn runs."""
CALLS = ("say", "show", "fill", "attach", "start")
"""Actions at this terminal that a command of the server may request."""
ALLOWED_UNTIL = " \N{MIDDLE DOT} until the server ends this agent"
"""Appended to a permission granted for the session, because the command that revokes it is the person's alone."""


REMOTE_KEYS = {
    "Esc": "stops what runs",
    "Tab": "completes /commands and @files",
    "!COMMAND": "",
}
"""Keys of `/help` and `?` with their meaning here; "" for one that does not work."""
NO_LIST = "Over --connect there is no list to choose from: name one behind the command."
PLAN_IS_OPEN = "To go on with this plan: /plan turns plan mode off; then tell the agent to proceed."


def served_commands() -> dict[str, Command]:
    """Return the commands that work in front of an agent of a server."""
    return {name: one for name, one in discover().items() if one.at_terminal or one.is_served}


class RemoteDesk(TerminalContext):
    """The terminal of a command in front of an agent of a server."""

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        super().show(form, _help_here(value) if form == "help" else value)


class RemoteAgent(ReplBackend):
    """One agent of a server, as one of its clients sees it."""

    ends_with_repl = False
    last_answer = ""

    def __init__(self, client: Client, agent: ListedAgent, url: str, folder: Path, approver: PersonApprover) -> None:
        """`folder` of this machine has the files that a message mentions."""
        self._client, self._agent, self._url, self._folder = client, agent, url, folder
        self.agent_id = agent["agent_id"]
        self.desk: TerminalContext
        """The part of a `CommandContext` that is here; set once after construction."""
        self.status_code = 0
        """The exit status."""
        self._approver = approver
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._expected: list[str] = []
        """Texts of this client whose turn has not begun."""
        self._in_turn = agent["state"] in AT_WORK
        self._steered: list[str] = []
        self._steering = asyncio.Lock()
        self._seen = agent["next"]
        """The number of the next event."""
        self._is_calling = False
        """True while the server runs a command of this client."""
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
    def name(self) -> str:
        return self.agent_id

    @property
    def session_id(self) -> str:
        """The session of the agent, in the ledger of the server's machine."""
        return self._agent["session"]

    @property
    def commands(self) -> Mapping[str, Command]:
        return served_commands()

    @property
    def undelivered(self) -> Sequence[str]:
        return self._steered

    # Turns

    async def run(self, trigger: Trigger) -> None:
        self._expected.append(trigger.text)
        images = [base64.b64encode(part.data).decode() for part in trigger.parts]
        try:
            await self._connected.wait()
            try:
                await self._client.send(self.agent_id, trigger.text, images or None)
            except CallError as error:
                if error.code != TURN_FAILED:  # the failed turn has shown its own end
                    raise _error_of(error) from error
            await self._catch_up()
        except ConnectionError as error:
            if trigger.text in self._expected:
                raise NexusError("network", self._url, str(error), "It was not sent") from error
            await self._follow()  # it has begun, and `read_events` reports the connection
        finally:
            if trigger.text in self._expected:
                self._expected.remove(trigger.text)
            if not trigger.text:  # it took them, or they are lost
                self._steered.clear()

    async def _follow(self) -> None:
        """Wait until no turn runs."""
        while self._in_turn:
            self._news.clear()
            await self._news.wait()

    async def _show_turn(self) -> None:
        """Wait until the turn of another client has ended."""
        await self._follow()
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Read the agent's figures, and wait for the events until now."""
        await self._read_figures()
        while self._seen < self._agent["next"]:
            self._news.clear()
            await self._news.wait()
        self.repl.view.invalidate()

    async def _read_figures(self) -> None:
        rows = {row["agent_id"]: row for row in await self._client.list_agents()}
        self._agent = rows.get(self.agent_id, self._agent)

    async def steer(self, trigger: Trigger) -> bool:
        self._steered.append(trigger.text)
        try:
            async with self._steering:
                await self._client.steer(self.agent_id, trigger.text)
        except (CallError, ConnectionError):
            if trigger.text in self._steered:  # else it was taken back meanwhile
                self._steered.remove(trigger.text)
                return False
        return True

    def cancel(self) -> bool:
        if not (self._in_turn or self._expected or self._is_calling):
            return False
        self._begin(self._client.cancel(self.agent_id))
        return True

    def take_back(self) -> list[str]:
        return []  # they are at the server, as is the newest one

    def take_newest(self) -> str:
        if not self._steered:
            return ""
        text = self._steered.pop()
        self._begin(self._unqueue(text))
        return text

    async def _unqueue(self, text: str) -> None:
        """Take a text back from the server; say so if the turn has used it."""
        async with self._steering:  # behind the call that sent it
            taken = await self._client.unqueue(self.agent_id, text)
        if not taken["texts"]:
            self.repl.show_note(f"already sent: {brief(text)}", "warn")

    def can_continue(self, outcome: e.Outcome) -> bool:
        return False  # it is not known here

    def watch(self) -> None:
        """Show the turn of another client as running work."""
        if self._in_turn and self.repl.jobs.current is None:
            self.repl.jobs.start("turn", "", self._with_lines(self._show_turn()))

    # What the person does

    async def run_command(self, command: Command, rest: str) -> None:
        if command.at_terminal:
            await command.invoke(cast("CommandContext", self.desk), rest)
        elif not command.is_served:
            raise refuse_elsewhere(f"/{command.name}")
        else:
            await self._repeat(await self._call(command.name, rest))

    async def _call(self, name: str, rest: str) -> Mapping[str, Any]:
        """Run a command in the server; its events are shown when this returns."""
        self._is_calling = True
        try:
            result = await self._client.run_command(self.agent_id, name, rest or None)
            await self._catch_up()
        except CallError as error:
            raise _error_of(error) from error
        except ConnectionError as error:
            raise NexusError("network", self._url, str(error), "Try again") from error
        finally:
            self._is_calling = False
        return result

    async def _repeat(self, result: Mapping[str, Any]) -> None:
        """Do at this terminal what a command of the server did; raise its error."""
        for call in result["calls"]:
            if call["method"] in CALLS:
                getattr(self.desk, call["method"])(**call["params"])
        if (error := result["error"]) is not None:
            raise _nexus_error(error)

    async def run_shell(self, line: ShellLine) -> None:
        raise refuse_elsewhere("a ! line", "The agent runs commands: ask it")

    def cycle_level(self) -> None:
        self.repl.jobs.start_background(self._cycle_level())

    async def _cycle_level(self) -> None:
        """Set the next level that the server allows."""
        now = self._agent["level"]
        first = CYCLE.index(now) + 1 if now in CYCLE else 0
        for level in (*CYCLE[first:], *CYCLE[:first]):
            await self._call("permissions", level)
            if self._agent["level"] == level:
                return

    async def transcript(self, value: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        if value is None:
            result = await self._call("transcript", "")
            if result["error"]:
                raise _nexus_error(result["error"])
            value = cast("Mapping[str, Any]", result["calls"][0]["params"]["value"])
        return {**value, "shell": []}

    async def show_conversation(self) -> None:
        """Show the last turns, as a resumed session does."""
        shown = await self._client.get_conversation(self.agent_id, TURNS)
        turns = [[event for line in turn if (event := _event_of(line)) is not None] for turn in shown["turns"]]
        end = {**shown["end"], "open": [] if self._in_turn else shown["end"]["open"]}
        self.last_answer = end["assistant"]
        self.repl.show_turns(end, turns)
        if self._in_turn:
            self.repl.show_note("This turn is running.")
        elif not end["finished"]:
            self.repl.show_note(CUT_SHORT, "warn")

    def status_line(self, width: int) -> str:
        theme, agent = self.repl.theme, self._agent
        used = f"{agent['used']:,} tokens"
        parts = (one_line(agent["model"]), agent["level"], used, f"{self.agent_id} at {self._url}")
        return theme.paint("dim", cut(f" {theme.signs.dot} ".join(parts), max(0, width - 1), theme.signs.cut))

    def became_idle(self, ended: Job) -> None:
        """Show the command that goes on with a plan: the question about it is asked only where the session is."""
        outcome = self.repl.outcome
        answered = ended.kind == "turn" and outcome is not None and outcome.ok and outcome.text.strip()
        if answered and self._agent["level"] == PLAN:
            self.repl.show_note(PLAN_IS_OPEN)

    # Events

    async def read_events(self) -> None:
        """Show the agent's events; reopen a lost connection, and end the REPL where that fails."""
        after: int | None = None
        while True:
            try:
                async for line in self._client.events(self.agent_id, after, self._note_connection):
                    after = after if line["type"] == "cut" else line["seq"]
                    self._take(line)
                why = "the server has ended the connection"
            except CallError as error:
                self._failed, why = TRIES, str(error)
            except ConnectionError as error:
                why = str(error)
            self._failed += 1
            if self._failed > TRIES:
                kept = f"nexus --resume {self.session_id} continues its session on the machine of the server"
                self.repl.show_note(f"nexus: {self.agent_id} at {self._url} has ended: {why}. {kept}.", "error")
                self.status_code = 1
                self.repl.request_exit()
                return
            if self._failed == 1:
                self.repl.show_note(f"connection lost ({self._url}: {why}); retrying", "warn")
                self.repl.renderer.show_connection(is_lost=True)
                self.repl.view.invalidate()
            await asyncio.sleep(WAIT_SECONDS * self._failed)

    def _note_connection(self) -> None:
        if self._failed:
            self._failed = 0
            self.repl.renderer.show_connection(is_lost=False)
        self._begin(self._synchronize())

    async def _synchronize(self) -> None:
        """Read the agent's figures again: what happened before the connection is no event of this stream.

        An agent is at work until a moment after the last event of a turn, so of one whose events were all seen only
        that it is idle is news.
        """
        await self._read_figures()
        at_work = self._agent["state"] in AT_WORK
        if self._seen < self._agent["next"]:
            self._seen, self._in_turn = self._agent["next"], at_work
        elif not at_work:
            self._in_turn = False
        self._news.set()
        self._connected.set()
        self.watch()

    def _take(self, line: Mapping[str, Any]) -> None:
        """Show one object of the stream."""
        if line["type"] == "gap":
            missed = line["last"] - line["first"] + 1
            self.repl.show_note(f"{'1 event was' if missed == 1 else f'{missed} events were'} missed", "warn")
        elif line["type"] == "result":  # of a turn whose end came before this connection
            self._in_turn = False
        elif (event := _event_of(line)) is not None:
            self._show(event)
        self._seen = max(self._seen, line.get("seq", -1) + 1)
        self._news.set()
        self.repl.view.invalidate()

    def _show(self, event: e.Event) -> None:
        inner, agent = (event.event, event.agent) if isinstance(event, e.AgentEvent) else (event, "")
        if isinstance(inner, e.ApprovalRequest):
            key = inner.line_keys(agent)["id"]
            self._questions[key] = self._begin(self._ask(key, inner.question))
        elif isinstance(inner, e.ApprovalAnswer):
            task = self._questions.pop(inner.line_keys(agent)["id"], None)
            if task is not None:
                task.cancel()  # answered elsewhere, or done
        elif isinstance(event, e.SteeringMessage) and event.text in self._steered:
            self._steered.remove(event.text)
        elif isinstance(event, e.TurnStart | e.TurnEnd):
            self._in_turn = isinstance(event, e.TurnStart)
        if isinstance(event, e.Notice) and TAKEN_BACK in event.text:
            event = replace(event, text=f"{event.text.partition(TAKEN_BACK)[0]}{ALLOWED_UNTIL}")
        if isinstance(event, e.TurnStart) and event.text not in self._expected:
            if typed := split_attachments(event.text)[0]:
                self.repl.renderer.show_user_message(typed)
            self.repl.renderer.feed(event)
            self.watch()
            return
        if isinstance(event, e.TurnStart):
            self._expected.remove(event.text)
        self.repl.feed(event)

    async def _ask(self, key: str, question: Question) -> None:
        """Ask the person and send the answer. No rule can be stored from here."""
        answer = await self._approver.ask(replace(question, stores=()))
        given = "no" if not isinstance(answer, Allow) else "session" if answer.always else "once"
        words = answer.why if isinstance(answer, Deny) and answer.said else ""
        await self._client.approve(self.agent_id, key, given, words or None)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.repl.jobs.start_background(self._with_lines(work))

    async def _with_lines(self, work: Coroutine[Any, Any, None]) -> None:
        """Raise the `NexusError` of a failed call."""
        try:
            await work
        except CallError as error:
            raise _error_of(error) from error
        except ConnectionError as error:
            raise NexusError("network", self._url, str(error)) from error


def _help_here(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the report of `/help` without what does not work over --connect."""
    if command := value.get("command"):
        return {**value, "command": _command_here(command)}
    groups = [{**group, "commands": list(map(_command_here, group["commands"]))} for group in value["groups"]]
    return {**value, "groups": groups, "keys": keys_here(value.get("keys", ()))}


def keys_here(keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the keys that work over --connect, each with what it does there."""
    found = [(names, REMOTE_KEYS.get(names, what)) for names, what in keys]
    return [row for row in found if row[1]]


def _command_here(command: Mapping[str, Any]) -> Mapping[str, Any]:
    if command["name"] not in ("model", "effort"):
        return command
    summary = command["summary"].partition(",")[0].rstrip(".") + "."
    return {
        **command,
        "usage": command["usage"].strip("[]"),
        "summary": summary,
        "help": f"{command['help']}\n\n{NO_LIST}",
    }


def _error_of(error: CallError) -> NexusError:
    return _nexus_error(error.data if isinstance(error.data, dict) else {"kind": "refused", "message": str(error)})


def _nexus_error(value: Mapping[str, str]) -> NexusError:
    """Return the error that the server has described."""
    what, colon, why = value["message"].partition(": ")
    kind = value["kind"] if value["kind"] in EXIT_STATUS else "refused"
    return NexusError(kind, what if colon else "the server", why if colon else what, value.get("hint", ""))


def _event_of(line: Mapping[str, Any]) -> e.Event | None:
    """Return the event of an object of the stream; None for any other, also from another version."""
    try:
        return read_event(line)
    except (KeyError, TypeError, ValueError):
        return None
