"""The JSON of events and results (`nexus docs json`), for `--stream-json` and the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from pathlib import PurePath
from types import UnionType
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin, get_type_hints

from nexus_cli.core.approval import Allow, Defer, Deny, Question
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import AgentEvent, ApprovalAnswer, ApprovalRequest, ContextDrop, Event, ToolQueue
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.drop_list import drop_value

if TYPE_CHECKING:
    from nexus_cli.core.json_types.ask_result import AskResult, UsageObject

_OMITTED: Mapping[type, Sequence[str]] = {
    Question: ("run",),
    ToolCall: ("is_wrapped",),
    ToolResult: ("edits", "full", "memos", "outline", "parts"),
}
"""Fields that only the ledger, requests to the model, or a question at a terminal need; one may be 64 MiB long."""
_ANSWERS = {Allow: "allow", Deny: "deny", Defer: "defer"}


def to_json_value(value: Any) -> Any:
    """Convert `value` to JSON values: dataclasses become objects, without what `_OMITTED` names."""
    if isinstance(value, Usage):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        omitted = _OMITTED.get(type(value), ())
        made = {f.name: to_json_value(getattr(value, f.name)) for f in fields(value) if f.name not in omitted}
        if type(value) in _ANSWERS:
            made = {"answer": _ANSWERS[type(value)], **made}
        return made
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(item) for item in value]
    return str(value) if isinstance(value, PurePath | datetime) else value


_KINDS: Mapping[str, type] = {one.kind: one for one in get_args(Event)}
_BY_ANSWER: Mapping[str, type] = {name: answer for answer, name in _ANSWERS.items()}


def read_event(line: Mapping[str, Any]) -> Event | None:
    """Restore an event from a JSON line; return None for an unknown type.

    Raises `KeyError`, `TypeError` or `ValueError` if fields are missing or invalid.
    """
    found = _KINDS.get(str(line["type"]))
    if found is None or found is AgentEvent:
        return None
    event: Event = _read_value(found, line)
    if "agent" in line and "lane" in line:
        return AgentEvent(str(line["agent"]), str(line["lane"]), event)
    return event


def _read_value(kind: Any, value: Any) -> Any:
    """Restore a value of type `kind` from the output of `to_json_value`."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
        hints = _field_types(kind)
        made = {f.name: _read_value(hints[f.name], value[f.name]) for f in fields(kind) if f.name in value}
        if kind is Usage and not made.get("cost"):
            made.pop("cost", None)
        return kind(**made)
    if isinstance(kind, UnionType):
        if value is None or not parts:
            return value
        answer = isinstance(value, Mapping) and set(parts) == set(_ANSWERS)
        return _read_value(_BY_ANSWER[value["answer"]] if answer else parts[0], value)
    if get_origin(kind) is tuple and isinstance(value, list):
        each = parts[:1] * len(value) if Ellipsis in parts else parts
        return tuple(_read_value(*pair) for pair in zip(each, value, strict=True))
    return value


@cache
def _field_types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def failure_result(error: NexusError) -> AskResult:
    """Return the result object of a run that failed before it had a session."""
    return {
        "type": "result",
        "version": 1,
        "ok": False,
        "exit": error.exit_status,
        "text": "",
        "data": None,
        "finish": "",
        "session": None,
        "model": None,
        "steps": 0,
        "seconds": 0.0,
        "usage": cast("UsageObject", Usage().to_json()),
        "context": None,
        "drops": [],
        "denied": [],
        "files_changed": [],
        "error": error.to_json(),
    }


def question_id(call_id: str, worker: str) -> str:
    """Return the id of a question: the id of its call; for a worker's call, behind the worker's name."""
    return f"{worker}:{call_id}" if worker else call_id


def event_value(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Return type and fields of `event`; None if `nexus docs json` has no such type."""
    mark, worker = {}, ""
    if isinstance(event, AgentEvent):
        worker = event.agent
        mark, event = {"agent": event.agent, "lane": event.lane}, event.event
    if isinstance(event, ToolQueue):
        return None
    same: Mapping[str, Any] = drop_value(event.drop) if isinstance(event, ContextDrop) else {}
    if isinstance(event, ApprovalRequest | ApprovalAnswer):
        call = event.question.call.id if isinstance(event, ApprovalRequest) else event.call_id
        same = {"id": question_id(call, worker)}
    return event.kind, {**mark, **same, **to_json_value(event)}


@dataclass
class EventNumbers:
    """Makes the lines of one stream, numbered from 0 without gaps."""

    clock: Callable[[], datetime] = local_now
    next: int = 0

    def event_line(self, event: Event) -> dict[str, Any] | None:
        """Return the line of `event`, None if it has none."""
        found = event_value(event)
        return None if found is None else self.line(*found)

    def line(self, kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next line of the stream, of type `kind` with the fields of `value`."""
        head = {"v": 1, "seq": self.next, "at": format_utc(self.clock()), "type": kind}
        self.next += 1
        return {**head, **{key: to_json_value(item) for key, item in value.items() if key not in head}}
