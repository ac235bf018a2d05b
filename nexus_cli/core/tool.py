"""A tool as a record: name, schema, effect, and the function that runs it.

The registry makes the records; permission, rules, pruning and the screen use their fields, never a tool's name.
Dispatch validates the arguments first, so that `run` may rely on the schema.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.shared_types import Environ, TakeText

S = TypeVar("S")
COMMAND = "command"
"""`Tool.subject` of a tool that runs command lines."""
SIGPIPE = 141
"""Exit status of a pipe's part whose reader ended first (`yes | head`): not a failure."""
_RANGES = re.compile(r":(\d{1,9}(?:-\d{0,9})?(?:,\d{1,9}(?:-\d{0,9})?)*)\Z")


def split_ranges(text: str) -> tuple[str, list[tuple[int, int | None]]]:
    """Split `PATH:FIRST-LAST,...` into the path and the first line and number of lines of each range.

    The number is None for `FIRST-`, and below 1 for a range that ends before it begins. Without ranges the list is
    empty.
    """
    match = _RANGES.search(text)
    if match is None:
        return text, []
    ranges: list[tuple[int, int | None]] = []
    for part in match[1].split(","):
        first, dash, last = part.partition("-")
        count = int(last) - int(first) + 1 if last else None
        ranges.append((int(first), count if dash else 1))
    return text[: match.start()], ranges


class Effect(StrEnum):
    """The effect of a call, in the order of permission levels."""

    NONE = "none"
    """No effect outside the session (recall)."""
    READ = "read"
    EDIT = "edit"
    RUN = "run"


class Reads(StrEnum):
    """The information that a tool with the effect `read` or `edit` returns about its paths, or moves elsewhere."""

    CONTENT = "content"
    """Their content: rules for reading decide on the call, for an edit those that deny."""
    SEARCH = "search"
    """Content of files found below them, without those of `ToolContext.is_refused`."""
    LIST = "list"
    """Names of files found below them, without those of `ToolContext.is_refused`."""
    STATE = "state"
    """Existence and time of change: only the tool's own rules decide on the call."""


