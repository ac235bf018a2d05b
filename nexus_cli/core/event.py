"""Events of a session for its front ends: one closed union, from which `nexus docs json` is made.

A front end matches on the class and ends in `assert_never`. A line of JSON has the `kind` of its event as `type`, and
the fields of the class: their docstrings are the texts of the page. A field whose JSON has another type names that
(`Annotated`), `line_keys` adds keys. Classes whose names would clash with `core.message` end in `Event`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict, cast

from nexus_cli.core.approval import SAY_INSTEAD, Answer, PersonQuestion, Question
from nexus_cli.core.entry import Drop, DropObject
from nexus_cli.core.errors import ErrorObject, NexusError
from nexus_cli.core.json_value import JsonObject, JsonOf, to_json_value
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage


class StreamLine(TypedDict):
    """The fields of every line. Ignore unknown types and keys."""

    v: Literal[1]
    seq: int
    """From 0, without gaps."""
    at: str
    """ISO 8601, UTC."""
    agent: NotRequired[str]
    """The worker that the event is from, such as `w1`."""
    lane: NotRequired[str]
    """The session of that worker."""


class QuestionKey(TypedDict):
    """The further key of `approval.ask` and `approval.answer`."""

    id: str
    """For `approve`: the id of the call, for a worker's call preceded by the worker: `w1:c3`."""


def question_id(call_id: str, worker: str) -> str:
    """Return the id of a question: the id of its call; for a worker's call, behind the worker's name."""
    return f"{worker}:{call_id}" if worker else call_id


@dataclass(frozen=True, slots=True)
class SessionStart:
    """A session was opened."""

    kind: ClassVar[str] = "session.start"
    session: str
    model: str
    recipe: str
    resumed: bool


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins."""

    kind: ClassVar[str] = "turn.start"
    text: str
    """The message of the person; empty if a turn is resumed."""


@dataclass(frozen=True, slots=True)
class SteeringMessage:
    """A message sent during the turn has been delivered."""

    kind: ClassVar[str] = "turn.steer"
    text: str


@dataclass(frozen=True, slots=True)
class StepStart:
    """A request is prepared."""

    kind: ClassVar[str] = "step.start"
    step: int
    """Number of the request in the lane, from 1."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """The content of the request."""

    kind: ClassVar[str] = "context.plan"
    plan: Annotated[JsonObject, "engine.turn.PlanObject"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the answer."""

    kind: ClassVar[str] = "text.delta"
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Text of the model's reasoning."""

    kind: ClassVar[str] = "thinking.delta"
    text: str
    seconds: float = 0.0
    """The time that thinking of the past took, which is whole; 0 in a running turn."""


@dataclass(frozen=True, slots=True)
class ToolQueue:
    """Calls of a step that wait for earlier calls; `tool.call` announces each when it begins."""

    kind: ClassVar[str] = "tool.queue"
    calls: tuple[ToolCall, ...]
    subjects: tuple[str, ...]
    """The main argument of each call, on one line."""


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A call begins."""

    kind: ClassVar[str] = "tool.call"
    call: ToolCall
    subject: str
    """The main argument on one line."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Live output of a call."""

    kind: ClassVar[str] = "tool.output"
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """A call has ended."""

    kind: ClassVar[str] = "tool.result"
    call: ToolCall
    result: ToolResult
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call waits for permission."""

    kind: ClassVar[str] = "approval.ask"
    question: Question

    def line_keys(self, worker: str) -> QuestionKey:
        """Return the further keys of its line, as an event of `worker` ("": of the session)."""
        return {"id": question_id(self.question.call.id, worker)}


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to `approval.ask`."""

    kind: ClassVar[str] = "approval.answer"
    call_id: str
    answer: Answer

    def line_keys(self, worker: str) -> QuestionKey:
        """Return the further keys of its line, as an event of `worker` ("": of the session)."""
        return {"id": question_id(self.call_id, worker)}


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """The model asks the person; the method `answer` takes the answers."""

    kind: ClassVar[str] = "question.ask"
    id: str
    questions: tuple[PersonQuestion, ...]


@dataclass(frozen=True, slots=True)
class PersonAnswered:
    """`question.ask` is answered, or waits no longer."""

    kind: ClassVar[str] = "question.answer"
    id: str


@dataclass(frozen=True, slots=True)
class ContextDrop:
    """Content was left out of a request."""

    kind: ClassVar[str] = "context.drop"
    drop: Drop

    def line_keys(self, worker: str) -> JsonOf[DropObject]:
        """Return the further keys of its line: those of a drop in a result."""
        return JsonOf(to_json_value(DropObject(self.drop)))


