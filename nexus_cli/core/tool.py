"""A tool as a record: name, schema, effect, and the function that runs it.

The registry makes the records; permission, rules, pruning and the screen ask them, never a tool's name. Dispatch
validates the arguments first, so `run` may rely on its schema.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from nexus_cli.core.message import ToolResult

COMMAND = "command"
"""The argument that makes a tool that runs something one for command lines."""


class Effect(StrEnum):
    """Effects of a call, in the order of permission levels."""

    NONE = "none"
    """Touches nothing outside the session (recall)."""
    READ = "read"
    EDIT = "edit"
    RUN = "run"


class Reads(StrEnum):
    """What a tool whose effect is `read` gives of its paths."""

    CONTENT = "content"
    """Their content: rules for reading decide on the call."""
    SEARCH = "search"
    """Content of files that it finds below them. It leaves out the files that `ToolContext.is_refused` names."""
    LIST = "list"
    """Names of files that it finds below them. It leaves out the same ones."""
    STATE = "state"
    """Whether they exist and when they changed: only its own rules decide on the call."""


def _refuse_nothing(path: Path) -> bool:
    """Return False."""
    return False


def _ignore_text(text: str) -> None:
    """Ignore the text."""


def _ignore_change(path: Path, before: str, after: str) -> None:
    """Ignore the change."""


def _no_denial(output: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class CommandWalls:
    """The surroundings of a command: walls, and an environment without the person's keys."""

    confinement: Any
    """How it is started, see `tools/process.Walls`; None: with the rights of the person."""
    env: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What the model should know of it, said with the first result that they hold for."""
    describe_denial: Callable[[str], str] = _no_denial
    """Returns the wall that the output of a failed command speaks of, in one line, or ""."""


@dataclass(frozen=True)
class ToolContext:
    """The folder that a tool works in and the services that it declared."""

    cwd: Path
    project: Path
    output_cap: int
    """Tokens that one result may take."""
    call_id: str
    emit: Callable[[str], None]
    """Shows a piece of live output; not part of the result."""
    services: Mapping[type, Any] = field(default_factory=dict)
    stopped: Callable[[str], None] = _ignore_text
    """Receives the partial output of a cancelled call; it becomes part of the result."""
    targets: Mapping[str, Path] = field(default_factory=dict)
    """Real paths that permission decided on, by path as the model wrote it: a tool touches these and follows no
    link."""
    before: str | None = None
    """Digest of the content that the person was shown as what an edit changes, "" for no file; None: of none."""
    is_refused: Callable[[Path], bool] = _refuse_nothing
    """True for a real path that a deny rule keeps from this call: a tool that finds files itself leaves it out."""
    walls: Callable[[], CommandWalls] | None = None
    """Makes what a command runs inside, blocking; None: it runs as nexus itself does."""
    tell: Callable[[str], None] = _ignore_text
    """Shows the person a line that they must see, whatever the model makes of the result."""
    replaced: Callable[[Path, str, str], None] = _ignore_change
    """Receives a file that an edit has replaced, with the digests of its content before ("": none) and after."""


@dataclass(frozen=True, slots=True)
class EditPreview:
    """The outcome of an edit that is not made yet, for the person who is asked."""

    diff: str = ""
    """A unified diff, or the whole of what begins later; "" where that cannot be told."""
    before: str | None = None
    """Digest of the content that it changes, "" where there is no file; None if it cannot be read."""


@dataclass(frozen=True)
class Tool:
    """One tool. A built-in one is read from `tools/builtin/NAME.json`.

    Raises `ValueError` if it reads or edits without `paths`, has `paths` and does neither, or names no argument there.
    """

    name: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments: an object with `properties` and `required`."""
    run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
    """Failures are results with `error`, not exceptions. Cancellation must leave nothing running or half-written."""
    effect: Effect
    subject: str
    """Name of the argument that a person wants to see on one line (`path`, `command`)."""
    paths: tuple[str, ...] = ()
    """Names of the arguments that hold the paths of a call: a string, or an array of strings."""
    reads: Reads = Reads.CONTENT
    """What it gives of its paths, if its effect is `read`."""
    governs: bool = False
    """Rules for it also hold for the tools of its effect that do not govern: `deny read_file(x)` for all that read."""
    preview: Callable[[Mapping[str, Any], ToolContext], EditPreview] | None = None
    """What a call would change, or (`later`) start. Reads, never writes, raises nothing."""
    check: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult | None]] | None = None
    """Returns the error that a call would end in as things are, None if it can run: nobody is asked about a call that
    must fail. Reads, never writes, raises nothing."""
    needs: tuple[type, ...] = ()
    """Protocols of `nexus_cli.core.services`; with one unmet the tool is absent."""
    recover: Callable[[str, Mapping[type, Any]], ToolResult | None] | None = None
    """Returns what became of a call (by its id, with the session's services) that an earlier process began, None if
    that is unknown."""
    later: Mapping[str, Any] = field(default_factory=dict)
    """Arguments, with their values, of calls that start work which costs money when this turn no longer watches it."""
    sends: bool = False
    """Its text is read by other people at once: a person is asked first, unless answering them is what the run is
    for."""
    reaches: str = ""
    """Name of the argument with an address on the network that a call requests: a person is asked for that."""
    ordered: bool = False
    """Its effects on the session have an order (facts and their ids): never at the same time as another call."""
    verb: str = ""
    """What a person reads for its name; "" for the name itself."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Nouns of `ToolResult.counts` that a person reads, each with its singular: `{"matches": "match"}`."""
    counted_as: tuple[str, ...] = ()
    """Singular and plural for its calls where many are folded into one line: `search`, `searches`."""
    tells: bool = False
    """Its result is one line that the person reads."""
    delegates: bool = False
    """It hands work over to a worker."""
    description: str = ""
    """One short paragraph for the model. It is sent with every request: each sentence must earn its place."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.paths if name not in self.parameters.get("properties", {})]
        if unknown:
            raise ValueError(f"tool {self.name}: `paths` names {', '.join(unknown)}, which is no argument")
        if bool(self.paths) != (self.effect in (Effect.READ, Effect.EDIT)):
            named = "names arguments" if self.paths else "names no argument"
            raise ValueError(f"tool {self.name}: its effect is {self.effect}, and `paths` {named}")

    def find_paths(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the paths that a call touches, as the model wrote them.

        For an argument that is left out it is the default of the schema, or `.`. What the schema lets pass as a path
        and is no string, `permission.resolve_targets` refuses.
        """
        given = (arguments.get(name, self._default_path(name)) for name in self.paths)
        return tuple(path for one in given for path in (one if isinstance(one, list | tuple) else (one,)))

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
        """True if it gives the content of its own paths."""
        return self.effect is Effect.READ and self.reads is Reads.CONTENT

    @property
    def runs_commands(self) -> bool:
        """True if it runs command lines: patterns of its rules are commands."""
        return self.effect is Effect.RUN and self.subject == COMMAND

    def works_later(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if this call starts work that costs money later."""
        return any(name in arguments and arguments[name] == value for name, value in self.later.items())

    @property
    def is_parallel(self) -> bool:
        """True if calls of one message may run at the same time."""
        return self.effect in (Effect.NONE, Effect.READ) and not self.ordered
