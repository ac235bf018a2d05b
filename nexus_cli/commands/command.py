"""A slash command, and the context that it runs in. Independent of the front end.

A command is made of the verbs of a noun (`nexus_cli.commands.slash_command`), of a guide of the person
(`nexus_cli.commands.own_guides`), or by a Python plugin. It shows reports, which are values, by the name of their text
form (`nexus_cli.commands.forms`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from nexus_cli.commands.verb import Authority, Verb
from nexus_cli.core.elide import clip_text
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.redact_secrets import redact

if TYPE_CHECKING:
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.event import Event
    from nexus_cli.session.options import Options
    from nexus_cli.session.session import Session

OWN = "own"
"""The group of commands that are guides of the person and the project."""
GROUPS = ("run", "context", "sessions", "setup", OWN)
"""Groups of commands, in the order of `/help`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One item to choose from."""

    key: str
    """The value that choosing it returns."""
    label: str
    detail: str = ""
    """Facts about it, shown in columns after the label."""


YES_OR_NO = (Choice("", "no"), Choice("yes", "yes"))
"""The choices of a question whose answer is yes or no; a terminal asks for a key."""

Search = Callable[[str], tuple[Sequence[Choice], int]]
"""Takes words; returns the first choices that contain all of them, and the total number of matches."""


class CommandContext(Protocol):
    """The session in which a command was typed, and the interface to the person."""

    @property
    def session(self) -> Session:
        """The open session; `reopen` replaces it."""

    @property
    def options(self) -> Options:
        """The options with which the session was opened; `resume` has its id."""

    @property
    def settings(self) -> Settings:
        """The current settings."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """Every command by name."""

    @property
    def last_answer(self) -> str:
        """The assistant's newest text as the model wrote it; "" before the first one."""

    def say(self, text: str) -> None:
        """Print one or a few lines."""

    def show(self, form: str, value: JsonObject) -> None:
        """Print a report by the name of its text form."""

    def feed(self, event: Event) -> None:
        """Print an event of the engine."""

    def note_act(self, line: str) -> None:
        """Tell others in front of the session that the command `line` has changed something."""

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        """Return the key of the choice that the person picks; None if they pick none.

        With `search`, `choices` are only the first ones, and the person's typing is searched for in all.
        """

    can_choose: bool
    """False if nobody can be asked to choose."""
    reported: JsonObject | None
    """The value of the newest report of a command; None before the first one."""

    async def ask_hidden(self, prompt: str) -> str | None:
        """Prompt with `prompt` for a line that is not echoed; None if the person cancels."""

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        """Open another session, or this one with another model or permission level, and print a line about it.

        Raises `NexusError` if that is impossible; the current session then stays open.
        """

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start a turn with `text` after the command, and await `after` when it has ended; without text resume the
        open turn.

        The text is ours, or the person has `typed` it in the command; it is not shown again.
        """

    async def busy(self, title: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` like a turn: `title` is shown, and Ctrl+C stops it through `Session.cancel`."""

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background, at most until the REPL ends."""

    def fill(self, text: str) -> None:
        """Replace the text in the input box."""

    def attach(self, block: str, what: str) -> None:
        """Attach `block` to the next message; `what` is shown to the person until then."""

    async def edit(self, text: str) -> str:
        """Return `text` as the person edited it. Raises `NexusError` if the editor fails."""

    async def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        """Write `pieces` to the person's file `name`, or to `default` in the folder of that name, and print where. An
        existing file stays: the new one gets a number. Return the path, "" if a client writes the file."""

    async def copy(self, text: str) -> str:
        """Copy `text` to the clipboard; return a line that describes how."""

    def leave(self) -> None:
        """End the REPL after the command."""


@dataclass(frozen=True)
class Command:
    """One slash command."""

    json_fields: ClassVar = "name usage summary help aliases idle"
    name: str
    group: str
    """One of `GROUPS`."""
    run: Callable[[CommandContext, str], Awaitable[None]]
    """Gets the rest of the line, stripped. Raises `NexusError` for errors that the person can fix."""
    usage: str = ""
    """The arguments in the form of `/help`: `[INSTRUCTIONS]`. Without it, the command takes none."""
    idle: bool = False
    """True if the command waits for the end of a running turn."""
    at_once: Callable[[str], bool] = lambda arguments: False
    """Returns True for arguments with which an `idle` command does not wait."""
    complete: Callable[[CommandContext], Sequence[str]] | None = None
    """Returns possible arguments for completion. Must be fast."""
    aliases: tuple[str, ...] = ()
    """Other names, which `/help` does not list; see `nexus_cli.commands.find`."""
    is_first: bool = False
    """True for a command that beginners need: `/help` lists only these, `/help all` lists all."""
    verbs: tuple[Verb, ...] = ()
    """The verbs of its noun; none of a guide or a plugin."""
    authority_of: Callable[[str], Authority] = lambda arguments: Authority.PERMITS
    """Returns its effect with these arguments: a client of a server may give it unless it permits."""

    async def invoke(self, context: CommandContext, arguments: str) -> None:
        """Run the command. Raises `UsageError` for arguments that it does not take."""
        if arguments and not self.usage:
            raise usage_error(self.name, arguments, "takes no arguments")
        await self.run(context, arguments)

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, then the aliases."""
        return (self.name, *self.aliases)

    @property
    def takes_message(self) -> bool:
        """True if its argument may be a message of several lines."""
        return any(parameter.option.is_message for verb in self.verbs for parameter in verb.parameters)

    @property
    def at_terminal(self) -> bool:
        """True if it needs no session: over --connect it runs in the client."""
        return any(verb.at_terminal for verb in self.verbs)

    @property
    def is_served(self) -> bool:
        """True if a client of a server may give the command, at least with some arguments."""
        return any(verb.is_served for verb in self.verbs)

    @property
    def summary(self) -> str:
        """The first line of the docstring of `run`."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    @property
    def help(self) -> str:
        """The docstring of `run`, without its indentation."""
        lines = (self.run.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


def usage_error(name: str, arguments: str, why: str, hint: str = "") -> NexusError:
    """Return the error for invalid arguments, with keys among them redacted."""
    subject = f"/{name} {clip_text(redact(arguments), 60)}".rstrip()
    return UsageError(subject, redact(why), hint or f"/help {name} for details")


async def run_act(context: CommandContext, title: str, act: Callable[[Session], Awaitable[None]]) -> None:
    """Run an act of the session like a turn, shown as `title`, and print its events."""

    async def work() -> None:
        async for event in context.session.act(act):
            context.feed(event)

    await context.busy(title, work())
