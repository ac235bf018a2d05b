"""Events of a session for its front ends: one closed union, documented in `nexus docs json`.

A front end matches on the class and ends in `assert_never`; `kind` is the `type` of the JSON lines. Classes whose names
would clash with `core.message` end in `Event`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from nexus_cli.core.approval import SAY_INSTEAD, Answer, Question
from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage


@dataclass(frozen=True, slots=True)
class SessionStart:
    kind: ClassVar[str] = "session.start"
    session: str
    model: str
    recipe: str
    resumed: bool


@dataclass(frozen=True, slots=True)
class TurnStart:
    kind: ClassVar[str] = "turn.start"
    text: str
    """The message of the person; "" if a turn is resumed."""


@dataclass(frozen=True, slots=True)
class SteeringMessage:
    """A message that the person sent during the turn has entered the window."""

    kind: ClassVar[str] = "turn.steer"
    text: str


@dataclass(frozen=True, slots=True)
class StepStart:
    kind: ClassVar[str] = "step.start"
    step: int
    """Number of the request in the lane, from 1."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    kind: ClassVar[str] = "context.plan"
    plan: Mapping[str, Any]
    """Sections with tokens, budget, drops: the keys of `nexus docs json`."""


@dataclass(frozen=True, slots=True)
class Text:
    kind: ClassVar[str] = "text.delta"
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    kind: ClassVar[str] = "thinking.delta"
    text: str


@dataclass(frozen=True, slots=True)
class ToolQueue:
    """Calls of a step that wait for earlier ones; `tool.call` announces each when it begins."""

    kind: ClassVar[str] = "tool.queue"
    calls: tuple[ToolCall, ...]
    subjects: tuple[str, ...]
    """The main argument of each on one line."""


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    kind: ClassVar[str] = "tool.call"
    call: ToolCall
    subject: str
    """The main argument on one line."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    kind: ClassVar[str] = "tool.output"
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    kind: ClassVar[str] = "tool.result"
    call: ToolCall
    result: ToolResult
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    kind: ClassVar[str] = "approval.ask"
    question: Question


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    kind: ClassVar[str] = "approval.answer"
    call_id: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class ContextDrop:
    kind: ClassVar[str] = "context.drop"
    drop: Drop


@dataclass(frozen=True, slots=True)
class ContextRecall:
    kind: ClassVar[str] = "context.recall"
    drop_id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CacheExpectation:
    kind: ClassVar[str] = "cache.expect"
    tokens: int
    """Tokens of the request's beginning that the provider's cache should hold."""


@dataclass(frozen=True, slots=True)
class CacheResult:
    kind: ClassVar[str] = "cache.result"
    expected: int
    read: int
    """Tokens that the provider reported as read from its cache."""
    written: int
    missed: int = 0
    """Tokens of the previous request that were not read from the cache, for any reason."""
    cost_usd: float | None = None
    """Extra cost of the missed tokens in US dollars; None if a price is unknown."""
    why: str = ""
    """The reason of the miss on one line; "" without a miss."""
    ours: bool | None = None
    """True if nexus caused the miss; None without a miss or if unknown."""


@dataclass(frozen=True, slots=True)
class CompactionStart:
    kind: ClassVar[str] = "compaction.start"
    cause: str
    tokens: int


TOO_LITTLE = "there is too little to summarize"
"""`CompactionDone.why` where nothing was tried."""


@dataclass(frozen=True, slots=True)
class CompactionDone:
    kind: ClassVar[str] = "compaction.done"
    ok: bool
    before: int
    after: int
    why: str = ""
    """The reason if the summary was rejected, else ""."""
    kept: Mapping[str, Any] | None = None
    """The window's new content, None if the summary was rejected: `words`, `words_left`, `words_part`, `answers`,
    `answers_left`, `answers_part` (messages; `_part` of those `_left` are there in part), `files`, `commands`,
    `failing`, `record_left` (items), `rules` (sentences with standing instructions of the person), `summary` (tokens),
    `drops` (ids: all removed messages, then items that the record has no room for), `source`, `source_why`."""
    cut: bool = False
    """The summary was rejected, and older messages must be truncated because the window does not fit."""
    cost_usd: float | None = None
    """Cost of the summary's requests in US dollars, accepted or not; None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class Retry:
    kind: ClassVar[str] = "retry"
    attempt: int
    wait: float
    """Seconds."""
    why: str
    cut: bool = False
    """The reply had begun: its text so far is void, and starts again from the beginning."""


@dataclass(frozen=True, slots=True)
class Notice:
    kind: ClassVar[str] = "notice"
    text: str
    warning: bool = True
    """False for information that needs no action."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    kind: ClassVar[str] = "step.end"
    step: int
    finish: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class TurnEnd:
    kind: ClassVar[str] = "turn.end"
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker is queued, has started or has ended. Always within an `AgentEvent`."""

    kind: ClassVar[str] = "agent.state"
    worker: Mapping[str, Any]
    """Its current state: `id`, `call`, `task`, `state`, `steps`, `tokens`, `cost_usd`, `seconds`, `changed`,
    `worktree`, `folder`, `error` and others, see `RunningWorkers.rows`."""


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of a worker, emitted by its parent session. Its JSON is that of the event, plus `agent` and `lane`."""

    kind: ClassVar[str] = "agent"
    agent: str
    """Id of the worker: `w1`, or `w1.1` for a worker of `w1`."""
    lane: str
    """The worker's session; "" before it has one."""
    event: Event


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a turn, by default one that succeeded without a step."""

    ok: bool = True
    exit: int = 0
    text: str = ""
    """The text of the last step, possibly partial."""
    finish: str = "stop"
    error: Mapping[str, str] | None = None
    """`kind`, `message`, `hint`."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    denied: tuple[Mapping[str, str], ...] = ()
    """One per refused call: `id`, `tool`, `subject`, `why`, `allow`, `limit`, `by`, `hint`, see `session.outcome`."""
    changed: tuple[str, ...] = ()
    until: Mapping[str, Any] | None = None
    """The state of the work for a command (`--until`), as in the JSON result."""
    data: Any = None
    """The answer as JSON values, if it has to match a schema (`--schema`) and does."""
    retry_after: float | None = None
    """Seconds after which the provider, which is away, wants to be asked again, 0.0 if it did not say; None if the turn
    did not end by that."""

    @property
    def was_declined(self) -> bool:
        """True if the person stopped the turn by declining a call, to say what to do instead."""
        return self.error is not None and self.error.get("hint") == SAY_INSTEAD

    @property
    def has_failed(self) -> bool:
        """True unless the turn is ok or its run waits."""
        return not self.ok and (self.error or {}).get("kind") != "waiting"

    def with_error(self, error: NexusError) -> Outcome:
        """Return the outcome of a turn that `error` has ended."""
        told = cast("Mapping[str, str]", error.to_json())
        return replace(self, ok=False, exit=error.exit_status, finish=error.kind, error=told)


Event = (
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
    | ContextDrop
    | ContextRecall
    | CacheExpectation
    | CacheResult
    | CompactionStart
    | CompactionDone
    | Retry
    | Notice
    | StepEnd
    | TurnEnd
    | WorkerState
    | AgentEvent
)
