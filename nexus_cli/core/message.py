"""Messages, tool calls and tool results: the values of a conversation.

`nexus_cli.core.entry` adds identity and time, `nexus_cli.conversation.render` makes the wire form. The constructors
replace lone surrogates by U+FFFD, so that text can be stored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar

from nexus_cli.core.attachment import Part as Part
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.surrogates import replace_surrogates as replace_surrogates
from nexus_cli.core.wire import canonical

USE_TOOL = "use_tool"
"""The tool through which a model calls those whose schemas it was not sent; see `unwrap_call`."""
SAME = "[Unchanged"
"""Beginning of a result that refers to the same text above it."""
UNKNOWN_OUTCOME = "outcome unknown: the process ended while this ran. Look before you run it again."
"""Text of the result of a call whose process ended before the result was recorded."""


class Role(StrEnum):
    """The role of a message in Chat Completions."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def text_of(value: object, label: str) -> str:
    """Return `value` as storable text, None as ""; raise `TypeError`, which names `label`, for other types."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{label} must be text, not {type(value).__name__}")
    return replace_surrogates(value)


def _json_value(value: object) -> Any:
    """Convert `value` to storable JSON data; objects that JSON lacks become their `repr`."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(str(key)): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value if value is None or isinstance(value, int | float) else replace_surrogates(repr(value))


def _arguments(value: object, name: str) -> JsonObject:
    """Convert a call's arguments: a mapping, JSON of an object, None; else raise `TypeError` or `ValueError`."""
    label = f"arguments of the tool call {name!r}"
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{label} are not a JSON object: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"{label} are not a JSON object: {type(value).__name__}")
    if value is None or isinstance(value, str):
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{label} must be a mapping or JSON text, not {type(value).__name__}")
    arguments: JsonObject = _json_value(value)
    return arguments


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model."""

    json_fields: ClassVar = "id name arguments raw"
    id: str
    """Unique in the session; not the id of the provider."""
    name: str
    arguments: JsonObject = field(default_factory=dict)
    raw: str = ""
    """The original arguments if they were not a JSON object; `arguments` is then empty."""
    is_wrapped: bool = False
    """True if the model called the tool through `use_tool`, and every request has to show the call in this form."""
    arguments_text: str = field(init=False, repr=False, compare=False)
    """`arguments` in the canonical form."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise TypeError(f"id of a tool call must be text, not {type(self.id).__name__}")
        object.__setattr__(self, "id", replace_surrogates(self.id))
        object.__setattr__(self, "name", text_of(self.name, "name of a tool call"))
        object.__setattr__(self, "arguments", _arguments(self.arguments, self.name))
        object.__setattr__(self, "arguments_text", canonical(self.arguments).decode())
        object.__setattr__(self, "raw", text_of(self.raw, "raw arguments of a tool call"))

    @property
    def sent_name(self) -> str:
        """The name in requests."""
        return USE_TOOL if self.is_wrapped else self.name

    @property
    def sent_arguments(self) -> str:
        """The arguments in requests, in the canonical form."""
        payload = {"name": self.name, "arguments": self.arguments}
        return canonical(payload).decode() if self.is_wrapped else self.arguments_text

    @classmethod
    def of(cls, value: object) -> ToolCall:
        """Convert a mapping in our form or that of Chat Completions; else raise `TypeError` or `ValueError`."""
        if isinstance(value, ToolCall):
            return value
        if not isinstance(value, Mapping):
            raise TypeError(f"a tool call must be a ToolCall or a mapping, not {type(value).__name__}")
        inner = value.get("function", value)
        if not isinstance(inner, Mapping) or "id" not in value or "name" not in inner:
            raise ValueError("a tool call must have an id and a name")
        return cls(value["id"], inner["name"], inner.get("arguments", {}), inner.get("raw", ""))


def unwrap_call(call: ToolCall) -> ToolCall:
    """Return a call of `use_tool` as the call of the tool that it names, any other unchanged.

    Arguments may also be JSON text, as some models send them. Without arguments `use_tool` itself is called.
    """
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments")
    if call.name != USE_TOOL or len(call.arguments) != 2 or not isinstance(name, str):
        return call
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return call
    return unwrap_call(ToolCall(call.id, name, arguments, is_wrapped=True)) if isinstance(arguments, Mapping) else call


