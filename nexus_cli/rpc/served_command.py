"""Run a slash command beside an agent's session, for a client: what it prints returns as calls for its terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nexus_cli.commands import discover, find
from nexus_cli.commands.command import Choice, Command, Search
from nexus_cli.commands.verb import Authority
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event
from nexus_cli.reports.sessions import last_exchange
from nexus_cli.session.event_json import to_json_value
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

if TYPE_CHECKING:
    from nexus_cli.core.json_types.server_results import TerminalCall

ELSEWHERE = "it does not work over --connect"


def refuse_elsewhere(what: str, hint: str = "Use it in nexus on the machine of the server") -> NexusError:
    """Return the error for a command that a client of a server may not give."""
    return NexusError("usage", what, ELSEWHERE, hint)


class ServedContext:
    """Implements `CommandContext` for a client: its terminal is elsewhere, and its session stays the same one."""

    def __init__(
        self, session: Callable[[], Session], publish: Callable[[Event], None], reopen: Callable[[Options], None]
    ) -> None:
        """`publish` sends an event to all clients; `reopen` opens the same session again with other options."""
        self._session, self._publish, self._reopen = session, publish, reopen
        self.calls: list[TerminalCall] = []
        """Actions for the client's terminal, in order."""

    @property
    def session(self) -> Session:
        return self._session()

    @property
    def options(self) -> Options:
        options = self.session.state.options
        assert options is not None, "the pool opens sessions with options"
        return replace(options, resume=self.session.id, newest=False)

    @property
    def settings(self) -> Settings:
        return self.session.engine.settings

    @property
    def commands(self) -> Mapping[str, Command]:
        return discover()

    @property
    def last_answer(self) -> str:
        return str(last_exchange(self.session).get("assistant") or "")

    def say(self, text: str) -> None:
        self._call("say", text=text)

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        self._call("show", form=form, value=to_json_value(value))

    def feed(self, event: Event) -> None:
        self._publish(event)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        raise refuse_elsewhere("choosing from a list", "Name one behind the command")

    async def ask_hidden(self, prompt: str) -> str | None:
        raise refuse_elsewhere("a hidden line")

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        if options.resume != self.session.id or settings is not None:
            raise refuse_elsewhere("another session")
        self._reopen(options)

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        if after is not None:
            raise refuse_elsewhere("a change of the session for one turn")
        self._call("start", text=text, typed=typed)

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        await work

    def work_beside(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise refuse_elsewhere("work beside the session")

    def fill(self, text: str) -> None:
        self._call("fill", text=text)

    def attach(self, block: str, what: str) -> None:
        self._call("attach", block=block, what=what)

    async def edit(self, text: str) -> str:
        raise refuse_elsewhere("an editor")

    async def copy(self, text: str) -> str:
        raise refuse_elsewhere("the clipboard")

    def leave(self) -> None:
        raise refuse_elsewhere("leaving")

    def _call(self, method: Any, **params: Any) -> None:
        self.calls.append({"method": method, "params": params})


def find_served(name: str, rest: str, context: ServedContext) -> Command:
    """Return a command that a client may give with these arguments; raise `NexusError("usage", ...)` for any other."""
    command = find(name, context.commands)
    if not command.is_served or command.authority_of(context, rest) is Authority.PERMITS:
        word = rest.partition(" ")[0] if command.is_served else ""
        raise refuse_elsewhere(f"/{command.name} {word}".rstrip())
    return command
