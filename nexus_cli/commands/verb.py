"""A noun of nexus and its verbs: each is declared once, as a function.

The shell command (`nexus_cli.cli.shell_command`), the slash command (`nexus_cli.commands.slash_command`), help,
completion, and what a client of a server may do follow from the declaration. The parameters of the function behind the
first one are the arguments and options (`Annotated` with an `Argument` or `Option`), its docstring is the help, its
return annotation `Report[T]` names the type of the JSON value.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from inspect import getdoc, iscoroutinefunction
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from nexus_cli.config.paths import working_folder
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.option import VerbParameter, read_parameters
from nexus_cli.core.shared_types import T, TakeText

if TYPE_CHECKING:
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.approval import Approver
    from nexus_cli.core.run import Run
    from nexus_cli.ledger import Ledger
    from nexus_cli.session.session import Session

V = TypeVar("V", bound=JsonObject, covariant=True)
Place = Literal["shell", "slash"]
Mode = Literal["nothing", "read", "write", "create"]
"""How a shell command opens the ledger."""


class ActReport(VersionedReport):
    """The object of a command that changes something."""

    ids: list[str]
    """The ids, names or paths of what it changed; empty if it changed nothing."""
    message: str
    """What it did, as a sentence for people; may be empty."""


class TextReport(VersionedReport):
    """The object of a command that prints a text."""

    name: str
    """The source of the text: an id, a name or a path."""
    text: str


class Authority(StrEnum):
    """The effect of a verb, and so who may give it."""

    READS = "reads"
    """Changes nothing."""
    ACTS = "acts"
    """Changes its own session. A client of a server may give it."""
    KEEPS = "keeps"
    """Changes what outlives the session: facts, names, forks, messages, runs that stop, worktrees. A client of a server
    may give it where the server's level is `edit` or higher."""
    OPERATES = "operates"
    """Starts, stops or deletes what is beside the session: servers, runs, schedules, other sessions. A client of a
    server may give it where the server's level is `auto` or higher."""
    PERMITS = "permits"
    """Changes what is permitted (trust, rules, keys, plugins, servers, settings, shared ledgers). For the person at a
    terminal of this machine alone: no client may give it, nor a command or hook of a session."""


class Source:
    """The subject of a verb, and its place: here the ledger and the folder of this process, with nobody to ask. What a
    place cannot do is a `UsageError`."""

    live: Session | None = None
    """The open session; None elsewhere."""
    session_name = ""
    """The session as the person named it."""
    is_json = False
    """True if the value is printed as JSON."""
    is_served = False
    """True if a client of a server or an editor gave it: nobody can be asked about a run, and none runs beside."""
    is_piped = False
    """True if a program reads what a shell command prints."""
    confirm: Callable[[str], bool] | None = None
    """Asks the person a question that is answered with yes or no; None if nobody can be asked."""
    ask_hidden: Callable[[str, str], str] | None = None
    """Shows the person a text, "" for none, then asks for a line that is not shown and that the second text names;
    returns "" for none. None if a program pipes it."""

    def __init__(self, opened: Callable[[], Ledger]) -> None:
        """`opened` opens the ledger."""
        self._opened = opened

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, which is opened where a verb needs it."""
        return self._opened()

    def folder(self) -> Path:
        """Return the working folder."""
        return working_folder()

    def settings(self) -> Settings:
        """Return the settings in force there."""
        from nexus_cli.config.project_settings import settings_in  # noqa: PLC0415  (few verbs ask for them)

        return settings_in(self.folder())

    @property
    def project(self) -> str:
        """The project as the ledger knows it; for a worktree, its source project."""
        return self.ledger.project_of(self.folder())

    def session(self) -> str:
        """Return the id of the session; "" for a command without one."""
        return ""

    def find(self, key: str) -> str:
        """Return the id of the session that a person names; of "" the open one, or the newest of the folder."""
        return self.ledger.find_session(key).id if key else self.session()

    def require_level(self, level: str, subject: str) -> None:
        """Raise `NexusError("denied", ...)` if `subject` is to work at a level above that of the server."""

    def say(self, line: str) -> None:
        """Print a sentence beside the report. Its first word is in lower case and no name."""

    def show(self, report: Report[Any]) -> None:
        """Show a report before a question, or before another report."""

    def approver(self) -> Approver | None:
        """Return the approver that asks the person; None if nobody can be asked."""
        return None

    def choose(self, title: str, rows: Sequence[tuple[str, str, str]]) -> str:
        """Let the person of an open session pick one of several, each a key, a label and a detail; return its key, ""
        for none."""
        raise _unsupported_here("choosing from a list")

    def read_stdin(self) -> str:
        """Return the text that a program pipes into a shell command."""
        raise _unsupported_here("reading stdin")

    def read_raw(self, least: int) -> bytes:
        """Return the bytes of stdin, up to its end, or at least so many of them."""
        raise _unsupported_here("reading stdin")

    def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        """Write a text to a new file of the person: of this name, or of the second one in the folder of this name.
        Return the path; "" if a client writes the file."""
        raise _unsupported_here("writing a file")

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end and return its result, in the event loop of the open session if there is one."""
        import asyncio  # noqa: PLC0415  (slow, and few verbs wait)

        return asyncio.run(work)

    def run_in_background(self, work: Callable[[TakeText], Coroutine[Any, Any, None]]) -> None:
        """Run work beside everything else in the open session; the work is given a function that prints a line."""
        raise _unsupported_here("work in the background")

    def drive(self, run: Run) -> Report[Any] | None:
        """Execute a run in the terminal of a shell command until it ends or waits, and report it; None elsewhere."""
        return None


