"""Restore values from their JSON: an event of a client's server, a step of a journal, the answer of an MCP server."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from nexus_cli.core.approval import Answer
from nexus_cli.core.event import AgentEvent, Event, LineEvent
from nexus_cli.core.json_schema import type_hints
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Message, from_record
from nexus_cli.core.usage import Cost

_KINDS: Mapping[str, type] = {argument.kind: argument for argument in get_args(LineEvent)}
_ANSWERS: Mapping[str, type] = {argument.answer: argument for argument in get_args(Answer)}


def read_event(line: JsonObject) -> Event | None:
    """Restore an event from a JSON line; return None for an unknown type.

    Raises `KeyError`, `TypeError` or `ValueError` if fields are missing or invalid.
    """
    event_type = _KINDS.get(str(line["type"]))
    if event_type is None:
        return None
    event: Event = read_value(event_type, line)
    if "agent" in line and "lane" in line:
        return AgentEvent(str(line["agent"]), str(line["lane"]), event)
    return event


def read_value(kind: Any, value: Any) -> Any:
    """Restore a value of type `kind` from the output of `to_json_value`, a message from that of `to_record`. Keys that
    the type lacks are left out. Raises as `read_event`."""
    if kind is str or kind is int or kind is bool:
        return value
    if kind is bytes:
        return b64decode(value)
    if kind is Message:
        return from_record(value)
    if kind is Cost and value is None:
        return Cost()
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"a value of {kind.__name__} must be an object")
        hints = type_hints(kind)
        return kind(**{f.name: read_value(hints[f.name], value[f.name]) for f in fields(kind) if f.name in value})
    if get_origin(kind) is tuple and not isinstance(value, list):
        raise TypeError(f"a value of {kind} must be a list")
    if not isinstance(value, dict | list) or get_origin(kind) is Annotated:
        return value
    parts = [part for part in get_args(kind) if part is not type(None)]
    if isinstance(kind, UnionType):
        answer = _ANSWERS[value["answer"]] if isinstance(value, dict) and "answer" in value else None
        return read_value(answer or parts[0], value)
    if get_origin(kind) in (tuple, Sequence):
        kinds = parts if get_origin(kind) is tuple and Ellipsis not in parts else parts[:1] * len(value)
        return tuple(read_value(*pair) for pair in zip(kinds, value, strict=True))
    return value
