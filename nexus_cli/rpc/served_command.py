"""Run a slash command beside an agent's session, for a client: what it prints returns as calls for its terminal."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nexus_cli.commands import discover, find
from nexus_cli.commands.arguments import highest_level, refuse_above
from nexus_cli.commands.command import OWN, Choice, Command, CommandContext, Search, run_act
from nexus_cli.commands.verb import Authority
from nexus_cli.config.settings import Settings
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import Event, ToolResultEvent
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.limits import AUTO, EDIT
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.tool import Effect, find_governing
from nexus_cli.reports.last_exchange import describe_opened
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.tools.builtin.bash import MAX_SECONDS

if TYPE_CHECKING:
    from nexus_cli.core.server_results import TerminalCall

ELSEWHERE = "not available over --connect or in an editor"
NEEDED_LEVELS = {Authority.KEEPS: EDIT, Authority.OPERATES: AUTO}
"""The level of the server that a verb of each authority needs."""
ACT = "a client ran "
"""Beginning of the notice to all clients of a command that has changed something."""
MAX_SHOWN = 200
"""Most characters of a command that other clients are told of."""
CHOICE_SECONDS = 600.0
"""Seconds that a command waits for the choice of a client, which may have left."""


def describe_client_command(line: str) -> str:
    """Return the notice to all clients that the command `line` has changed something."""
    return f"{ACT}{one_line(redact(line))[:MAX_SHOWN]}"


def unsupported_for_client(
    subject: str, hint: str = "Use it in a terminal on the machine where the agent runs"
) -> NexusError:
    """Return the error for a command that a client of a server may not give."""
    return UsageError(subject, ELSEWHERE, hint)


class ServedContext:
    """Implements `CommandContext` for a client: its terminal is elsewhere, and settings and keys are the person's."""

    def __init__(
        self,
        session: Callable[[], Session],
        publish: Callable[[Event], None],
        reopen: Callable[[Options], Awaitable[None]],
        *,
        asks: bool = False,
    ) -> None:
        """`publish` sends an event to all clients; `reopen` opens the session of the options in place of this one. With
        `asks` the client is offered choices: the command waits for `answer` after a call `choose`."""
        self._session, self._publish, self._reopen = session, publish, reopen
        self.can_choose = asks
        self.reported: JsonObject | None = None
        self._calls: list[TerminalCall] = []
        """Actions for the client's terminal, in order."""
        self.holds_turns = False
        """True once the command runs if it may only run while no turn does."""
        self.choice_id = ""
        """The id of the open choice, "" for none."""
        self._choice: asyncio.Future[str | None]
        self.paused = asyncio.Event()
        """Set while a choice is open, and at the end."""
        self.act = ""
        """The notice of a command that has changed something and had no events, "" for any other."""
        self._has_events = False

    def take_calls(self) -> list[TerminalCall]:
        """Remove and return the actions for the client's terminal, in order; the start of a turn is the last one."""
        calls, self._calls = self._calls, []
        return sorted(calls, key=lambda call: call["method"] == "start")

    @property
    def session(self) -> Session:
        return self._session()

    @property
    def options(self) -> Options:
        return replace(self.session.options, resume=self.session.id, newest=False, served=True)

    @property
    def settings(self) -> Settings:
        return self.session.engine.settings

    @property
    def commands(self) -> Mapping[str, Command]:
        return discover()

    def say(self, text: str) -> None:
        self._call("say", text=text)

    def show(self, form: str, value: JsonObject) -> None:
        self._call("show", form=form, value=to_json_value(value))

    def feed(self, event: Event) -> None:
        self._has_events = True
        self._publish(event)

    def note_act(self, line: str) -> None:
        self.act = "" if self._has_events else describe_client_command(line)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        if not self.can_choose:
            raise unsupported_for_client("choosing from a list", "Specify an item after the command")
        self.choice_id, self._choice = secrets.token_hex(4), asyncio.get_running_loop().create_future()
        self._call("choose", id=self.choice_id, title=title, choices=to_json_value(choices))
        self.paused.set()
        try:
            return await asyncio.wait_for(self._choice, CHOICE_SECONDS)
        except TimeoutError:
            return None
        finally:
            self.choice_id = ""

    def answer(self, id: str, key: str | None) -> bool:
        """Answer the open choice, so that the command runs on; False if it has another id."""
        if self.choice_id != id or self._choice.done():
            return False
        self.choice_id = ""
        self.paused.clear()
        self._choice.set_result(key)
        return True

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        if settings is not None:
            raise unsupported_for_client("changing settings")
        before, resumed = self.session, bool(options.resume)
        copied = before.is_copied_to(options.resume)
        await self._reopen(options)
        if self.session.id != before.id:
            self._call("reopened", shows=resumed and not copied, copied=copied)
            if not resumed:
                self.say(describe_opened(self.session))

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        if after is not None:
            raise unsupported_for_client("changing the session for one turn")
        self._call("start", text=text, typed=typed)

    async def busy(self, title: str, work: Coroutine[Any, Any, Any]) -> None:
        await work

    def fill(self, text: str) -> None:
        self._call("fill", text=text)

    def attach(self, block: str, what: str) -> None:
        self._call("attach", block=block, what=what)
        with suppress(NexusError):  # the client has it; a ledger that fails says so by the next commit that matters
            self.session.attached_texts.add(block, what)

    async def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        self._call("save", name=name, default=default, text=await asyncio.to_thread("".join, pieces))
        return ""

    def __getattr__(self, name: str) -> Any:
        """Refuse what needs the person's terminal: no command that is served asks for it."""
        raise unsupported_for_client(name.replace("_", " "))

    def _call(self, method: Any, **params: Any) -> None:
        self._calls.append({"method": method, "params": params})