def _unsupported_here(subject: str) -> UsageError:
    """Return the error of a verb that needs what its front end does not support."""
    return UsageError(subject, "not available here", "Use the command in a shell")


class Report(NamedTuple, Generic[V]):
    """A value, and the name of its text form."""

    form: str
    """"" if it has a line or a note alone. A line is all that a shell command prints."""
    value: V
    uncut: bool = False
    """True if lines are not cut in a pipe."""
    status: int = 0
    """The exit status of the shell command."""
    note: str = ""
    """A sentence that a shell command prints on stderr, where its text lacks it."""
    line: str = ""
    """All of its text, such as the id of what was made."""
    changed: bool = False
    """True if the verb has changed something: others in front of the session are told the command."""


Act = Report[ActReport]
Text = Report[TextReport]
"""The report `text`: a shell command prints it as it is."""


def report_act(message: str, *ids: str, line: str = "") -> Act:
    """Return the report of a verb that has changed something: its message, and the ids, names or paths of what
    changed."""
    value: ActReport = {"version": 1, "ids": [*ids], "message": message}
    return Report("", value, note=message, line=line, changed=any(ids))


def print_act(message: str, *ids: str) -> Act:
    """Return the report of a verb that changed something; a shell command prints the message on stdout, and a session
    shows it unchanged."""
    return report_act(message, *ids, line=message)._replace(note="")


def report_text(name: str, text: str) -> Text:
    """Return the report of a verb that prints a text as it is."""
    return Report("text", {"version": 1, "name": name, "text": text})


