"""The JSON of events and results (`nexus docs json`), for `--stream-json` and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, cast

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Drop, DropObject
from nexus_cli.core.errors import ErrorObject, NexusError
from nexus_cli.core.event import (
    AgentEvent,
    ApprovalAnswer,
    ApprovalRequest,
    ContextDrop,
    DeniedCall,
    Event,
    Outcome,
    StreamLine,
    UncoveredPath,
    UntilObject,
)
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, to_json_value
from nexus_cli.core.usage import Usage


class ContextFigures(TypedDict):
    """The use of the window."""

    window: int
    budget: int
    used: int
    basis: str
    """`reported` by the provider, `estimate`, or `reported+estimate`."""
    epoch: int


class AskResult(TypedDict):
    """The result of one turn: `nexus ask --json`, and the last line of `--stream-json`."""

    type: Literal["result"]
    version: Literal[1]
    ok: bool
    exit: int
    """The exit status."""
    text: str
    """The text of the last step; with `--schema`, only the JSON document."""
    data: Any
    """With `--schema`: the answer as JSON. null without it, or if the answer does not match."""
    finish: str
    """`stop`, or the kind of the error. `limit` with `ok` true: an agent of a server has used up its budget, and `text`
    is its report."""
    session: str | None
    """null if none was opened."""
    model: str | None
    steps: int
    """Requests."""
    seconds: float
    usage: JsonOf[Usage]
    context: ContextFigures | None
    drops: list[JsonOf[DropObject]]
    """The drops of this turn."""
    denied: list[DeniedCall]
    files_changed: list[str]
    error: ErrorObject | None
    until: NotRequired[UntilObject]
    """Only in a turn with `--until`."""
    not_covered: NotRequired[list[UncoveredPath]]
    """Paths that undo cannot restore if the turn's commands changed them; absent if undo covers everything."""


class ResultLine(StreamLine, AskResult):
    """Always the last line."""


def failure_result(error: NexusError) -> AskResult:
    """Return the result object of a run that failed before it had a session."""
    return result_of(Outcome().with_error(error))


def result_of(
    outcome: Outcome,
    session: str | None = None,
    model: str | None = None,
    context: ContextFigures | None = None,
    drops: Iterable[Drop] = (),
) -> AskResult:
    """Return the result object of a turn; `drops` are those of the turn."""
    values = {
        **to_json_value(outcome),
        "type": "result",
        "version": 1,
        "session": session,
        "model": model,
        "context": context,
        "drops": to_json_value(list(map(DropObject, drops))),
        "files_changed": list(outcome.changed),
    }
    keys = [key for key in AskResult.__annotations__ if key not in ("until", "not_covered") or values[key]]
    return cast("AskResult", {key: values[key] for key in keys})


def event_value(event: Event) -> tuple[str, JsonObject]:
    """Return type and fields of `event`."""
    mark, worker = {}, ""
    if isinstance(event, AgentEvent):
        worker = event.agent
        mark, event = {"agent": event.agent, "lane": event.lane}, event.event
    extra_keys: JsonObject = {}
    if isinstance(event, ApprovalRequest | ApprovalAnswer | ContextDrop):
        extra_keys = event.line_keys(worker)
    return event.kind, {**mark, **extra_keys, **to_json_value(event)}


@dataclass
class EventNumbers:
    """Makes the lines of one stream, numbered from 0 without gaps."""

    clock: Callable[[], datetime] = local_now
    next: int = 0

    def event_line(self, event: Event) -> JsonDict:
        """Return the line of `event`."""
        return self.line(*event_value(event))

    def line(self, kind: str, value: JsonObject) -> JsonDict:
        """Return the next line of the stream, of type `kind` with the fields of `value`."""
        head = {"v": 1, "seq": self.next, "at": format_utc(self.clock()), "type": kind}
        self.next += 1
        return {**head, **{key: item for key, item in value.items() if key not in head}}
