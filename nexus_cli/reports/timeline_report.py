"""The values of `nexus timeline --json`: of a session, a run and a space."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from nexus_cli.core.json_value import JsonOf, ReportOfSession, VersionedReport
from nexus_cli.core.run import Entity
from nexus_cli.core.usage import Usage
from nexus_cli.reports.runs import RunObject


class TimelineCall(TypedDict):
    """A call of a message."""

    id: str
    name: str
    subject: str


class TimelineRow(TypedDict):
    """An event. The keys from `calls` on depend on `kind`."""

    at: str
    """"" if no time was recorded."""
    kind: str
    """For an entry `user`, `steer`, `assistant`, `tool`, `instruction`; else `start`, `fork`, `request`, the cause of
    an epoch (`compaction`, `overflow`, `truncation`, `pruned`, `model`, `reload`, `undo`, `restore`, `clear`),
    `compaction_failed`, `drop`, `pin`, `goal`, `hook`, `worker`, `lane`, `waiting`, `claimed`, `resumed`."""
    entry: int | None
    """Id of the entry."""
    actor: JsonOf[Entity]
    """Its type is `human`, `agent`, `tool` or `nexus`."""
    text: str
    """First line of the message or of the result, or a description of the event."""
    why: str
    """The reason of a decision on a call or of a rewrite."""
    seen: bool | None
    """False for an entry that the model was not sent yet; null for a row without an entry."""
    trigger: dict[str, Any] | None
    """The start of a turn: its `type` (`repl`, `ask`, `stdin`, `client`, `worker`, `plan`, `service`, `space_message`,
    `resume`) and its recorded fields."""
    tokens: int | None
    """For an entry nexus's own count; for a request or lane input and output; for a drop the tokens left out."""
    cost_usd: float | None
    """The cost of a request, a lane or a worker; null if unknown."""
    seconds: float | None
    """Of a call, a request, a worker or a hook."""
    calls: NotRequired[list[TimelineCall]]
    call: NotRequired[str]
    subject: NotRequired[str]
    outcome: NotRequired[str]
    decision: NotRequired[str | None]
    answer: NotRequired[str | None]
    recalled: NotRequired[list[str]]
    """Ids of drops."""
    attached: NotRequired[list[dict[str, Any]]]
    step: NotRequired[int]
    model: NotRequired[str]
    input: NotRequired[int | None]
    output: NotRequired[int | None]
    cache_read: NotRequired[int | None]
    finish: NotRequired[str]
    epoch: NotRequired[int]
    before: NotRequired[int | None]
    """Tokens of the last request before a rewrite."""
    after: NotRequired[int | None]
    """Tokens of the first request after a rewrite."""
    drop: NotRequired[str]
    """Its id, for `recall` and `nexus drops show`."""
    recalls: NotRequired[int]
    worker: NotRequired[str]
    session: NotRequired[str | None]
    state: NotRequired[str]
    steps: NotRequired[int]
    lane: NotRequired[str]
    """The agent of a lane beside the conversation."""
    requests: NotRequired[int]
    until: NotRequired[str]
    """The time at which the run continues without the event; "" for never."""
    run: NotRequired[str]
    signals: NotRequired[list[str]]
    """Kinds of events that the run waited for."""
    signal: NotRequired[str]
    taken: NotRequired[bool]
    message: NotRequired[str]
    reply_to: NotRequired[str | None]
    waits: NotRequired[bool]
    origin: NotRequired[dict[str, Any] | None]
    runs: NotRequired[list[dict[str, Any]]]


class TimelineTotals(JsonOf[Usage]):
    """Sums over a session, with its side lanes and workers."""

    rows: int
    entries: int
    requests: int
    tokens: int
    known_usd: float
    """The sum of the known costs."""
    saved_usd: float
    """Dollars that the cache saved, as far as it is known."""
    drops: int


class TimelineReport(ReportOfSession):
    """`nexus timeline --json`."""

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
    members: list[JsonOf[Entity]]


class SpaceTotals(TypedDict):
    rows: int
    messages: int
    runs: int
    cost_usd: float


class SpaceTimelineReport(VersionedReport):
    """`nexus timeline --space NAME --json`."""

    space: TimelineSpace
    reader: str | None
    earlier: int
    rows: list[TimelineRow]
    totals: SpaceTotals