@dataclass(frozen=True, slots=True)
class FilePart:
    """The lines of one file in a result that shows several parts."""

    file: str
    """Absolute path."""
    first: int
    count: int
    total: int
    """Number of lines of the file."""
    number: int
    """Line number that the first line of the whole output would have; may be negative."""
    name: str = ""
    """Its path as the model wrote it."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The lines of one file that a call changed."""

    file: str
    """Absolute path."""
    changes: Sequence[tuple[int, int, int, int]]
    """Lines `start:end` of the old text that became `start:end` of the new one, as slices, in order."""
    total: int
    """Number of lines of the new text."""
    is_whole: bool = False
    """True if the call gave the whole new text."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. An error is text for the model, never an exception."""

    json_fields: ClassVar = """
        output error changed uncounted denied cites status ran stopped diff counts more pipe first_line file facts job
        warning waits
    """
    """The others are for the ledger or requests to the model, and may be 64 MiB long."""
    output: str = ""
    error: str = ""
    """The error if the call failed."""
    changed: tuple[str, ...] = ()
    """Files that the call created, changed or deleted, relative to the project if inside it."""
    full: str | None = None
    """The whole output if `output` is a part of it; stored in the ledger, read by `recall`."""
    uncounted: int = 0
    """Bytes beyond the hard limit, counted but not stored."""
    denied: bool = False
    """True if permission or the person refused the call."""
    cites: str = ""
    """Id of the drop of which this result is a recalled part, else ""."""
    status: int | None = None
    """Exit status of a command."""
    ran: bool = True
    """False if the call could not run (unknown tool, bad arguments, refused)."""
    stopped: bool = False
    """True if the turn was stopped during the call, or before it (`ran` is false then)."""
    diff: str = ""
    """The file changes of the call as a unified diff; not part of the text for the model."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By plural noun: `lines` (with `first` and `total` for a part of a file), `entries`, `matches`, `files`; of the
    attached images `images`, with `image_tokens`."""
    more: bool = False
    """True if a limit cut `counts`."""
    pipe: tuple[int, ...] = ()
    """Exit statuses of the parts of a command's last pipe; empty if all but the last (`status`) are 0."""
    first_line: int | None = None
    """Line number in the file of the first line of `output` (0: one line precedes the text); null if the output is not
    a file."""
    file: str = ""
    """Absolute path of the file whose text is in `output`, else ""."""
    parts: tuple[FilePart, ...] = ()
    """The files that `output` shows if they are several, or one in several parts."""
    edits: tuple[FileEdit, ...] = ()
    """The changed lines of files, from a tool that knows them."""
    outline: str = ""
    """Text for the model that precedes `output` if that is cut: where its definitions begin."""
    facts: tuple[str, ...] = ()
    """Ids of the remembered facts that the text names or states."""
    job: str = ""
    """Id of the background job in which the command continues, else ""."""
    warning: str = ""
    """What failed or was not done, in a few words for the person; "" if the call did all that was asked."""
    waits: JsonObject | None = None
    """The memo `WAIT` of the wait that begins with this result, as far as the tool knows it: the turn ends when every
    call of the step has its result."""
    memos: Mapping[str, JsonObject] = field(default_factory=dict)
    """Memos to record with the result, by kind."""
    images: tuple[tuple[str, bytes], ...] = ()
    """Media type and data of each image for the model, which follows the result in a message of its own."""

    def __post_init__(self) -> None:
        for name in ("output", "error", "cites", "diff", "warning"):
            object.__setattr__(self, name, text_of(getattr(self, name), f"{name} of a tool result"))
        if self.full is not None:
            object.__setattr__(self, "full", text_of(self.full, "full output of a tool result"))
        if isinstance(self.changed, str) or not all(isinstance(path, str) for path in self.changed):
            raise TypeError("changed files of a tool result must be a sequence of paths as text")
        object.__setattr__(self, "changed", tuple(self.changed))
        object.__setattr__(self, "pipe", tuple(self.pipe))
        object.__setattr__(self, "facts", tuple(self.facts))

    def with_line(self, line: str) -> ToolResult:
        """Return the result with a line behind its error, else behind its output."""
        if self.error:
            return replace(self, error=f"{self.error}\n{line}")
        return replace(self, output=f"{self.output.removesuffix(chr(10))}\n{line}".lstrip("\n"))

    @property
    def success(self) -> bool:
        """True if there is no error."""
        return not self.error

    @property
    def text(self) -> str:
        """Return the text for the model: output, then error."""
        if self.error and self.output:
            return f"{self.output}\n{self.error}"
        return self.error or self.output


_PLAIN_RESULT = ToolResult()
_TEXT_FIELDS = frozenset(
    {
        "output",
        "error",
        "full",
        "uncounted",
        "cites",
        "first_line",
        "file",
        "parts",
        "edits",
        "outline",
        "facts",
        "memos",
    }
)
"""Fields of a result that `result_note` omits: the entry records them, or only clipping and `read_note` need them."""


