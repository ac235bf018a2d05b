"""The page `json` of `nexus docs`, generated from events, the types of reports and results, and their docstrings."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin

from nexus_cli.cli.app import find_noun, list_help_lines
from nexus_cli.cli.run.map_journal import MapLine
from nexus_cli.cli.run.rehearse_turn import PriceReport
from nexus_cli.core.event import LineEvent, StreamLine
from nexus_cli.core.event_json import AskResult, ResultLine
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_schema import NAMES, declared_keys, is_object, json_keys, json_type
from nexus_cli.rpc import methods

LINES = (*get_args(LineEvent), ResultLine)
EVENTS = tuple(methods.EVENTS.values())
_INTRO = """# JSON

`--json` prints one object, `--stream-json` one object per line. New keys and types may appear at any time: ignore
those that you do not know. A key marked with `?` may be absent. Times are ISO 8601 in UTC, costs are in US dollars.
"""
_STREAM = """Each line of `nexus ask --stream-json` has these keys and those of its `type`. The last line is always the
result. The server sends the same objects as server-sent events (`nexus docs events`).
"""
_SERVER = """The results of `POST /rpc`; `GET /openrpc.json` lists the parameters and the same results as JSON Schema.
"""
_PLAIN = {**NAMES, Any: "any"}


def json_page() -> str:
    """Return the page as Markdown."""
    described: set[Any] = {StreamLine}
    page = [_INTRO, "## nexus ask --json", "", *_describe([AskResult], described)]
    page += ["## nexus ask --stream-json", "", _STREAM, *_table(StreamLine)]
    page += _describe(LINES, described)
    page += ["## nexus ask --price", "", *_describe([PriceReport], described)]
    page += ["## nexus map", "", *_describe([MapLine], described)]
    page += ["## Reports", ""]
    commands = group_pairs(
        (kind, f"`{command} --json`") for command, kinds in types_of_commands().items() for kind in kinds
    )
    page += _describe(commands, described, commands)
    page += ["## The server", "", _SERVER, "| method | result |", "|---|---|"]
    page += [f"| `{method.name}` | {method.result.__name__} |" for method in methods.METHODS.values()]
    page += ["", *_describe([method.result for method in methods.METHODS.values()], described)]
    return "\n".join(page)


def types_of_commands() -> dict[str, tuple[Any, ...]]:
    """Return the types of the objects that each shell command prints with `--json`, as its verb declares them."""
    nouns = filter(None, map(find_noun, chain(*list_help_lines().values())))
    return {
        f"nexus {noun.name} {verb.name}".strip(): _split_union(json_type(verb.value_type))
        for noun in nouns
        for verb in noun.verbs
        if verb.has_report
    }


def _split_union(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)


def event_tables() -> str:
    """Return a section with the keys of each event of the server, and of the objects in them."""
    described: set[Any] = {StreamLine}
    return "\n".join([*_table(StreamLine), *_describe(EVENTS, described)])


def _describe(kinds: Iterable[Any], described: set[Any], commands: Mapping[Any, Sequence[str]] = {}) -> Iterator[str]:
    """Yield the sections of types and of the types in their keys, except those in `described`, and add them to it. The
    `commands` print the object of a type."""
    for kind in kinds:
        if kind in described:
            continue
        described.add(kind)
        yield from (f"### {_name(kind).strip('`')}", "")
        yield from (f"{', '.join(commands[kind])}.", "") if kind in commands else ()
        yield from [inspect.cleandoc(kind.__doc__), ""] if kind.__doc__ else []
        yield from _table(kind)
        yield from _describe(_parts(kind), described, commands)


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the objects that the keys of `kind` contain."""
    for part in json_keys(kind).values() if is_object(kind) else get_args(kind):
        if is_object(part):
            yield part
        elif get_origin(part) is not Literal:
            yield from _parts(part)


def _table(kind: Any) -> list[str]:
    """Return the table of a type's keys; that of a line omits the keys that every line has."""
    owners = {key: (get_args(owner) or [owner], name) for key, (owner, name) in declared_keys(kind).items()}
    texts = {key: _texts_of_keys(owner).get(name, "") for key, ([owner, *_], name) in owners.items()}
    keys = json_keys(kind)
    if kind in EVENTS:
        keys = {key: hint for key, hint in keys.items() if key not in StreamLine.__annotations__}
    rows = [
        f"| `{key}`{'?' if get_origin(hint) is NotRequired else ''} | {_name(hint)} | {texts.get(key, '')} |"
        for key, hint in keys.items()
    ]
    return ["| key | type | |", "|---|---|---|", *rows, ""]


@cache
def _texts_of_keys(kind: Any) -> dict[str, str]:
    """Return the docstrings of the fields and properties of a class, from its source."""
    texts: dict[str, str] = {}
    module = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    classes = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    body = next((node.body for node in classes), [])
    for key, text in pairwise(body):
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            texts[ast.unparse(key.target)] = " ".join(str(text.value.value).split())
    texts |= {node.name: ast.get_docstring(node) or "" for node in body if isinstance(node, ast.FunctionDef)}
    return texts


def _name(kind: Any) -> str:
    """Describe a type in words: `list of DropObject`, `string or null`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        return _name(parts[0])
    if kind in EVENTS:
        return _name(json_keys(kind)["type"])
    if origin is Literal:
        return ", ".join(f"`{str(part).lower() if isinstance(part, bool) else part}`" for part in parts)
    if origin in (UnionType, Union):
        return " or ".join(_name(part) for part in parts)
    if origin in (list, tuple):
        return f"list of {_name(parts[0])}"
    if origin is dict:
        return "object" if parts[1] is Any else f"object of {_name(parts[1])}"
    return _PLAIN.get(kind) or str(kind.__name__)
