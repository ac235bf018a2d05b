"""The values a conversation is made of: messages, tool calls, tool results.

Identity and time are an envelope around them (`nexus_cli.core.entry`); what a provider wants on the wire is made in
`nexus_cli.context.render`. Text is made storable here: a lone surrogate becomes U+FFFD.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nexus_cli.core.part import Part as Part
from nexus_cli.core.part import sound as sound


class Role(StrEnum):
    """Who speaks, in the words of Chat Completions."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def _sound_value(value: Any) -> Any:
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, Mapping):
        return {sound(str(key)): _sound_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound_value(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asked for."""

    id: str
    """Ours, unique in the session; the provider's own id is kept in `Opaque`."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw: str = ""
    """The argument text as it came, when it was no JSON object (then `arguments` is empty); else ""."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", sound(self.name))
        object.__setattr__(self, "arguments", _sound_value(self.arguments))
        object.__setattr__(self, "raw", sound(self.raw))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back. An error is for the model to repair: it is text, never an exception."""

    output: str = ""
    error: str = ""
    changed: tuple[str, ...] = ()
    """Files that the call created, changed or deleted, relative to the project where they lie in it."""
    full: str | None = None
    """The whole output where `output` is a part of it; kept in the ledger, shown by `recall`."""
    uncounted: int = 0
    """Bytes beyond the hard limit that were counted and not kept."""
    denied: bool = False
    """The call was refused by permission or by the person."""
    cites: str = ""
    """Id of the drop that this result is a recalled piece of, else ""."""
    status: int | None = None
    """Exit status of a command, for the person."""
    ran: bool = True
    """False when the call could not run (unknown tool, bad arguments, refused)."""
    diff: str = ""
    """What the call changed in files, as a unified diff; for the person, no part of the result's text."""

    @property
    def success(self) -> bool:
        """True when there is no error."""
        return not self.error

    @property
    def text(self) -> str:
        """What the model is shown: the error where there is one (after the output), else the output."""
        if self.error and self.output:
            return f"{self.output}\n{self.error}"
        return self.error or self.output


@dataclass(frozen=True, slots=True)
class Opaque:
    """What a provider wants back untouched: signed thinking, reasoning text, thought signatures, its own call ids."""

    provider: str
    model: str
    data: bytes
    """A JSON object, sent back only to this provider and model, never elided.

    Keys: `message` (fields to merge into the message), `calls` (our call id to the fields to merge into that call,
    among them `id`).
    """


@dataclass(frozen=True, slots=True)
class Message:
    """One message, by value."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    parts: tuple[Part, ...] = ()
    opaque: Opaque | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(self.role))
        object.__setattr__(self, "content", sound(self.content))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))


def to_record(message: Message) -> dict[str, Any]:
    """`message` as a JSON object for storage; absent fields are left out."""
    record: dict[str, Any] = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        record["calls"] = [
            {"id": c.id, "name": c.name, "arguments": c.arguments} | ({"raw": c.raw} if c.raw else {})
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        record["call"] = message.tool_call_id
    if message.parts:
        record["parts"] = [[p.media_type, base64.b64encode(p.data).decode(), p.name] for p in message.parts]
    if message.opaque is not None:
        o = message.opaque
        record["opaque"] = [o.provider, o.model, base64.b64encode(o.data).decode()]
    return record


def from_record(record: Mapping[str, Any]) -> Message:
    """The message that `to_record` wrote; `KeyError` or `ValueError` when the record is not one."""
    opaque = record.get("opaque")
    return Message(
        role=Role(record["role"]),
        content=record["content"],
        tool_calls=tuple(
            ToolCall(c["id"], c["name"], c["arguments"], c.get("raw", "")) for c in record.get("calls", ())
        ),
        tool_call_id=record.get("call"),
        parts=tuple(Part(kind, base64.b64decode(data), name) for kind, data, name in record.get("parts", ())),
        opaque=Opaque(opaque[0], opaque[1], base64.b64decode(opaque[2])) if opaque else None,
    )
