"""Compares JSON with the types that declare it (`core/json_schema.py`): no key too many, none missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin

from nexus_cli.cli.json_page import types_of_commands
from nexus_cli.core.json_schema import is_object, json_keys, json_type
from nexus_cli.rpc.methods import METHODS

find_types = cache(types_of_commands)
"""Returns the types by command, made once: a test asks for those of hundreds of lines."""


def list_verbs() -> set[str]:
    """Return the shell commands with `--json`, as `nexus pin list`."""
    return set(find_types())


def find_verb(line: str) -> str:
    """Return the shell command, of those with `--json`, that a command line gives; its noun may stand alone."""
    words = line.split()
    known = find_types()
    named = (command for command in known if f"{line} ".startswith(f"{command} "))
    first = next((command for command in known if command.split()[:2] == words[:2]), "")
    return max(named, key=len, default=first)


def problems_of_line(line: str, value: Any) -> list[str]:
    """Return where the object that a command line printed is of no type that its verb declares."""
    kinds = find_types()[find_verb(line)]
    return min(([*problems(value, kind, f"{line}: {kind.__name__}")] for kind in kinds), key=len)


def problems_of_result(method: str, value: Any) -> list[str]:
    """Return where the result of a method of the server is not of the type that it declares."""
    return [*problems(value, METHODS[method].result, method)]


def problems(value: Any, kind: Any, where: str = "") -> Iterator[str]:
    """Where `value` is not of type `kind`."""
    kind = json_type(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if is_object(kind):
        hints = json_keys(kind)
        required = {key for key, hint in hints.items() if get_origin(hint) is not NotRequired}
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is no object"
            return
        yield from (f"{where}.{key} is not promised" for key in value.keys() - hints.keys())
        yield from (f"{where}.{key} is missing" for key in required - value.keys())
        for key in value.keys() & hints.keys():
            yield from problems(value[key], hints[key], f"{where}.{key}")
    elif origin is Literal:
        if value not in parts or isinstance(value, bool) != isinstance(parts[0], bool):
            yield f"{where}: {value!r} is none of {parts}"
    elif origin in (UnionType, Union):
        if all(any(problems(value, part)) for part in parts):
            yield f"{where}: {value!r} is none of {parts}"
    elif origin in (list, tuple):
        for number, item in enumerate(value if isinstance(value, list) else [object()]):
            yield from problems(item, parts[0], f"{where}[{number}]")
    elif origin is dict:
        for key, item in value.items() if isinstance(value, dict) else [("", object())]:
            yield from problems(item, parts[1], f"{where}.{key}")
    else:
        good = (int, float) if kind is float else kind
        if not isinstance(value, good) or (isinstance(value, bool) and kind is not bool):
            yield f"{where}: {value!r} is no {kind.__name__}"