def _ignore_text(text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class CommandSandbox:
    """The sandbox of a command, and an environment without the person's keys."""

    confinement: Any
    """Starts the command, see `tools/process.ChildSandbox`; None to run it with the rights of the person."""
    env: Environ
    notes: tuple[str, ...] = ()
    """Notes about the sandbox for the model, appended to the result."""
    describe_denial: Callable[[str, str, int | None], str] = lambda command, output, status: ""
    """Returns lines with the restrictions that a command hit, by its words, its output and its status; or "". With None
    as the status the output is that of another program too."""
    describe_missing: Callable[[str, str], str] = lambda command, output: ""
    """Returns a line with the keys that a command misses by its words and its output, each once; or ""."""


@dataclass(frozen=True)
class ToolContext:
    """The context of a call: folders, services, and callbacks."""

    cwd: Path
    project: Path
    output_cap: int
    """Most tokens of one result."""
    call_id: str
    emit: TakeText
    """Shows a piece of live output; not part of the result."""
    services: Mapping[type, Any] = field(default_factory=dict)
    stopped: TakeText = _ignore_text
    """Receives the partial output of a cancelled call, which becomes part of the result."""
    targets: Mapping[str, Path] = field(default_factory=dict)
    """Real paths that permission decided on, by path as the model wrote it: a tool uses these and follows no link."""
    before: str | None = None
    """Digest of the content from which the approved diff starts, "" for a missing file; None if no diff was shown."""
    is_refused: Callable[[Path], bool] = lambda path: False
    """Returns True for a real path that a deny rule hides: a tool that finds files itself omits it."""
    may_reach: Callable[[str], bool | None] = lambda address: None
    """Returns True for a network address that the tool may use, False if it is refused, None if a person would be
    asked."""
    sandbox: Callable[[], CommandSandbox] | None = None
    """Prepares the sandbox of a command; blocks. None: the command runs as nexus itself does."""
    tell: TakeText = _ignore_text
    """Shows a line to the person, independent of the result."""
    released: Callable[[], Awaitable[object]] | None = None
    """Returns when the person wants the command to go on in the background; None if they cannot."""
    unread: Callable[[Path, int], int] = lambda path, total: 0
    """Returns how many of the `total` lines of a file the session neither read nor wrote."""
    replaced: Callable[[Path, str, str], None] = lambda path, before, after: None
    """Receives each file that an edit has replaced, with the digests of its content before ("": none) and after."""
    pictures: int = 0
    """Most pages of documents that the result may also show as pictures; 0 if the model takes none."""

    def service(self, protocol: type[S]) -> S:
        """Return the service of a protocol in `Tool.needs`."""
        service: S = self.services[protocol]
        return service


@dataclass(frozen=True, slots=True)
class EditPreview:
    """The preview of an edit, for the question to the person."""

    diff: str = ""
    """A unified diff, or the description of work for later; "" if there is none."""
    before: str | None = None
    """Digest of the content that the edit changes, "" for a missing file; None if it cannot be read."""


@dataclass(frozen=True)
class Tool:
    """A tool. A built-in one is read from `tools/builtin/NAME.json`.

    Raises `ValueError` unless it has `paths` exactly if it reads or edits, and all of them are arguments.
    """

    name: str
    parameters: JsonObject
    """JSON Schema of the arguments: an object with `properties` and `required`."""
    run: Callable[[JsonObject, ToolContext], Awaitable[ToolResult]]
    """Failures are results with `error`, not exceptions. Cancellation must leave nothing running or half-written."""
    effect: Effect
    subject: str
    """Name of the main argument, shown on one line (`path`, `command`)."""
    shows: tuple[str, ...] = ()
    """Names of other arguments to show on the call's line, after the main one."""
    paths: tuple[str, ...] = ()
    """Names of the arguments with the paths of a call: a string, or an array of strings."""
    ranged: str = ""
    """Name of the one whose paths may end in ranges of lines, see `split_ranges`; optional, without a default."""
    reads: Reads = Reads.CONTENT
    """The information that it returns about its paths, or moves, if its effect is `read` or `edit`."""
    governs: bool = False
    """Rules for it also apply to the tools of its effect that do not govern: `deny read_file(x)` to all that read."""
    preview: Callable[[JsonObject, ToolContext], EditPreview] | None = None
    """Describes what a call would change, or (`later`) start. Only reads; never raises."""
    check: Callable[[JsonObject, ToolContext], Awaitable[ToolResult | None]] | None = None
    """Returns the error with which a call would fail now, None if it can run, so that nobody is asked about a call that
    must fail. Only reads; never raises."""
    needs: tuple[type, ...] = ()
    """Protocols of `nexus_cli.core.services`; without one of them the tool is absent."""
    recover: Callable[[str, Mapping[type, Any]], ToolResult | None] | None = None
    """Returns the result of a call that an earlier process began (by its id, with the session's services), None if
    unknown."""
    feeds: bool = False
    """It writes to running commands: permission decides on what `Jobs.find_command` returns for a call."""
    later: JsonObject = field(default_factory=dict)
    """Argument values of calls that start work which costs money after this turn."""
    stands: bool = False
    """What it stores is told to later runs as a goal or rule: it needs approval below level `all`."""
    sends: bool = False
    """Other people read its text at once: needs approval, unless the session is there to answer them."""
    reaches: str = ""
    """Name of the argument with a network address: a call with it needs approval."""
    named: tuple[str, str] = ("", "")
    """The argument with the name of the agent or skill that a call is about, for which its rules have patterns, and
    the name of a call without it."""
    ordered: bool = False
    """The order of its calls matters (facts and their ids): never run at the same time as another call."""
    verb: str = ""
    """Its name on the screen; "" for `name`."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Nouns of `ToolResult.counts` for the screen, each with its singular: `{"matches": "match"}`."""
    counted_as: tuple[str, ...] = ()
    """Singular and plural for a line about several folded calls: `search`, `searches`."""
    lists: str = ""
    """Name of the argument with the rows (`text`, `state`) that are shown below the call."""
    asks: str = ""
    """Name of the argument with the questions that it puts to the person; their answers are shown below the call."""
    tells: bool = False
    """Its result is one line, shown to the person."""
    behind: str = ""
    """The line about it in the description of `use_tool`, if its schema is only sent to a session that is about it."""
    words: tuple[str, ...] = ()
    """Words and phrases of a person's message that make a session one about it, as its name does; in small letters."""
    server: str = ""
    """Name of the MCP server that runs it: its calls need approval, and only the server checks their arguments."""
    entry: str = ""
    """For a tool of a server with a definition: the hash of what is started or reached."""
    definition: Callable[[], str] = str
    """Returns the words of its server about it, which a rule that allows it covers (`permission/tool_pins.py`)."""
    only_reads: bool = False
    """Its server says that it changes nothing. Only the order of calls relies on it, see `needs_edits`."""
    delegates: bool = False
    """It starts or manages a worker."""
    description: str = ""
    """One short paragraph for the model. It is sent with every request, so keep it short."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.paths if name not in self.parameters.get("properties", {})]
        if unknown:
            raise ValueError(f"tool {self.name}: `paths` names {', '.join(unknown)}, not among its arguments")
        if bool(self.paths) != (self.effect in (Effect.READ, Effect.EDIT)):
            problem = "names arguments" if self.paths else "names no argument"
            raise ValueError(f"tool {self.name}: its effect is {self.effect}, and `paths` {problem}")

    def find_paths(self, arguments: JsonObject) -> tuple[str, ...]:
        """Return the paths of a call, as the model wrote them.

        A missing argument has the default of the schema, or `.`. The result may contain values that are no strings,
        which `permission.resolve_targets` refuses.
        """
        names = [name for name in self.paths if name != self.ranged]
        values = [arguments.get(name, self._default_path(name)) for name in names]
        ranged = arguments.get(self.ranged, ()) if self.ranged else ()
        for span in ranged if isinstance(ranged, list | tuple) else (ranged,):
            values.append(split_ranges(span)[0] if isinstance(span, str) else span)
        return tuple(
            path for element in values for path in (element if isinstance(element, list | tuple) else (element,))
        )

    def _default_path(self, name: str) -> Any:
        schema = self.parameters["properties"][name]
        default = schema.get("default") if isinstance(schema, Mapping) else None
        return default if isinstance(default, str | list | tuple) else "."

    @property
    def finds_files(self) -> bool:
        """True if it finds files below its paths."""
        return self.effect is Effect.READ and self.reads in (Reads.SEARCH, Reads.LIST)

    @property
    def reads_content(self) -> bool:
        """True if it returns the content of its paths."""
        return self.effect is Effect.READ and self.reads is Reads.CONTENT

    @property
    def runs_commands(self) -> bool:
        """True if it runs command lines, so that patterns of its rules are commands."""
        return self.effect is Effect.RUN and self.subject == COMMAND

    @property
    def needs_edits(self) -> bool:
        """True if its calls do not run behind an edit of the same message that failed: it runs commands, starts a
        worker or sends a message."""
        return (self.effect is Effect.RUN and not self.only_reads) or self.delegates or self.sends

    def works_later(self, arguments: JsonObject) -> bool:
        """Return True if this call starts work that costs money later."""
        return any(name in arguments and arguments[name] == value for name, value in self.later.items())

    @property
    def is_parallel(self) -> bool:
        """True if its calls in one message may run concurrently."""
        return self.effect in (Effect.NONE, Effect.READ) and not self.ordered


SUBJECT = 200
"""Characters of a main argument that are shown."""


FindTool = Callable[[str], Tool | None]
"""Returns the definition of a tool by its name."""


def describe_subject(tool: Tool | None, call: ToolCall, most: int = SUBJECT) -> str:
    """Return the main argument of a call on one line, at most `most` characters; for work later all of its texts."""
    value = call.arguments.get(tool.subject, call.arguments.get(tool.reaches, "")) if tool else call.raw
    if tool and tool.works_later(call.arguments):  # the shortest first: time, then task
        value = " ".join(sorted((text for text in call.arguments.values() if isinstance(text, str)), key=len))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return " ".join(str(value).split())[:most]


def find_governing(tools: Iterable[Tool], effect: Effect) -> Tool | None:
    """Return the first tool that governs those of `effect`: the one that reads a file, edits one, or runs a command."""
    return next((tool for tool in tools if tool.governs and tool.effect is effect), None)
