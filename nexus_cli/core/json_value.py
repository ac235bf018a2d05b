"""Values as JSON has them: what is reported is the value itself, and `core/json_schema.py` describes it.

A dataclass becomes an object with its fields. One whose JSON differs lists its keys in `json_fields`, separated by
spaces: `KEY`, `KEY:PATH` for what is found at a path of attributes (null behind one that is None), `*:PATH` for all
keys of the value there. `JsonOf` is the type of such an object.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from pathlib import PurePath
from typing import Any, Generic, Literal, TypedDict, TypeGuard, TypeVar

V = TypeVar("V")
JsonObject = Mapping[str, Any]
"""An object as JSON has it: a report, an event, a row of a list."""
JsonDict = dict[str, Any]
"""A `JsonObject` whose keys can be set."""
ABSENT: Any = None
"""Default of a key of a `JsonOf` that may be absent."""
NESTED = (Mapping, list, tuple)
"""Types of arrays and objects."""
MOST_DEPTH = 64
"""Most levels of arrays and objects in an answer, in the arguments of a call, and in files of settings."""


class VersionedReport(TypedDict):
    """The object of a command with `--json`."""

    version: Literal[1]


class ReportOfSession(VersionedReport):
    """A report on one session."""

    session: str


class JsonOf(JsonDict, Generic[V]):
    """The JSON of a dataclass. A subclass declares more keys by annotations, see `ABSENT`."""


def is_number(value: object) -> TypeGuard[float]:
    """True for a number of JSON, which no boolean is."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compact(value: Any) -> str:
    """Return `value` as compact JSON, unknown types as `repr`; `{}` if it cannot be written. Never raises."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except Exception:  # the `repr` of a value that JSON does not have may raise anything
        return "{}"


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list | tuple) else value


def is_nested_within(value: object, levels: int) -> bool:
    """Return True if at most `levels` arrays and objects are nested in each other."""
    level = [value]
    for _ in range(levels + 1):
        tables = [node.values() if isinstance(node, Mapping) else node for node in level if isinstance(node, NESTED)]
        if not tables:
            return True
        level = [inner for table in tables for inner in table]
    return False


def parse_nested(parse: Callable[[str], V], text: str, levels: int = MOST_DEPTH) -> V:
    """Return `parse(text)`, of JSON or TOML; raise its `ValueError`, or one for more than `levels` levels."""
    try:
        value = parse(text)
        is_fit = is_nested_within(value, levels)
    except RecursionError:
        is_fit = False
    if not is_fit:
        raise ValueError(f"nested too deeply: at most {levels} levels")
    return value


@cache
def json_field_paths(kind: Any) -> tuple[tuple[str, str], ...]:
    """Return the keys of a dataclass in JSON, each with the path of its value."""
    words = getattr(kind, "json_fields", "").split() or [field_.name for field_ in fields(kind)]
    return tuple((key, path or key) for key, _, path in (word.partition(":") for word in words))


def to_json_value(value: Any) -> Any:
    """Convert `value` to JSON values: an object for a dataclass, a list for a tuple, a sorted list for a set, a text in
    base64 for bytes."""
    if value is None or isinstance(value, str | int | float):  # most are
        return value
    if is_dataclass(value) and not isinstance(value, type):
        json_object: JsonDict = {}
        for key, path in json_field_paths(type(value)):
            item = value
            for name in path.split("."):
                item = None if item is None else getattr(item, name)
            item = to_json_value(item)
            json_object |= item if key == "*" else {key: item}
        return json_object
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(to_json_value, value))
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, PurePath | datetime) else value
