"""Describe JSON by the types that declare it: a `TypedDict`, or a dataclass such as an event (`core/event.py`).

For `nexus docs json`, `/openrpc.json` and the tests. The keys of a dataclass are its fields. `Annotated` names the type
that a value has in JSON, as a string where its module cannot be imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from nexus_cli.core.event import LineEvent
from nexus_cli.core.json_types import ask_result, stream_lines
from nexus_cli.core.message import ToolCall

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_DECLARED = {**vars(ask_result), **vars(stream_lines), "LineEvent": LineEvent, "ToolCall": ToolCall}
"""The types by name that are annotated without importing them."""


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class or function, with `Annotated` and `NotRequired`."""
    return get_type_hints(kind, localns=_DECLARED, include_extras=True)


def json_type(kind: Any) -> Any:
    """Return the type of `kind` in JSON: a `TypedDict` or dataclass for an object, `list` for a tuple."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return json_type(_DECLARED[parts[1]] if isinstance(parts[1], str) else parts[1])
    if origin in (NotRequired, Required):
        return json_type(parts[0])
    if origin is Union or origin is UnionType:
        return Union[tuple(map(json_type, parts))]  # noqa: UP007  (of any number)
    if origin in (tuple, list, Sequence):
        return list[json_type(parts[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, json_type(parts[1])]  # type: ignore[misc]
    if isinstance(kind, type) and hasattr(kind, "to_json"):
        return type_hints(kind.to_json)["return"]
    return str if isinstance(kind, type) and issubclass(kind, str) else kind


def declarations(kind: Any) -> tuple[Any, ...]:
    """Return the classes that declare the keys of an object; a later one replaces the keys of an earlier one."""
    if is_typeddict(kind):
        return (*filter(is_typeddict, getattr(kind, "__orig_bases__", ())), kind)
    if kind not in get_args(LineEvent):
        return (kind,)
    more = (type_hints(kind.line_keys)["return"],) if hasattr(kind, "line_keys") else ()
    return (stream_lines.StreamLine, *more, kind)


def json_keys(kind: Any) -> dict[str, Any]:
    """Return the keys of an object with their types; a key that may be absent is `NotRequired`."""
    if is_typeddict(kind):
        hints = {key: json_type(hint) for key, hint in type_hints(kind).items()}
        return {key: hint if key in kind.__required_keys__ else NotRequired[hint] for key, hint in hints.items()}
    tags = {"type": getattr(kind, "kind", None), "answer": getattr(kind, "answer", None)}
    parts = [json_keys(base) for base in declarations(kind)[:-1]]
    parts.insert(1, {key: Literal[tag] for key, tag in tags.items() if isinstance(tag, str)})
    hints = type_hints(kind)
    parts.append({one.name: json_type(hints[one.name]) for one in fields(kind) if "unshown" not in one.metadata})
    return {key: hint for part in parts for key, hint in part.items()}


def is_object(kind: Any) -> bool:
    """Return True for a type whose JSON is an object with known keys."""
    return is_typeddict(kind) or (isinstance(kind, type) and is_dataclass(kind))


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of `kind`, with nested types inline. Additional keys are allowed."""
    kind = json_type(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin in (UnionType, Union):
        return {"anyOf": [json_schema(part) for part in parts]}
    if origin is list:
        return {"type": "array", "items": json_schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": json_schema(parts[1])}
    if is_object(kind):
        keys = json_keys(kind)
        found = {"type": "object", "properties": {name: json_schema(value) for name, value in keys.items()}}
        return found | {"required": [name for name, value in keys.items() if get_origin(value) is not NotRequired]}
    return {"type": NAMES[kind]}
