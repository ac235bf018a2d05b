"""The lines of `nexus ask --stream-json`, which are also the events of the server.

Each has the fields of its class in `core/event.py`; `tests/program/test_json_types.py` compares the two.
"""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types.ask_result import AskResult, DeniedCall, ErrorObject, UntilObject, UsageObject
from nexus_cli.core.json_types.context_report import BudgetObject, SectionObject
from nexus_cli.core.json_types.setup_reports import CallObject, WorkerObject


class StreamLine(TypedDict):
    """The fields of every line. Ignore unknown types and keys."""

    v: Literal[1]
    seq: int
    """From 0, without gaps."""
    at: str
    """ISO 8601, UTC."""
    agent: NotRequired[str]
    """The worker whose event it is, such as `w1`."""
    lane: NotRequired[str]
    """The session of that worker."""


class ResultObject(TypedDict):
    """The result of a tool call."""

    output: str
    error: str
    """The error if the call failed."""
    changed: list[str]
    """Files that it created, changed or deleted."""
    uncounted: int
    """Bytes of output beyond the hard limit."""
    denied: bool
    cites: str
    """The drop that was recalled."""
    facts: list[str]
    """Ids of the remembered facts in it."""
    status: int | None
    """Exit status of a command."""
    ran: bool
    stopped: bool
    """True if the turn was stopped before the call had ended."""
    diff: str
    counts: dict[str, int]
    more: bool
    """True if a limit cut `counts`."""
    pipe: list[int]
    """Exit statuses of the parts of a pipe."""
    first_line: int | None
    file: str
    job: str
    """Id of the background job as which its command runs on, else ""."""
    warning: str
    """The part left undone; "" if it did all that was asked."""
    waits: dict[str, Any] | None
    """The wait that begins with this result."""


class QuestionObject(TypedDict):
    """A call that needs permission."""

    call: CallObject
    what: str
    why: str
    detail: str
    """A diff, or the whole command."""
    always: str
    """The scope of an answer for the session."""
    kind: str
    """`run`, `edit`, `outside`, `protected`, `network`, `later`, `send` or `confirm`."""
    stores: list[str]
    """Rules that can be stored."""
    profile: str
    """The sandbox profile of a command."""
    parts: list[dict[str, Any]]
    """Parts of a command, as in `nexus rules test --json`."""
    more_parts: int
    doubts: list[str]
    """Reasons to ask that are not in a part of the command."""
    rule: str
    agent: str
    """The worker that asks."""


class AllowObject(TypedDict):
    """Yes."""

    answer: Literal["allow"]
    always: bool
    stored: bool


class DenyObject(TypedDict):
    """No."""

    answer: Literal["deny"]
    why: str
    said: bool
    """False if nobody answered."""
    by: str
    stops: bool
    """The turn ends after this step."""


class DeferObject(TypedDict):
    """Not now: the call stays open."""

    answer: Literal["defer"]


class OutcomeObject(TypedDict):
    """The end of a turn."""

    ok: bool
    exit: int
    text: str
    finish: str
    error: ErrorObject | None
    steps: int
    usage: UsageObject
    seconds: float
    denied: list[DeniedCall]
    changed: list[str]
    until: UntilObject | None
    """null in a turn that works for no command."""
    data: Any
    """With `--schema`: the answer as JSON, if it matches."""
    retry_after: float | None
    """If the provider is away: seconds after which it wants to be asked again, 0 if it did not say."""


class DropDetails(TypedDict):
    """A drop as the ledger has it."""

    id: str
    what: str
    tokens: int
    cause: str
    at: str
    entries: list[int] | None
    """First and last entry left out."""
    text: str | None
    uncounted: int
    recalls: int
    after: int
    """The newest entry when it was left out."""


class PlanObject(TypedDict):
    """A request before it is sent."""

    step: int
    epoch: int
    basis: str
    budget: BudgetObject
    sections: list[SectionObject]
    entries: int
    drops: list[str]
    facts: list[dict[str, str]]
    limits: dict[str, Any]


class SessionStartLine(StreamLine):
    """A session was opened."""

    type: Literal["session.start"]
    session: str
    model: str
    recipe: str
    resumed: bool


class TurnStartLine(StreamLine):
    """A turn begins."""

    type: Literal["turn.start"]
    text: str
    """Empty if a turn is resumed."""


class TurnSteerLine(StreamLine):
    """A message sent during the turn has been delivered."""

    type: Literal["turn.steer"]
    text: str