@dataclass(frozen=True, slots=True)
class ContextRecall:
    """The model read content that had been left out."""

    kind: ClassVar[str] = "context.recall"
    drop_id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CacheExpectation:
    """Tokens of the request expected in the provider's cache."""

    kind: ClassVar[str] = "cache.expect"
    tokens: int
    """Tokens of the request's beginning that the provider's cache should hold."""


@dataclass(frozen=True, slots=True)
class CacheResult:
    """Tokens of the request read from the cache."""

    kind: ClassVar[str] = "cache.result"
    expected: int
    read: int
    """Tokens that the provider reported as read from its cache."""
    written: int
    missed: int = 0
    """Tokens of the previous request that were not read from the cache, for any reason."""
    cost_usd: float | None = None
    """Extra cost of the missed tokens; null if a price is unknown."""
    why: str = ""
    """The reason of the miss on one line; empty without a miss."""
    ours: bool | None = None
    """True if nexus caused the miss; null without a miss or if unknown."""


@dataclass(frozen=True, slots=True)
class CompactionStart:
    """Older messages are summarized."""

    kind: ClassVar[str] = "compaction.start"
    cause: str
    tokens: int


NOTHING_TO_SUMMARIZE = "there is too little to summarize"
"""`CompactionDone.why` where nothing was tried."""


@dataclass(frozen=True, slots=True)
class CompactionDone:
    """The summary was accepted or rejected."""

    kind: ClassVar[str] = "compaction.done"
    ok: bool
    before: int
    after: int
    why: str = ""
    """The reason if the summary was rejected, else empty."""
    kept: JsonObject | None = None
    """The window's new content, null if the summary was rejected: `words`, `words_left`, `words_part`, `answers`,
    `answers_left`, `answers_part` (messages; `_part` of those `_left` are there in part), `files`, `commands`,
    `failing`, `record_left` (items), `rules` (sentences with standing instructions of the person), `summary` (tokens),
    `drops` (ids: all removed messages, then items that the record has no room for), `source`, `source_why`."""
    cut: bool = False
    """The summary was rejected, and older messages must be truncated because the window does not fit."""
    cost_usd: float | None = None
    """Cost of the summary's requests, accepted or not; null if a price is unknown."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A request is sent again."""

    kind: ClassVar[str] = "retry"
    attempt: int
    wait: float
    """Seconds."""
    why: str
    cut: bool = False
    """The text of the reply so far is void: it starts again from the beginning."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice for the person."""

    kind: ClassVar[str] = "notice"
    text: str
    warning: bool = True
    """False for information that needs no action."""
    undo: str = ""
    """The commands that undo what the notice reports. A command that begins with `/` needs the session at a
    terminal."""


@dataclass(frozen=True, slots=True)
class SessionAct:
    """Something happened in the session beside its messages and calls; only recorded sessions have most of these."""

    kind: ClassVar[str] = "session.act"
    act: str
    """`command` (a `!` command, or `/continue`), `files` (an undo, a redo or an applied worktree), `pin`, `goal`,
    `hook`, `level`, `job` (a background command has ended), `waiting`, `claimed` and `resumed` (an unattended run),
    `rewrite` and `compaction` (of the window, by `facts.epoch`), `compaction_failed`."""
    text: str
    by: str = "nexus"
    """`person`, `agent` or `nexus`."""
    line: str = ""
    """The line that a conversation shows of it, if it does."""
    why: str = ""
    seconds: float | None = None
    output: str = ""
    """The output of a `!` command."""
    facts: JsonObject = field(default_factory=dict)
    """Further facts by name, such as the `epoch` of a rewrite."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """A request has ended, with a complete reply or without."""

    kind: ClassVar[str] = "step.end"
    step: int
    finish: str
    """`interrupted` or the kind of the error for a request that failed."""
    usage: Usage

    @property
    def is_repeated(self) -> bool:
        """True if the request is sent once more in the same step of the turn."""
        return self.finish in ("cut", "overflow")


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The turn has ended."""

    kind: ClassVar[str] = "turn.end"
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker is queued, has started or has ended. Always an event of that worker."""

    kind: ClassVar[str] = "agent.state"
    worker: Annotated[JsonObject, "workers.worker.WorkerStateObject"]


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of a worker, emitted by its parent session. Its JSON is that of the event, plus `agent` and `lane`."""

    kind: ClassVar[str] = "agent"
    agent: str
    """Id of the worker: `w1`, or `w1.1` for a worker of `w1`."""
    lane: str
    """The worker's session; "" before it has one."""
    event: Event


