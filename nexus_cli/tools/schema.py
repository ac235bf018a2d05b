"""Check a call's arguments against a tool's JSON Schema, and repair common mistakes of models.

Supports the subset that tools use: `type`, `required`, `properties`, `enum`, `items`, `minimum`, `maximum`,
`additionalProperties`. Unknown keywords are ignored, as JSON Schema requires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import EnumType
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from nexus_cli.core.elide import clip_text
from nexus_cli.core.errors import nearest_name
from nexus_cli.core.json_value import JsonDict, JsonObject, is_number, parse_nested
from nexus_cli.core.message import ToolCall
from nexus_cli.core.tool import Tool
from nexus_cli.core.wire import canonical

_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "array": list | tuple,
    "object": Mapping,
    "null": NoneType,
}
UNSENT_KEYWORDS = ("additionalProperties", "minimum")
"""Keywords of tool schemas that are not sent to the model if their value is a number or False."""
_MIN_SIMILARITY = 0.4
"""Least similarity of an unknown argument with one that takes its value."""
_LONGEST_QUOTE = 60
_EXCERPT_LENGTH = 120
"""Characters that are shown of arguments on each side of a mistake in their JSON."""


def check_arguments(value: Any, schema: JsonObject, path: str = "") -> tuple[Any, list[str]]:
    """Return the repaired arguments, or the value of the one at `path`, and a sentence for each remaining error.

    Repaired are `"5"` for an integer or number, `5.0` for an integer, `"true"` for a boolean, a number for a string,
    JSON text for an array or object, and null for an optional argument (which is removed).
    """
    label = f"`{path}`" if path else "the arguments"
    kinds = schema.get("type") or ()
    allowed = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if allowed and not any(_has_type(value, kind) for kind in allowed):
        value = _cast(value, allowed)
        if not any(_has_type(value, kind) for kind in allowed):
            expected = " or ".join(_NAMES.get(kind, kind) for kind in allowed)
            return value, [f"{label} must be {expected}, not {_quote(value)}"]
    faults = []
    if "enum" in schema and value not in schema["enum"]:
        faults.append(f"{label} must be one of {', '.join(map(_quote, schema['enum']))}, not {_quote(value)}")
    if _has_type(value, "number"):
        if "minimum" in schema and value < schema["minimum"]:
            faults.append(f"{label} must be at least {schema['minimum']}, not {_quote(value)}")
        if "maximum" in schema and value > schema["maximum"]:
            faults.append(f"{label} must be at most {schema['maximum']}, not {_quote(value)}")
    if isinstance(value, Mapping):
        properties, required = schema.get("properties", {}), schema.get("required", ())
        prefix, checked = f"{path}." if path else "", JsonDict()
        faults += [f"`{prefix}{name}` is required" for name in required if name not in value]
        for name, argument in value.items():
            inner = properties.get(name, schema.get("additionalProperties", True))
            if argument is None and name in properties and name not in required and not _allows_null(inner):
                continue
            checked[name] = argument
            if isinstance(inner, Mapping):
                checked[name], inner_faults = check_arguments(argument, inner, prefix + name)
                faults += inner_faults
            elif inner is False:
                faults.append(
                    f"`{prefix}{name}` is unknown{_find_misnamed_argument(name, argument, properties, value)}"
                )
        value = checked
    elif isinstance(value, list | tuple) and "items" in schema:
        checks = [check_arguments(element, schema["items"], f"{path}[{place}]") for place, element in enumerate(value)]
        value = [element for element, _ in checks]
        faults += [fault for _, inner_faults in checks for fault in inner_faults]
    return value, faults


@cache
def field_kinds(kind: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a dataclass, or of the parameters of a function, by name."""
    return get_type_hints(kind)


def make_arguments(kind: Any, value: Any) -> Any:
    """Return a checked value as what a field of type `kind` holds: an object as a dataclass, an array as a tuple. The
    field of an argument that Python has as a keyword is `in_`."""
    if isinstance(kind, UnionType):  # X | None, of which None is never given
        kind = get_args(kind)[0]
    if isinstance(value, Mapping):
        kinds = field_kinds(kind)
        names = {name.removesuffix("_"): name for name in kinds}
        return kind(**{names[name]: make_arguments(kinds[names[name]], argument) for name, argument in value.items()})
    if isinstance(value, list | tuple):
        return tuple(make_arguments(get_args(kind)[0], element) for element in value)
    return kind(value) if isinstance(kind, EnumType) else value