class StepStartLine(StreamLine):
    """A request is prepared."""

    type: Literal["step.start"]
    step: int


class ContextPlanLine(StreamLine):
    """The content of the request."""

    type: Literal["context.plan"]
    plan: PlanObject


class TextDeltaLine(StreamLine):
    """Text of the answer."""

    type: Literal["text.delta"]
    text: str


class ThinkingDeltaLine(StreamLine):
    """Text of the model's reasoning."""

    type: Literal["thinking.delta"]
    text: str


class ToolCallLine(StreamLine):
    """A call begins."""

    type: Literal["tool.call"]
    call: CallObject
    subject: str


class ToolOutputLine(StreamLine):
    """Live output of a call."""

    type: Literal["tool.output"]
    call_id: str
    text: str


class ToolResultLine(StreamLine):
    """A call has ended."""

    type: Literal["tool.result"]
    call: CallObject
    result: ResultObject
    tokens: int
    seconds: float


class ApprovalAskLine(StreamLine):
    """A call waits for permission."""

    type: Literal["approval.ask"]
    id: str
    """For `approve`: the id of the call; for a worker's call with the worker before it, `w1:c3`."""
    question: QuestionObject


class ApprovalAnswerLine(StreamLine):
    """The answer to `approval.ask`."""

    type: Literal["approval.answer"]
    id: str
    """The id of the `approval.ask`."""
    call_id: str
    answer: AllowObject | DenyObject | DeferObject


class ContextDropLine(StreamLine):
    """Something was left out."""

    type: Literal["context.drop"]
    drop: DropDetails
    id: str
    what: str
    tokens: int
    cause: str
    recall: str
    uncounted_bytes: int
    recalls: int


class ContextRecallLine(StreamLine):
    """The model read something that was left out."""

    type: Literal["context.recall"]
    drop_id: str
    tokens: int


class CacheExpectLine(StreamLine):
    """Tokens of the request expected in the provider's cache."""

    type: Literal["cache.expect"]
    tokens: int


class CacheResultLine(StreamLine):
    """Tokens of the request read from the cache."""

    type: Literal["cache.result"]
    expected: int
    read: int
    written: int
    missed: int
    """Tokens of the previous request that were not read from the cache."""
    cost_usd: float | None
    """The extra cost of the miss."""
    why: str
    ours: bool | None
    """True if nexus caused the miss; null if unknown."""


class CompactionStartLine(StreamLine):
    """Older messages are summarized."""

    type: Literal["compaction.start"]
    cause: str
    tokens: int


class CompactionDoneLine(StreamLine):
    """The summary was accepted or rejected."""

    type: Literal["compaction.done"]
    ok: bool
    before: int
    after: int
    why: str
    kept: dict[str, Any] | None
    cut: bool
    cost_usd: float | None


class RetryLine(StreamLine):
    """A request is sent again."""

    type: Literal["retry"]
    attempt: int
    wait: float
    """Seconds."""
    why: str
    cut: bool
    """The text so far is void."""


class NoticeLine(StreamLine):
    """A notice for the person."""

    type: Literal["notice"]
    text: str
    warning: bool


class StepEndLine(StreamLine):
    """A reply is complete."""

    type: Literal["step.end"]
    step: int
    finish: str
    usage: UsageObject


class TurnEndLine(StreamLine):
    """The turn has ended."""

    type: Literal["turn.end"]
    outcome: OutcomeObject


class WorkerStateObject(WorkerObject):
    """A worker as it is now."""

    call: str
    """The call that started it."""
    model: str
    """Empty for that of its parent."""
    folder: str
    scope: dict[str, Any]
    """Its limits."""


class AgentStateLine(StreamLine):
    """A worker waits, works or has ended."""

    type: Literal["agent.state"]
    worker: WorkerStateObject


class ResultLine(StreamLine, AskResult):
    """Always the last line."""


EventLine = (
    SessionStartLine
    | TurnStartLine
    | TurnSteerLine
    | StepStartLine
    | ContextPlanLine
    | TextDeltaLine
    | ThinkingDeltaLine
    | ToolCallLine
    | ToolOutputLine
    | ToolResultLine
    | ApprovalAskLine
    | ApprovalAnswerLine
    | ContextDropLine
    | ContextRecallLine
    | CacheExpectLine
    | CacheResultLine
    | CompactionStartLine
    | CompactionDoneLine
    | RetryLine
    | NoticeLine
    | StepEndLine
    | TurnEndLine
    | AgentStateLine
)
"""Every line but the last."""