async def run_shell_line(context: CommandContext, line: str, *, private: bool = False) -> None:
    """Run a `!` line of a client as a command of the model runs: by the level and rules of the session, and clients are
    asked where those do not allow it. Attach its output to the next message unless it is `private`."""
    session, results = context.session, list[ToolResult]()
    if session.busy:  # queued behind that one, it could not be stopped without it
        raise UsageError("a ! line", "a command of another client is running", "Try again when it has ended")
    tool = find_governing(session.dispatcher.registry.tools(), Effect.RUN)
    if tool is None:
        raise UsageError("a ! line", "this session has no tool that runs commands")
    call = ToolCall(f"shell-{secrets.token_hex(6)}", tool.name, {"command": line, "timeout": MAX_SECONDS})

    async def act(session: Session) -> None:
        dispatcher = session.dispatcher
        if refusal := dispatcher.begin_own_call(session.engine, call, tool):
            raise UsageError("a ! line", refusal.why)
        results.append(await dispatcher.execute_own(call, tool, one_line(line)))

    try:
        await run_act(context, f"! {line}", act)
    except NexusError as error:
        if error.kind != "aborted":
            raise
        context.feed(ToolResultEvent(call, ToolResult(error="stopped"), 0, 0.0))
        hint = "Its output does not go to the model"
        raise NexusError("aborted", f"! {one_line(line)}", "stopped", hint) from error
    if not results[0].ran:
        raise NexusError("denied", f"! {one_line(line)}", results[0].error)
    if not private:
        context.attach(*await session.share_line(line, results[0].text, context.say))


SHELL_LINES = {
    name: Command(name, OWN, run, "COMMAND", idle=True, authority_of=lambda line: Authority.ACTS)
    for name, run in (("!", run_shell_line), ("!!", partial(run_shell_line, private=True)))
}
"""The commands that `run_command` runs for `!` lines."""


def find_served(name: str, arguments: str, context: ServedContext) -> Command:
    """Return a command that a client may give with these arguments; raise `UsageError` for any other."""
    if name in SHELL_LINES:
        return SHELL_LINES[name]
    command = find(name, context.commands)
    authority = command.authority_of(arguments) if command.is_served else Authority.PERMITS
    word = arguments.partition(" ")[0] if command.is_served else ""
    command_line = f"/{command.name} {word}".rstrip()
    if authority is Authority.PERMITS:
        is_option = command.is_served and command.authority_of(word) is not Authority.PERMITS
        raise unsupported_for_client(f"{command_line} with these options" if is_option else command_line)
    if authority in NEEDED_LEVELS:
        refuse_above(highest_level(context.session), NEEDED_LEVELS[authority], command_line)
    return command
