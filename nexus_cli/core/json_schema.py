"""Describe JSON by the types that declare it: a `TypedDict`, or a dataclass such as an event (`core/event.py`).

For `nexus docs json`, `/openrpc.json` and the tests. The keys of a dataclass are those of `core/json_value.py`.
`Annotated` names the type that a value has in JSON, by its path in the package where a higher room declares it.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, cached_property
from pathlib import PurePath
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from nexus_cli.core.event import LineEvent, StreamLine
from nexus_cli.core.json_value import JsonDict, JsonOf, json_field_paths

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class or function, with `Annotated` and `NotRequired`."""
    return get_type_hints(kind, include_extras=True)


def json_type(kind: Any) -> Any:
    """Return the type of `kind` in JSON: a `TypedDict` or dataclass for an object, `list` for a tuple or set."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return json_type(pkgutil.resolve_name(f"nexus_cli.{parts[1]}") if isinstance(parts[1], str) else parts[1])
    if origin in (NotRequired, JsonOf):
        return json_type(parts[0])
    if origin is Union or origin is UnionType:
        return Union[tuple(map(json_type, parts))]  # noqa: UP007  (of any number)
    if origin in (tuple, list, frozenset, Sequence):
        return list[json_type(parts[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, json_type(parts[1])]  # type: ignore[misc]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Literal[tuple(member.value for member in kind)]
    return str if isinstance(kind, type) and issubclass(kind, str | PurePath | datetime) else kind


def declared_keys(kind: Any) -> dict[str, tuple[Any, str]]:
    """Return the keys of an object, each with the class that declares it and the name that it has there."""
    if is_typeddict(kind) or _is_json_of(kind):
        bases = [json_type(base) for base in vars(kind).get("__orig_bases__", kind.__bases__)]
        own_keys = {key: (kind, key) for key in kind.__annotations__}
    else:
        bases = [StreamLine] if kind in get_args(LineEvent) else []
        own_keys = {"type": (kind, "kind")} if get_origin(type_hints(kind).get("kind")) is ClassVar else {}
        own_keys |= declared_keys(json_type(type_hints(kind.line_keys)["return"])) if hasattr(kind, "line_keys") else {}
        for key, path in json_field_paths(kind):
            *above, name = path.split(".")
            owner = kind
            for step in above:
                owner = _attribute_type(owner, step)
            own_keys |= declared_keys(_attribute_type(owner, name)) if key == "*" else {key: (owner, name)}
    return {
        key: keys for part in (*map(declared_keys, filter(is_object, bases)), own_keys) for key, keys in part.items()
    }


def _attribute_type(kind: Any, name: str) -> Any:
    """Return the annotation of a field, a property or a key; the value of a tag. Behind what may be None it may be None
    too."""
    if parts := get_args(kind):
        return Union[_attribute_type(parts[0], name), None]  # noqa: UP007  (a type that is known here alone)
    attribute = getattr(kind, name, None)
    getter = attribute.func if isinstance(attribute, cached_property) else getattr(attribute, "fget", None)
    hint = type_hints(getter)["return"] if getter else type_hints(kind)[name]
    return Literal[attribute] if get_origin(hint) is ClassVar else hint


def json_keys(kind: Any) -> dict[str, Any]:
    """Return the keys of an object with their types; a key that may be absent is `NotRequired`."""
    types = {}
    for key, (owner, name) in declared_keys(kind).items():
        hint = _attribute_type(owner, name)
        optional = owner.__optional_keys__ if is_typeddict(owner) else vars(owner) if _is_json_of(owner) else ()
        may_be_absent = name in optional or get_origin(hint) is NotRequired
        types[key] = NotRequired[json_type(hint)] if may_be_absent else json_type(hint)
    return types


def is_object(kind: Any) -> bool:
    """Return True for a type whose JSON is an object with known keys."""
    return is_typeddict(kind) or _is_json_of(kind) or (isinstance(kind, type) and is_dataclass(kind))


def _is_json_of(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, JsonOf) and kind is not JsonOf


def json_schema(kind: Any) -> JsonDict:
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
        schema = {"type": "object", "properties": {name: json_schema(value) for name, value in keys.items()}}
        return schema | {"required": [name for name, value in keys.items() if get_origin(value) is not NotRequired]}
    return {"type": NAMES[kind]}
