"""Protocols between rooms that do not know each other, with the values that they hand over.

Each protocol has one or two methods where possible; the session supplies the implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.message import ToolResult
from nexus_cli.core.usage import Usage


@dataclass(frozen=True, slots=True)
class FixedValues:
    """Values fixed for an entry when it is first sent."""

    entry: int
    preamble: str
    tokens: int
    line: bytes
    """SHA-256 of the canonical lines that the entry became."""


class Log(Protocol):
    """The durable side of one lane. Every method has committed when it returns; `NexusError("ledger", ...)` if not."""

    def append(self, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        """Record what happened together with what is noted of it, in one commit."""

    def read(self, first: int, last: int) -> Sequence[Entry]:
        """Return the entries from `first` to `last`, both included, of this lane and its ancestors."""
        ...

    def user_messages(self, last: int) -> Iterator[tuple[int, str]]:
        """Yield entry and text of what people said (`is_person`) up to entry `last`, newest first, each read lazily."""
        ...

    def count_entries(self, last: int) -> Sequence[tuple[Kind, str, int]]:
        """Return kind, actor and number of the entries up to `last`, reading none. A pair may occur more than once."""
        ...

    def last_id(self) -> int:
        """Return the id of the newest entry, 0 when there is none."""
        ...

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        """Record a new beginning together with what it leaves out and what is noted of it, in one commit."""

    def next_epoch(self) -> int:
        """Return the id that the next epoch takes: they count from 0 in a session, over all its lanes."""
        ...

    def epoch(self, epoch_id: int) -> Epoch:
        """Return an epoch of this lane or of one that it came from; `NexusError("usage", ...)` when there is none."""
        ...

    def record_request(
        self,
        manifest: Manifest,
        fixed: Sequence[FixedValues],
        head_lines: Sequence[bytes],
        with_preambles: Sequence[FixedValues] = (),
    ) -> None:
        """Record a request before its first byte goes out; `head_lines` are the SHA-256 of the epoch's items, given
        with the first request of an epoch, else empty. `with_preambles` are those of its items whose preamble has
        changed since the epoch was recorded."""

    def record_reply(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent: str = ""
    ) -> None:
        """Record the reply to request `step`, if it is worth an entry, and how the request ended, in one commit.

        `reported` is False when the provider gave no usage; `sent` is what went over the wire, see
        `core.request.SentDelta`."""

    def finish_of(self, entry: int) -> str:
        """Return how the request ended whose reply is `entry`, as `record_reply` was told; "" if unknown."""
        ...

    def next_drop(self) -> str:
        """Return a new drop id, unique in the session."""
        ...

    def record_drop(self, drop: Drop) -> None:
        """Record something left out."""

    def record_memo(self, memo: Memo) -> None:
        """Record something about the lane."""

    def memos(self, kind: str) -> Sequence[Memo]:
        """Return all memos of one kind, of this lane and of its ancestors before the fork, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of something that was left out."""

    text: str
    start: int
    """Offset in characters."""
    end: int
    total: int
    """Characters of the whole."""


@runtime_checkable
class Recall(Protocol):
    """Access to what was left out."""

    def recall(self, drop_id: str) -> str | None:
        """Return the whole original of a drop as text, or None if this session has no such drop. Counts the recall."""
        ...

    def original(self, drop_id: str) -> str | None:
        """Return the same as `recall`, without counting."""
        ...

    def count_recall(self, drop_id: str) -> None:
        """Count one recall of a drop."""
        ...


@runtime_checkable
class Assembly(Protocol):
    """The session's next request, as far as its model may see it."""

    def held(self) -> Mapping[str, Any]:
        """Return `budget`, `sections` and `drops` as they are now, with the keys of `nexus docs json`."""
        ...

    async def section(self, name: str, form: str) -> tuple[str, str] | None:
        """Return the text of a section that is sent short or not at all, and the id of its drop; counts as a recall.

        `form` is `full`, `shortened`, `outline` or `pointer`; where there is none of this name the next fuller one is
        given. Two empty texts when it is sent whole; None when there is no such section.
        """
        ...


@runtime_checkable
class SeenFileStore(Protocol):
    """The files that this session read or wrote, over processes."""

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 (hex) of the file's bytes when it was last read or written here, or None."""
        ...

    def note(self, path: str, digest: str, how: str) -> None:
        """Record that `path` (absolute) was `read`, `changed` or `created` and what it holds now."""


class TextCounter(Protocol):
    """A counter of tokens in a text (seed A). Never raises, never needs the network."""

    def count(self, text: str) -> int:
        """Return tokens of `text`."""
        ...


