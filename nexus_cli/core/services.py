"""Protocols between rooms that do not import each other, with their values.

The session supplies what they name. A service with one function is a class that holds the function; a protocol has
several functions, and needs a reason if only one class implements it (`tests/test_architecture.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

from nexus_cli.core.approval import Approver, PersonQuestion, QuestionAsker
from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.tool import ToolContext
from nexus_cli.core.usage import Usage

if TYPE_CHECKING:
    from nexus_cli.core.attachment import Trigger


@dataclass(frozen=True, slots=True)
class FixedValues:
    """Values fixed for an entry when it is first sent."""

    entry: int
    preamble: str
    tokens: int
    line: bytes
    """SHA-256 of the canonical lines of the entry."""


COMPLETE = frozenset({"stop", "tool_calls", ""})
"""Finish reasons of a complete reply; "" if the ledger has none."""


class Log(Protocol):
    """The durable log of one conversation. Methods have committed when they return, or raise `NexusError("ledger",
    ...)`."""

    def append(self, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        """Record an entry together with its memos."""

    async def save(self, error: NexusError | None = None, *, waits: bool = True) -> bool:
        """Wait until all that was recorded is committed; raise `NexusError("ledger", ...)` if it cannot be. Return True
        if a server was away meanwhile.

        `error` is the exception of a query: it is raised again unless the ledger's server was away; then this waits for
        the server. Without `waits`, records that an unreachable server cannot take are kept for later.
        """

    def read(self, first: int, last: int) -> Sequence[Entry]:
        """Return the entries from `first` to `last`, inclusive, of this conversation and its ancestors."""

    def user_messages(self, last: int, *, members: bool = True) -> Iterator[tuple[int, str]]:
        """Yield id and text of people's messages (`is_person`) up to entry `last`, newest first, read lazily: the
        person's and, with `members`, those of the people of a space."""

    def count_entries(self, last: int) -> Sequence[tuple[Kind, str, int]]:
        """Count the entries up to `last` by kind and actor, without reading them. A pair may occur more than once."""

    def last_id(self) -> int:
        """Return the id of the newest entry, 0 if there is none."""

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        """Record a new epoch together with its drops and memos."""

    def next_epoch(self) -> int:
        """Return the id for the next epoch: they count from 0 in a session, over all its conversations."""

    def epoch(self, epoch_id: int) -> Epoch:
        """Return an epoch of this conversation or an ancestor; raise `UsageError` if there is none."""

    def record_request(
        self,
        manifest: Manifest,
        fixed: Sequence[FixedValues],
        head_lines: Sequence[bytes],
        with_preambles: Sequence[FixedValues] = (),
    ) -> None:
        """Record a request before its first byte is sent.

        `head_lines` has the SHA-256 of each item of the epoch's head in the first request of an epoch, else nothing;
        `with_preambles` the head items whose preamble has changed since the epoch was recorded.
        """

    def record_reply(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent_body: str = ""
    ) -> None:
        """Record the reply to request `step` (None if it is empty) together with its usage and finish reason.

        `reported` is False if the provider sent no usage; `sent_body` is the body of a `core.request.SentDelta`.
        """

    def ends_unfinished(self) -> bool:
        """Return True if the newest entry, which is a reply, was cut off, interrupted or refused by a filter."""

    def seen_files(self) -> Sequence[SeenFile]:
        """Return the files that the session saw last, newest first."""

    def next_drop(self) -> str:
        """Return a new drop id, unique in the session."""

    def record_drop(self, drop: Drop) -> None: ...
    def drops(self) -> Sequence[Drop]:
        """Return all drops of the session, oldest first."""

    def record_memo(self, memo: Memo) -> None: ...
    def memos(self, kind: str) -> Sequence[Memo]:
        """Return all memos of one kind, of this conversation and of its ancestors before the fork, oldest first."""

    def record_start(self, call_id: str, name: str, memos: Sequence[Memo] = ()) -> None:
        """Record that a call begins, together with its memos, before its tool runs."""

    def was_started(self, call_id: str) -> bool:
        """Return True if the call ever began to run."""

    def open_lane(self, agent: str, at_entry: int | None = None) -> Log:
        """Open the log of a side conversation: a fork at `at_entry`, or (None) an empty one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a drop's original."""

    text: str
    start: int
    """Offset in characters."""
    end: int
    total: int
    """Characters of the whole."""