def result_note(result: ToolResult, seconds: float) -> JsonObject:
    """Return the parts of a result that its entry lacks: `seconds`, `error` (its length), fields other than the
    default."""
    names = (field_.name for field_ in fields(ToolResult) if field_.name not in _TEXT_FIELDS)
    extras = {name: value for name in names if (value := getattr(result, name)) != getattr(_PLAIN_RESULT, name)}
    return {"seconds": round(seconds, 1), "error": len(result.error), **extras}


def restore_result(text: str, note: JsonObject) -> tuple[ToolResult, float]:
    """Restore a result and its seconds from the text of its entry and its note, which may be empty."""
    names = {field_.name for field_ in fields(ToolResult)} - _TEXT_FIELDS
    kept_fields = {name: value for name, value in note.items() if name in names}
    error = text[-note["error"] :] if note.get("error") else ""
    output = text[: len(text) - len(error)].removesuffix("\n") if error else text
    return ToolResult(output=output, error=error, **kept_fields), float(note.get("seconds", 0.0))


@dataclass(frozen=True, slots=True)
class Opaque:
    """Data to send back to a provider unchanged: signed thinking, reasoning text, signatures, its own call ids."""

    provider: str
    model: str
    data: bytes
    """A JSON object, sent back only to this provider and model, never elided.

    Keys: `message` (fields to merge into the message), `calls` (our call id to the fields to merge into that call,
    among them `id`).
    """

    @property
    def thinking(self) -> str:
        """The readable thinking that is sent back, without signatures."""
        try:
            message = json.loads(self.data).get("message", {})
            blocks = message.get("thinking_blocks") or []
            texts = [message.get("reasoning_content"), *(block.get("thinking") for block in blocks)]
        except (ValueError, AttributeError, TypeError):
            return ""
        return "\n".join(text for text in texts if isinstance(text, str))


@dataclass(frozen=True, slots=True)
class Message:
    """One message, by value."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For a result: the id of its call."""
    parts: tuple[Part, ...] = ()
    opaque: Opaque | None = None

    @property
    def image_names(self) -> list[str]:
        """The names of its images; of one without a name the media type."""
        return [part.name or part.media_type for part in self.parts]

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(self.role))
        object.__setattr__(self, "content", text_of(self.content, "content of a message"))
        calls: object = self.tool_calls
        if not (isinstance(calls, tuple) and all(isinstance(call, ToolCall) for call in calls)):
            if isinstance(calls, str | Mapping | ToolCall) or not isinstance(calls, Iterable | None):
                raise TypeError(f"tool_calls of a message must be a sequence of calls, not {type(calls).__name__}")
            object.__setattr__(self, "tool_calls", tuple(map(ToolCall.of, calls or ())))
        if self.tool_call_id is not None:
            object.__setattr__(self, "tool_call_id", text_of(self.tool_call_id, "tool_call_id of a message"))
        object.__setattr__(self, "parts", tuple(self.parts or ()))
        if not all(isinstance(part, Part) for part in self.parts):
            raise TypeError("parts of a message must be Part values")
        if not isinstance(self.opaque, Opaque | None):
            raise TypeError(f"opaque of a message must be Opaque, not {type(self.opaque).__name__}")


def to_record(message: Message) -> JsonDict:
    """Return `message` as a JSON object for storage; empty fields are omitted."""
    record: JsonDict = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        record["calls"] = [
            {"id": c.id, "name": c.name, "arguments": c.arguments}
            | ({"raw": c.raw} if c.raw else {})
            | ({"wrapped": True} if c.is_wrapped else {})
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        record["call"] = message.tool_call_id
    if message.parts:
        record["parts"] = [
            [p.media_type, base64.b64encode(p.data).decode(), p.name, *filter(None, [p.origin])] for p in message.parts
        ]
    if message.opaque is not None:
        o = message.opaque
        record["opaque"] = [o.provider, o.model, base64.b64encode(o.data).decode()]
    return record


def from_record(record: JsonObject) -> Message:
    """Restore a message from `to_record`; raise `KeyError` or `ValueError` if the record is invalid. Further
    fields of a part, of a later version, are left out."""
    opaque = record.get("opaque")
    return Message(
        role=Role(record["role"]),
        content=record["content"],
        tool_calls=tuple(
            ToolCall(c["id"], c["name"], c["arguments"], c.get("raw", ""), c.get("wrapped", False))
            for c in record.get("calls", ())
        ),
        tool_call_id=record.get("call"),
        parts=tuple(Part(kind, base64.b64decode(data), *names[:2]) for kind, data, *names in record.get("parts", ())),
        opaque=Opaque(opaque[0], opaque[1], base64.b64decode(opaque[2])) if opaque else None,
    )