@dataclass(frozen=True, slots=True)
class Calibration:
    """The difference between our token count and a provider's."""

    factor: float = 1.0
    """Reported tokens per counted token, 0.5 to 2.5."""
    reports: int = 0
    misses: tuple[float, ...] = ()
    """Relative errors of the estimates of whole requests, the newest last, as shares."""
    window: int = 0
    """The provider's window in tokens as a refusal named it; 0 when none did."""
    ratios: tuple[float, ...] = ()
    """The factor by kind of content, see `nexus_cli.context.tokens.estimator`; empty before the first report."""

    @property
    def worst(self) -> float:
        """Return the largest of the misses."""
        return max(self.misses, default=0.0)


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """The arguments of a call of the tool `agent`."""

    task: str
    recipe: str = ""
    files: Sequence[str] = ()
    worktree: bool = False
    wait: bool = True
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Its part of the budget, and what of its parent's rights it gets."""
    model: str = ""
    """Another model than its parent's, by name or alias."""


@runtime_checkable
class Workers(Protocol):
    """The workers of a session."""

    async def start(self, call_id: str, task: WorkerTask, stopped: Callable[[str], None]) -> ToolResult:
        """Hand work over; return the worker's report, or that it works in the background.

        Cancelled, the worker is stopped too, and `stopped` gets what there is of it.
        """
        ...

    async def manage(self, action: str, agent: str, text: str, path: str = "") -> ToolResult:
        """List, read, steer or stop workers, as the tool `agents` says."""
        ...

    def recover(self, call_id: str) -> ToolResult | None:
        """Return what became of the worker of a call that an earlier process began, or None if it began none."""
        ...


class Waits(Protocol):
    """The way for a tool to let the run of its session wait, see `ToolResult.waits`."""

    def now(self) -> float:
        """Return the present by the clock of the ledger, in seconds since the epoch."""
        ...

    def refusal(self) -> str:
        """Return why this session cannot wait for anything, "" if it can."""
        ...


@runtime_checkable
class Plans(Protocol):
    """Work at a later time, see the tool `plan`."""

    def change(self, call_id: str, action: str, words: Mapping[str, str]) -> ToolResult:
        """Add (`prompt` and `at`, `in` or `cron`), list or remove (`id`) plans. Blocks; raises nothing."""
        ...

    def describe(self, words: Mapping[str, str]) -> str:
        """Return for a person when and with which rights a plan would run, in lines; why it cannot be. Blocks."""
        ...

    def recover(self, call_id: str) -> ToolResult | None:
        """Return the plan that an earlier process made for a call, or None."""
        ...


@runtime_checkable
class Spaces(Protocol):
    """The spaces that the agent of a session takes part in."""

    def send(self, call: str, text: str, space: str, *, wait: bool) -> ToolResult:
        """Post a message in `space` ("": the active one), once for each `call`; with `wait` the run waits for an
        answer."""
        ...

    def reply(self, call: str, message: str, text: str) -> ToolResult:
        """Answer a message, by its id, in its space."""
        ...

    def enter(self, space: str) -> ToolResult:
        """Make a space the active one."""
        ...

    def read(self, space: str, before: str, limit: int) -> ToolResult:
        """Return the newest messages of a space, or those before one."""
        ...

    def runs(self) -> ToolResult:
        """Return the runs of the agent."""
        ...

    def recover(self, call: str) -> ToolResult | None:
        """Return what became of a message that an earlier process began to send."""
        ...


class RunFacts(Protocol):
    """What a structured run knows of itself. Only the session of one has it."""

    def facts(self) -> Mapping[str, Any]:
        """Return the facts for the blocks of its requests, see `contributors/run_blocks.py`; raises `NexusError` where
        the ledger cannot be read. Blocking."""
        ...


@runtime_checkable
class StartLog(Protocol):
    """Records which calls began to run, across processes."""

    def record_start(self, call_id: str, name: str) -> None:
        """Record, before the tool runs."""

    def was_started(self, call_id: str) -> bool:
        """True if the call ever began to run."""
        ...


class Calibrations(Protocol):
    """The store of calibrations, one per model."""

    def calibration(self, model: str) -> Calibration:
        """Return what was learned of `model` so far."""
        ...

    def calibrate(self, model: str, value: Calibration) -> None:
        """Store what was learned."""


class Counts(Protocol):
    """The store of token counts by the hash of the text."""

    def stored_count(self, encoding: str, digest: bytes) -> int | None:
        """Return the stored count, or None."""
        ...

    def store_count(self, encoding: str, digest: bytes, tokens: int) -> None:
        """Store a count; may be committed later, may be lost."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Counts over entries that are not in the window."""

    turns: int = 0
    """Messages of the person, those given to a running turn included."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Results of tools by the name of the tool, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the person, or one step of it."""

    id: str
    """`g1`, `g2`, ... in a session."""
    text: str
    done: bool = False
    parent: str = ""
    """The goal that it is a step of; "" for a goal of its own."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One file that a session read or changed, by the most that it did with it."""

    path: str
    """Absolute, as the ledger has it."""
    how: str
    """`read`, `changed` or `created`: a file that the session created stays so whatever is done with it later."""
    digest: str
    """SHA-256 (hex) of what it held then."""
    at: str
    """When that was: ISO 8601, UTC."""
    entry: int
    """The newest entry of the main lane then: the message with the call."""
    disk: str = "same"
    """The file now, compared with then: `same`, `changed`, or `gone`."""
    moment: str = ""
    """When it was changed on disk, local time; "" unless `disk` is `changed`."""