@runtime_checkable
class Recall(Protocol):
    """Reads the originals of drops."""

    def original(self, drop_id: str) -> str | None:
        """Return the whole original of a drop, None if this session has no such drop."""

    def count_recall(self, drop_id: str) -> None:
        """Count that the original was given."""


class Assembly(Protocol):
    """The parts of the session's next request that its model may inspect."""

    def contents(self) -> JsonObject:
        """Return the current `budget`, `sections` and `drops`, with the keys of `nexus docs json`."""

    async def section(self, name: str, form: str) -> tuple[str, str] | None:
        """Return the text of a shortened or dropped section and the id of its drop; counts as a recall.

        `form` is `full`, `shortened`, `outline` or `pointer`; if the section lacks it, the next fuller form is used.
        Returns two empty texts if the section is sent whole, None if it does not exist.
        """


@runtime_checkable
class SeenFileStore(Protocol):
    """The files that this session read or wrote, in all its processes."""

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 (hex) of the file when the session last read or wrote it, or None."""

    def note(self, path: str, digest: str, how: str) -> None:
        """Record that `path` (absolute) was `read`, `changed` or `created`, with the digest of its content."""


class EditorTexts(Protocol):
    """The texts of files in the person's editor, some of them unsaved. Its methods block until the editor answers, and
    raise nothing: a failure is told to the person once."""

    unsaved: dict[Path, str]
    """The texts that were not those of the disk when they were last read, by real path."""
    compared: dict[Path, tuple[str, str | None]]
    """The digest of a file on the disk and the editor's text when both were last compared; "" if the text
    is older than the file, and None if it is not known: after a change by a command."""

    def read(self, path: Path) -> str | None:
        """Return the editor's text of a file, None if it gives none."""

    def write(self, path: Path, text: str) -> str:
        """Let the editor take over and save the text of a file; return why it has not, "" if it says so."""


@dataclass(frozen=True, slots=True)
class SkillGuides:
    """The skills that a model may read."""

    read_skill: Callable[[str, str], str]
    """Takes the name of a skill and "" or a file of it; returns the guide or the text of the file. Raises `NexusError`
    if it cannot be read. Blocks."""


class TextCounter(Protocol):
    """Counts the tokens of a text. Never raises, never uses the network."""

    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Calibration:
    """The difference between our token count and a provider's."""

    factor: float = 1.0
    """Reported tokens per counted token, 0.5 to 2.5."""
    reports: int = 0
    misses: tuple[float, ...] = ()
    """Relative errors of the estimates of whole requests, the newest last, as shares."""
    ratios: tuple[float, ...] = ()
    """The factor by kind of content, see `nexus_cli.conversation.tokens.estimate`; empty before the first report."""

    @property
    def worst(self) -> float:
        return max(self.misses, default=0.0)


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """A worker's share of the budget, and restrictions of its parent's rights."""

    max_steps: Annotated[int | None, {"minimum": 1}] = None
    max_total_tokens: Annotated[int | None, {"minimum": 1, "sent": False}] = None
    max_cost: float | None = None
    timeout: Annotated[float | None, {"sent": False}] = None
    allow: Annotated[str | None, {"description": "ask, edit or auto"}] = None
    tools: Annotated[tuple[str, ...] | None, {"sent": False}] = None


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """The arguments of a call of the tool `agent`."""

    task: str
    recipe: str = ""
    model: str = ""
    """Another model than its parent's, by name or alias."""
    files: tuple[str, ...] = ()
    worktree: bool = False
    wait: bool = True
    limits: WorkerLimits = WorkerLimits()


