"""`nexus timeline --json`."""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types.report_types import EntityObject, RunObject


class TimelineCall(TypedDict):
    """A call of a message."""

    id: str
    name: str
    subject: str


class TimelineRow(TypedDict):
    """An event. The keys from `calls` on depend on `kind`."""

    at: str
    kind: str
    entry: int | None
    actor: EntityObject
    text: str
    why: str
    seen: bool | None
    trigger: dict[str, Any] | None
    tokens: int | None
    cost_usd: float | None
    seconds: float | None
    calls: NotRequired[list[TimelineCall]]
    call: NotRequired[str]
    subject: NotRequired[str]
    outcome: NotRequired[str]
    decision: NotRequired[str | None]
    answer: NotRequired[str | None]
    recalled: NotRequired[list[str]]
    attached: NotRequired[list[dict[str, Any]]]
    step: NotRequired[int]
    model: NotRequired[str]
    input: NotRequired[int | None]
    output: NotRequired[int | None]
    cache_read: NotRequired[int | None]
    finish: NotRequired[str]
    epoch: NotRequired[int]
    before: NotRequired[int | None]
    after: NotRequired[int | None]
    drop: NotRequired[str]
    recalls: NotRequired[int]
    worker: NotRequired[str]
    session: NotRequired[str | None]
    state: NotRequired[str]
    steps: NotRequired[int]
    lane: NotRequired[str]
    requests: NotRequired[int]
    until: NotRequired[str]
    run: NotRequired[str]
    signals: NotRequired[list[str]]
    signal: NotRequired[str]
    taken: NotRequired[bool]
    message: NotRequired[str]
    reply_to: NotRequired[str | None]
    waits: NotRequired[bool]
    origin: NotRequired[dict[str, Any] | None]
    runs: NotRequired[list[dict[str, Any]]]


class TimelineTotals(TypedDict):
    """Sums over a session, with its side lanes and workers."""

    rows: int
    entries: int
    requests: int
    tokens: int
    input: int
    output: int
    cache_read: int
    cost_usd: float | None
    known_usd: float
    drops: int


class TimelineReport(TypedDict):
    """`nexus timeline --json`."""

    version: Literal[1]
    session: str
    name: str
    model: str
    folder: str
    cursor: int
    """The last entry that was sent to the model."""
    earlier: int
    """Number of rows before the first one."""
    rows: list[TimelineRow]
    """Oldest first."""
    totals: TimelineTotals


class TimelineRun(RunObject):
    """A run with the number of its claims."""

    claims: int


class RunTimelineReport(TimelineReport):
    """`nexus timeline --run ID --json`."""

    run: TimelineRun


class TimelineSpace(TypedDict):
    """A space and its members."""

    id: str
    name: str
    members: list[EntityObject]


class SpaceTotals(TypedDict):
    """Sums over a space."""

    rows: int
    messages: int
    runs: int
    cost_usd: float


class SpaceTimelineReport(TypedDict):
    """`nexus timeline --space NAME --json`."""

    version: Literal[1]
    space: TimelineSpace
    reader: str | None
    earlier: int
    rows: list[TimelineRow]
    totals: SpaceTotals