class DeniedCall(TypedDict):
    """A refused tool call."""

    id: str
    tool: str
    subject: str
    """The main argument of the call, on one line."""
    why: str
    allow: str | None
    """The lowest level that would allow the call, by its former name; null if no level would, or if only `all` would
    and `rule` is narrower."""
    level: str | None
    """The same level by its present name: `ask`, `edit`, `auto` or `all`."""
    rule: str | None
    """An allow rule that would let the call run, for `nexus rules add`."""
    option: str | None
    """An option that would let the call run, such as `--add-dir DIR`."""
    limit: str
    """The limit that refused the call; empty if no limit did."""
    by: str
    """`rules`, `person`, `signals`, `plan` (plan mode), or the layers of the limit."""
    hint: str


class UncoveredPath(TypedDict):
    """A path that undo cannot restore; `.` is the whole project."""

    path: str
    why: str


class UntilObject(TypedDict):
    """The state of the work toward the command of `--until`."""

    command: str
    passed: bool
    """True if the command exited 0."""
    rounds: int
    """Runs of the command in this turn."""
    status: int | None
    """Exit status of the newest run; null before the first run."""
    left: list[str]
    """If the turn failed: the last lines of the newest run."""


PARTIAL = frozenset(
    ("aborted", "network", "provider", "rate_limit", "overloaded", "internal", "auth", "config", "usage")
)
"""Kinds of error after which the last text may be incomplete."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a turn."""

    ok: bool = True
    exit: int = 0
    text: str = ""
    """The text of the last step, possibly partial."""
    finish: str = "stop"
    error: Annotated[Mapping[str, str], ErrorObject] | None = None
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    denied: tuple[Annotated[Mapping[str, str], DeniedCall], ...] = ()
    """The refused calls."""
    changed: tuple[str, ...] = ()
    """Files that the turn changed."""
    not_covered: tuple[Annotated[Mapping[str, str], UncoveredPath], ...] = ()
    """Paths that undo cannot restore if the turn's commands changed them."""
    until: Annotated[JsonObject, UntilObject] | None = None
    """null without `--until`."""
    data: Any = None
    """With `--schema`: the answer as JSON, if it matches."""
    retry_after: float | None = None
    """If the provider is unavailable: the seconds that it asks clients to wait before they try again, 0 if it named
    none."""

    @property
    def was_declined(self) -> bool:
        """True if the person stopped the turn by declining a call, to say what to do instead."""
        return self.error is not None and self.error.get("hint") == SAY_INSTEAD

    @property
    def is_stopped(self) -> bool:
        """True if the person stopped the turn."""
        return self.was_declined or (self.error or {}).get("kind") == "aborted"

    @property
    def has_failed(self) -> bool:
        """True unless the turn is ok or its run waits."""
        return not self.ok and (self.error or {}).get("kind") != "waiting"

    @property
    def is_partial(self) -> bool:
        """True if the text may be incomplete: then it is not printed, but kept in the session."""
        return self.error is not None and self.error["kind"] in PARTIAL

    def without_partial_text(self) -> Outcome:
        """Return the outcome without a text that may be incomplete."""
        return replace(self, text="") if self.is_partial else self

    def with_error(self, error: NexusError) -> Outcome:
        """Return the outcome of a turn that `error` has ended."""
        error_object = cast("Mapping[str, str]", error.to_json())
        return replace(self, ok=False, exit=error.exit_status, finish=error.kind, error=error_object)


LineEvent = (
    SessionStart
    | TurnStart
    | SteeringMessage
    | StepStart
    | ContextPlan
    | Text
    | Thinking
    | ToolQueue
    | ToolCallEvent
    | ToolOutput
    | ToolResultEvent
    | ApprovalRequest
    | ApprovalAnswer
    | PersonAsked
    | PersonAnswered
    | ContextDrop
    | ContextRecall
    | CacheExpectation
    | CacheResult
    | CompactionStart
    | CompactionDone
    | Retry
    | Notice
    | SessionAct
    | StepEnd
    | TurnEnd
    | WorkerState
)
"""The events that are a line of JSON."""

RecordedEvent = CacheResult | CompactionDone | Notice | Retry | TurnEnd
"""The events that the ledger keeps for a replay: a person saw them, and no entry holds them."""

Event = LineEvent | AgentEvent
"""All events. The line of a worker's event has `agent` and `lane`."""


def without_worker(event: Event) -> Event:
    """Return the event itself, whether the session or a worker emits it."""
    return event.event if isinstance(event, AgentEvent) else event