class Workers(Protocol):
    """The workers of a session."""

    async def start(self, call_id: str, task: WorkerTask, stopped: TakeText) -> ToolResult:
        """Start a worker; return its report, or a note that it works in the background.

        A cancellation stops the worker too, and passes its partial result to `stopped`.
        """

    async def manage(self, action: str, agent: str, text: str, path: str = "") -> ToolResult:
        """List, read, steer or stop workers, see the tool `agents`."""

    def recover(self, call_id: str) -> ToolResult | None:
        """Return the result of a worker that an earlier process started for a call, None if it started none."""


class Jobs(Protocol):
    """The commands of a session that run in the background."""

    def refuse_more(self) -> str:
        """Return the reason that no other job can begin, "" if one can."""

    async def start(self, command: str, context: ToolContext, seconds: int | None) -> ToolResult:
        """Start a command that permission has allowed, at most for `seconds`; return its id. Does not wait for its
        end."""

    async def adopt(self, command: str, context: ToolContext, process: Any, note: str) -> ToolResult:
        """Make a job of a command that runs already (`tools/background_process.AdoptedProcess`); return its id, its
        output so far, and `note`."""

    async def manage(self, action: str, job: str, text: str) -> ToolResult:
        """List, read, write to or stop jobs, see the tool `jobs`."""

    def find_command(self, action: str, job: str = "", text: str = "") -> JsonObject | None:
        """Return the arguments of `bash` for the text that a call writes to a job, with the rights of that job; None if
        the call writes to none."""

    async def wait(self, job: str, seconds: float | None) -> ToolResult:
        """Wait for the end of a job, at most `seconds`; return its exit status and last lines."""

    def owns(self, address: str) -> bool:
        """Return True for an address of this machine while jobs run, which is taken to be one of theirs."""

    async def connect_to(self, address: str) -> Callable[[], Any] | None:
        """Return a function that makes a socket connected to the job that listens at an address of this machine; None
        if none does now. Raises `NexusError` if none can any more."""

    async def end_step(self) -> None:
        """Tell the model and the person about new ports of jobs, which the person may be asked about."""

    def names(self) -> dict[str, str]:
        """Return the commands of the jobs whose process has not ended, shortened, by id."""

    def addresses(self) -> list[str]:
        """Return the addresses at which the person reaches the servers among them: `j1 http://127.0.0.1:8000`."""