def report_line(name: str, line: str) -> Text:
    """Return the report of a verb that prints one line."""
    return report_text(name, line)._replace(line=line)


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that can be asked of a noun."""

    run: Callable[..., Any]
    """Takes a `Source` and the options, may block and returns a `Report`, or the exit status of a shell command that
    prints by itself: `Annotated` with the type of the JSON that it prints. A coroutine function takes the
    `CommandContext` instead, and is a slash command alone; it returns a `Report` too, or None if it makes nothing.
    Raises `NexusError` for errors that the person can fix."""
    name: str = ""
    """"" for what the noun alone does."""
    authority: Authority = Authority.READS
    """Its effect, unless an option that is given permits. That of a live verb is at least `ACTS`."""
    opens: Mode = "read"
    """The mode in which the shell command opens the ledger."""
    busy: str = ""
    """The word shown while it runs, such as `undoing`, if that takes long. It is not interrupted."""
    of_session: bool = False
    """True if it is about one session: the shell command has `--session`."""
    complete: Callable[[Any], Sequence[str]] | Sequence[str] = ()
    """Possible values of its first argument. Those that are not always the same are returned by a function, which takes
    a `Source`, or the `CommandContext` where it is `at_terminal`, and must be fast."""
    only: Place | None = None
    """The one place that offers it, where its other form differs; None for both."""
    at_terminal: bool = False
    """True if it needs only the person's terminal and no session: over --connect it runs in the client."""
    waits: bool = True
    """False if it runs during a turn, though its noun waits for the end."""
    is_alone: bool = False
    """True if words behind its name are not meant for it: such a line is that of a verb before it."""
    approves: bool = False
    """True if it is the yes of a person: no command or hook of a session may give it."""
    then: Callable[..., Coroutine[Any, Any, None]] | None = None
    """Takes the `CommandContext`: what the open session does when the verb has ended, in its event loop."""

    def __post_init__(self) -> None:
        if self.is_live and self.authority is Authority.READS:
            object.__setattr__(self, "authority", Authority.ACTS)

    @property
    def is_live(self) -> bool:
        """True if it acts on the open session, through the context of a slash command."""
        return iscoroutinefunction(self.run)

    @property
    def is_served(self) -> bool:
        """True if a client of a server may give it, at some level of the server and unless an option permits."""
        return not (self.at_terminal or self.authority is Authority.PERMITS)

    @property
    def parameters(self) -> tuple[VerbParameter, ...]:
        """The parameters behind the source."""
        return read_parameters(self.run)

    @property
    def value_type(self) -> Any:
        """The type of the JSON value that it reports or prints, or the union of several; `json_type` reads it. None if
        nothing of it is for programs: it talks to the person at the terminal, or acts on the open session."""
        returned = get_type_hints(self.run, include_extras=True).get("return")
        if get_origin(returned) is Report:
            return get_args(returned)[0]
        return None if returned in (int, NoneType) else returned

    @property
    def has_report(self) -> bool:
        """True if it returns a report that programs read, or prints one: the shell command has `--json`."""
        return self.value_type is not None

    @property
    def help(self) -> str:
        """The docstring of the function, without its indentation."""
        return getdoc(self.run) or ""

    @property
    def usage(self) -> str:
        """Its name, arguments and options, in the form of `/help`."""
        return self._describe_usage(self.parameters)

    @property
    def served_usage(self) -> str:
        """Its usage for a client of a server, without the arguments and options that permit."""
        return self._describe_usage(parameter for parameter in self.parameters if not parameter.option.permits)

    def _describe_usage(self, parameters: Iterable[VerbParameter]) -> str:
        listed = [parameter for parameter in parameters if not parameter.option.is_repeated]
        listed.sort(key=lambda parameter: (parameter.option.is_text, not parameter.is_first))
        return " ".join(filter(None, (self.name, *(parameter.usage for parameter in listed))))


@dataclass(frozen=True, slots=True)
class Noun:
    """A thing that nexus knows, under its word in the shell and behind `/`."""

    name: str
    group: str
    """One of `nexus_cli.commands.command.GROUPS`."""
    verbs: tuple[Verb, ...]
    """The first one is what the noun alone does."""
    summary: str = ""
    """One line; that of the first verb without it."""
    details: str = ""
    """Further paragraphs of its help."""
    in_shell: tuple[str, ...] = ()
    """Verbs that the shell alone has."""
    aliases: tuple[str, ...] = ()
    """Other names behind `/`."""
    is_first: bool = False
    """True if `/help` lists it among the commands that one needs."""
    is_idle: bool = False
    """True if the slash command waits until no turn runs."""

    def list_verbs(self, place: Place) -> tuple[Verb, ...]:
        """Return the verbs that are offered there."""
        return tuple(
            verb for verb in self.verbs if verb.only in (None, place) and not (place == "shell" and verb.is_live)
        )
