"""Make the JSON Schema of a `TypedDict` or a dataclass, for `/openrpc.json`."""

from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of `kind`, with nested types inline. Additional keys are allowed."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in (NotRequired, Required):
        return json_schema(parts[0])
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin in (UnionType, Union):
        return {"anyOf": [json_schema(part) for part in parts]}
    if origin in (list, tuple):
        return {"type": "array", "items": json_schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": json_schema(parts[1])}
    if is_typeddict(kind) or is_dataclass(kind):
        fields = get_type_hints(kind)
        found = {"type": "object", "properties": {name: json_schema(value) for name, value in fields.items()}}
        required = getattr(kind, "__required_keys__", fields)
        return found | {"required": [name for name in fields if name in required]}
    return {"type": _NAMES[kind]}