@dataclass(frozen=True, slots=True)
class PersonQuestions:
    """Puts questions of the model to the person, see the tool `ask_person`."""

    approver: Approver | None

    @property
    def can_ask(self) -> bool:
        """True if a person is there who can answer."""
        return isinstance(self.approver, QuestionAsker) and self.approver.can_ask

    async def ask(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """Return an answer to each question, fewer if the person stops answering."""
        return await self.approver.put_questions(questions) if isinstance(self.approver, QuestionAsker) else []


@dataclass(frozen=True, slots=True)
class ToolCatalogue:
    """The tools of a session, for a model that was not sent all schemas."""

    describe: Callable[[str], Awaitable[ToolResult]]
    """Returns description and arguments of the tool with a name, or a line for each that words find."""


class ServerTools(Protocol):
    """The MCP servers of a session."""

    async def prepare(self) -> None:
        """Ask servers whose tools are not known yet for them, in the background; wait a second for the answers.
        Called before each turn."""

    async def call(self, server: str, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Call a tool of a server, which is started first if it does not run. Never raises."""

    async def read_resource(self, server: str, uri: str) -> ToolResult:
        """Read a resource of a server as `call` does; "" lists the resources."""

    async def refresh(self, server: str) -> None:
        """Wait until a server has been asked for its tools in this process, and since it said that they changed."""

    async def attach(self, trigger: Trigger) -> Trigger:
        """Return the trigger with the resources and the prompt that its typed words name. Raises `NexusError`."""

    async def settle(self) -> Sequence[str]:
        """Wait for the tools of servers that were asked for them; return a line for each server that failed and each
        tool that is not offered, unless it was returned in this turn before."""

    def rows(self) -> Sequence[JsonObject]:
        """Return each server as JSON, sorted by name."""

    async def aclose(self) -> None:
        """Stop asking, and end the servers if no other session uses them."""


class Waits(Protocol):
    """Lets a tool make the run of its session wait, see `ToolResult.waits`."""

    def now(self) -> float:
        """Return the time of the ledger's clock, in seconds since the epoch."""

    def refusal(self) -> str:
        """Return the reason why this session cannot wait, "" if it can."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The arguments of a call of the tool `plan`."""

    action: Literal["add", "list", "remove"]
    prompt: str = ""
    at: str = ""
    in_: str = ""
    cron: str = ""
    id: str = ""


class Plans(Protocol):
    """Schedules work, see the tool `plan`."""

    def change(self, call_id: str, request: PlanRequest) -> ToolResult:
        """Add (`prompt` and `at`, `in` or `cron`), list or remove (`id`) plans. Blocks; never raises."""

    def describe(self, request: PlanRequest) -> str:
        """Describe times and rights of a plan for the person, or the reason why it is invalid. Blocks."""

    def recover(self, call_id: str) -> ToolResult | None:
        """Return the plan that an earlier process made for a call, or None."""


class Spaces(Protocol):
    """The spaces of a session's agent."""

    def send(self, call: str, text: str, space: str, *, wait: bool) -> ToolResult:
        """Post a message in `space` ("": the active one), once for each `call`; `wait`: let the run wait for a
        reply."""

    def reply(self, call: str, message: str, text: str) -> ToolResult:
        """Answer a message, by its id, in its space."""

    def enter(self, space: str) -> ToolResult:
        """Make a space the active one."""

    def read(self, space: str, before: str, limit: int) -> ToolResult:
        """Return the newest messages of a space, or those before one."""

    def runs(self) -> ToolResult:
        """Return the runs of the agent."""

    def add_goal(self, text: str, priority: int, long_term: bool) -> ToolResult:
        """Add a goal of the agent, which its later runs are told; the same text again adds none."""

    def describe_goal(self, text: str, priority: int, long_term: bool) -> str:
        """Describe a goal that would be added, and those that the agent has, for the person."""

    def recover(self, call: str) -> ToolResult | None:
        """Return the result of a message that an earlier process began to send, None if it began none."""


class RunFacts(Protocol):
    """The facts of a structured run; only its session has this service."""

    def facts(self) -> JsonObject:
        """Return the facts of `contributors/run_blocks.py`; raise `NexusError` if the ledger fails. Blocks."""


class Calibrations(Protocol):
    """The store of calibrations, one per model."""

    def calibration(self, model: str) -> Calibration:
        """Return the calibration of `model`, the default one if none is stored."""

    def calibrate(self, model: str, value: Calibration) -> None:
        """Store the calibration of `model`."""


class Counts(Protocol):
    """The store of token counts by the hash of the text."""

    def stored_count(self, encoding: str, digest: bytes) -> int | None:
        """Return the stored count, or None."""

    def store_count(self, encoding: str, digest: bytes, tokens: int) -> None:
        """Store a count; the commit may be deferred or lost."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Counts of entries that are not in the window."""

    turns: int = 0
    """Messages of the person, including those sent during a turn."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Number of results by tool name, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the person, or one step of it."""

    json_fields: ClassVar = "id text done"
    id: str
    """`g1`, `g2`, ... in a session."""
    text: str
    done: bool = False
    parent: str = ""
    """The goal of which it is a step; "" for a goal."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a session read or changed."""

    path: str
    """Absolute, as in the ledger."""
    how: str
    """The strongest of `read`, `changed` and `created`: a file that the session created stays `created`."""
    digest: str
    """SHA-256 (hex) of its content at the last access."""
    at: str
    """Time of that access: ISO 8601, UTC."""
    entry: int
    """The newest entry of the main lane at that time: the message with the call."""
    disk: str = "same"
    """The file on disk compared with `digest`: `same`, `changed`, or `gone`."""
    moment: str = ""
    """When the file was changed on disk, local time; "" unless `disk` is `changed`."""