def read_arguments(call: ToolCall, tool: Tool) -> tuple[JsonObject, str]:
    """Return the repaired arguments of a call, and the error if they are no JSON object or have faults, else ""."""
    if call.raw:
        return {}, describe_unreadable(call.raw)
    arguments, faults = check_arguments(call.arguments, {} if tool.server else tool.parameters)
    why = f"bad arguments for {tool.name}: {'; '.join(faults)}" if faults else ""
    return arguments, f"{why}\n{describe_tool(tool)}" if why and tool.behind else why


def describe_tool(tool: Tool) -> str:
    """Return name, description and arguments of a tool whose schema a model may not have been sent."""
    return f"{tool.name}: {tool.description}\nArguments: {canonical(sent_schema(tool.parameters)).decode()}"


def sent_schema(schema: Any) -> Any:
    """Return a copy of a schema for the model, without `"additionalProperties": false`, `minimum`, and the rarely used
    arguments, `"sent": false`: dispatch checks all of them, and the words would cost tokens in every request."""
    if isinstance(schema, Mapping):
        unsaid = {
            key
            for key, part in schema.items()
            if (key in UNSENT_KEYWORDS and isinstance(part, int))
            or (isinstance(part, Mapping) and part.get("sent") is False)
        }
        return {key: sent_schema(part) for key, part in schema.items() if key not in unsaid}
    return [sent_schema(element) for element in schema] if isinstance(schema, list | tuple) else schema


def describe_unreadable(raw: str) -> str:
    """Return the error of arguments that are not a JSON object: whether they were cut off, or where they are wrong."""
    lead = "arguments are not a JSON object: "
    try:
        parse_nested(json.loads, raw)
    except json.JSONDecodeError as error:
        position = error.pos
        if position >= len(raw.rstrip()) or str(error).startswith("Unterminated string"):
            lead += (
                f"cut off after {len(raw):,} characters. Nothing ran: send the whole call again, long text in parts."
            )
            return f"{lead} They end in: {raw[-_EXCERPT_LENGTH:]}"
        around = raw[max(0, position - _EXCERPT_LENGTH) : position + _EXCERPT_LENGTH]
        return f"{lead}{error.msg} at character {position + 1}: {around}"
    except ValueError as error:  # a number that is too long: Python adds how to lift its limit
        return f"{lead}{str(error).partition(';')[0]}"
    return f"{lead}{raw[: 2 * _EXCERPT_LENGTH]}"


def _has_type(value: Any, kind: str) -> bool:
    """Return True if a value has the type of this name; any value has a type that is unknown."""
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _TYPES.get(kind, object))


def _allows_null(schema: JsonObject) -> bool:
    kinds = schema.get("type", "null")
    return "null" in ((kinds,) if isinstance(kinds, str) else kinds) or None in schema.get("enum", ())


def _cast(value: Any, kinds: Sequence[str]) -> Any:
    """Return a value that has none of the types `kinds` as the only one of them, unchanged if it cannot be one."""
    kind = kinds[0] if len(kinds) == 1 else ""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "string" and is_number(value):
        return json.dumps(value)
    if not isinstance(value, str) or kind in ("", "null"):
        return value
    try:
        parsed = json.loads(value.strip().lower() if kind == "boolean" else value)
    except (ValueError, RecursionError):
        return value
    if kind == "integer" and isinstance(parsed, float) and parsed.is_integer():
        parsed = int(parsed)
    return parsed if _has_type(parsed, kind) else value


def _find_misnamed_argument(name: str, value: Any, properties: JsonObject, arguments: JsonObject) -> str:
    """Return the argument that an unknown name may mean, preferably a missing one that accepts `value`."""
    free = [key for key, schema in properties.items() if key not in arguments and _accepts_value(schema, value)]
    parts = (key for key in properties if key in name.casefold() or name.casefold() in key)
    if near := nearest_name(name, free, _MIN_SIMILARITY) or nearest_name(name, properties) or next(parts, ""):
        return f"; did you mean `{near}`?"
    return f"; known: {', '.join(f'`{key}`' for key in properties)}" if properties else ""


def _accepts_value(schema: Any, value: Any) -> bool:
    return not (isinstance(schema, Mapping) and check_arguments(value, schema)[1])


def _quote(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return clip_text(text, _LONGEST_QUOTE, "...")
