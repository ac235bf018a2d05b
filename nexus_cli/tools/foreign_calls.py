"""Translate calls that a model makes as other programs define them, by the table `foreign/names.json`.

A row fits if it uses every argument that is given, so that nothing a call asks for is lost; other calls stay as they
are. In a row's `arguments`, `$name` is the value of an argument, which must be there, `$name?` one that may be missing,
`$name!` one that must not be empty, and `$name:form` its value in another form (`_FORMS`); a text without `$` is meant
as it is.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from nexus_cli.core.json_value import JsonDict, JsonObject, is_number
from nexus_cli.core.message import ToolCall, unwrap_call
from nexus_cli.core.tool import Tool
from nexus_cli.tools.schema import check_arguments

PATCH_BEGIN = "*** Begin Patch"
ADD, UPDATE, DELETE, MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "
"""Headers of a patch, before a path."""
_MISSING: Any = object()
_SHELL_PATCH = re.compile(r"\s*(?:apply_patch|applypatch)\s*<<\s*(['\"]?)(\w+)\1\n(.*\n)\2\s*", re.DOTALL)
"""A patch as the here-document of a command line."""
_COMMAND_SEPARATORS = re.compile(r";|\n|\|\||(?<![&>])&(?!&)")
"""Signs that let a command line go on after its first command failed."""


class _Inexact(Exception):
    """A row does not say the same as the call."""


class _Tools(Protocol):
    def names(self) -> tuple[str, ...]: ...
    def get(self, name: str) -> Tool | None: ...


class ForeignCalls:
    """Translates the calls of one session, and mentions our name for each foreign one once."""

    def __init__(self, registry: _Tools) -> None:
        self._registry = registry
        self._names: dict[str, str] = {}
        """The name that the model used, by call id."""
        self._mentioned: set[str] = set()

    def translate(self, call: ToolCall, cwd: str = "") -> ToolCall:
        """Return `call` as one of a tool that there is, with the same id; unchanged if no row of the table fits, and
        under a name of ours unless its arguments do not fit. `cwd` is the folder in which commands run anyway."""
        if call.name in self._registry.names():
            tool = self._registry.get(call.name)
            if tool is not None and tool.server:
                return call
            fits = tool is None or call.raw or not check_arguments(call.arguments, tool.parameters)[1]
            if fits and not _SHELL_PATCH.fullmatch(str(call.arguments.get("command", ""))):
                return call
        call_arguments = {
            name: argument for name, argument in call.arguments.items() if name != "workdir" or argument != cwd
        }
        is_patch = call.raw.lstrip().startswith(PATCH_BEGIN)  # it may come as it is, without JSON
        if is_patch:
            call_arguments = {"input": call.raw}
        raw = "" if is_patch else call.raw  # arguments that were cut off are refused, not completed
        rows = _rows().get(call.name, ())
        for row in sorted(rows, key=lambda candidate: candidate["tool"] not in self._registry.names()) if raw else rows:
            if self._registry.get(row["tool"]) is None:
                continue
            try:
                arguments = {} if raw else _fill_row(row, call_arguments)
            except _Inexact:
                continue
            self._names[call.id] = call.name
            return unwrap_call(ToolCall(call.id, row["tool"], arguments, raw))
        return call

    def find_nearest(self, name: str) -> str | None:
        """Return the name of our tool that a foreign one stands for, None if the table lacks it."""
        return next((tool for tool in find_our_tools(name) if tool in self._registry.names()), None)

    def mention(self, call_id: str, ours: str) -> str:
        """Return a line with `ours` for the result of the first call under a foreign name, "" for any other call."""
        name = self._names.pop(call_id, ours)
        if name == ours or name in self._mentioned:
            return ""
        self._mentioned.add(name)
        return f"[{name} is {ours} here]"


@lru_cache(1)
def _rows() -> Mapping[str, Sequence[JsonObject]]:
    by_name: dict[str, list[JsonObject]] = {}
    for row in json.loads(Path(__file__).with_name("foreign").joinpath("names.json").read_text(encoding="utf-8")):
        for name in row["names"]:
            by_name.setdefault(name, []).append(row)
    return by_name


def find_our_tools(name: str) -> list[str]:
    """Return the names of our tools that a foreign one stands for, in the order of the table."""
    return list(dict.fromkeys(row["tool"] for row in _rows().get(name, ())))


def foreign_names(tool: str) -> list[str]:
    """Return the names that other programs have for our tool, in the order of the table."""
    return [name for name, rows in _rows().items() if any(row["tool"] == tool for row in rows)]


def foreign_arguments(name: str, tool: str, arguments: JsonObject) -> JsonDict:
    """Return arguments of our tool as those of the foreign one that the table translates to it; what has no counterpart
    there keeps our name, behind the others."""
    row = next((row for row in _rows().get(name, ()) if row["tool"] == tool), None)
    return _invert(row["arguments"], arguments) if row else dict(arguments)


def _invert(template: JsonObject, arguments: JsonObject) -> JsonDict:
    inverted, remaining = JsonDict(), dict(arguments)
    for ours, slot in template.items():
        value = arguments.get(ours)
        if isinstance(slot, str) and slot.startswith("$") and ours in arguments:
            word, _, form = slot.removeprefix("$").partition(":")
            inverted[word.rstrip("?!")] = 1000 * remaining.pop(ours) if form == "seconds" else remaining.pop(ours)
        elif isinstance(slot, list) and isinstance(value, list) and len(value) == 1:
            inverted |= _invert(slot[0], remaining.pop(ours)[0])
    return {**inverted, **remaining}


def _fill_row(row: JsonObject, arguments: JsonObject) -> JsonDict:
    conditions = row.get("if", {})
    if any(arguments.get(name) != value for name, value in conditions.items()):
        raise _Inexact
    filled: JsonDict = _fill_object(row["arguments"], arguments, {*conditions, *row.get("ignored", ())})
    return filled


def _fill_object(template: Any, arguments: JsonObject, used: set[str]) -> Any:
    """Fill `template`; raise `_Inexact` unless that uses all of `arguments` that says something."""
    filled = _fill(template, arguments, used)
    if any(name not in used and value not in (None, False, "") for name, value in arguments.items()):
        raise _Inexact
    return filled


def _fill(template: Any, arguments: JsonObject, used: set[str]) -> Any:
    if isinstance(template, str):
        return _take(template, arguments, used) if template.startswith("$") else template
    if isinstance(template, list):
        return [_fill(element, arguments, used) for element in template]
    if "each" in template:
        items = _take(template["each"], arguments, used)
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            raise _Inexact
        return [_fill_object(template["of"], item, set(template.get("ignored", ()))) for item in items]
    if "run" in template:
        return _run_in(_take(template["in"], arguments, used), _take(template["run"], arguments, used))
    if "pick" in template:
        picked = _take(template["pick"], arguments, used)
        if not isinstance(picked, str) or picked not in template["from"]:
            raise _Inexact
        return template["from"][picked]
    filled = {name: _fill(element, arguments, used) for name, element in template.items()}
    return {name: value for name, value in filled.items() if value is not _MISSING}


def _take(word: str, arguments: JsonObject, used: set[str]) -> Any:
    """Return the value that `$name`, `$name?`, `$name!` or `$name:form` stands for."""
    name, _, form = word.removeprefix("$").partition(":")
    name, mark = (name[:-1], name[-1]) if name[-1] in "?!" else (name, "")
    value = arguments.get(name)
    if value is None and mark == "?":
        return _MISSING
    if value is None or (mark == "!" and not value):
        raise _Inexact
    used.add(name)
    return _FORMS[form](value) if form else value


def _seconds(value: Any) -> int:
    """Convert milliseconds."""
    if not is_number(value) or not 0 < value < 1e12:
        raise _Inexact
    return math.ceil(value / 1000)


def _range(value: Any) -> tuple[int, int]:
    if isinstance(value, str) and (match := re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", value)):
        value = [int(match[1]), int(match[2] or match[1])]
    if not isinstance(value, list) or len(value) != 2 or not all(type(element) is int for element in value):
        raise _Inexact
    if value[0] < 1 or value[0] > value[1] != -1:
        raise _Inexact
    return value[0], value[1]


def _count(value: Any) -> Any:
    """Return the number of lines from the first to the last; the last may be -1 for the end."""
    first, last = _range(value)
    return _MISSING if last == -1 else last - first + 1


def _shell(value: Any) -> str:
    """Return the command line of an argument list: the script of `bash -lc SCRIPT`, else its words, quoted."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not all(isinstance(element, str) for element in value):
        raise _Inexact
    is_script = len(value) == 3 and value[0] in ("bash", "/bin/bash", "sh", "/bin/sh") and value[1] in ("-c", "-lc")
    return value[2] if is_script else shlex.join(value)


def _run_in(folder: Any, command: Any) -> str:
    """Return the command line that runs `command` in `folder`, and nothing if there is no such folder."""
    if not isinstance(command, str) or not (folder in (_MISSING, "") or isinstance(folder, str)):
        raise _Inexact
    if folder in (_MISSING, "", "."):
        return command
    enter = f"cd {shlex.quote(folder)}"
    return f"{enter} || exit 1\n{command}" if _COMMAND_SEPARATORS.search(command) else f"{enter} && {command}"


def _shell_patch(value: Any) -> str:
    """Return the patch that a command line hands to `apply_patch`, as an argument or a here-document."""
    if isinstance(value, list) and len(value) == 2 and value[0] in ("apply_patch", "applypatch"):
        return str(value[1])
    match = _SHELL_PATCH.fullmatch(_shell(value))
    if match is None or (not match[1] and re.search(r"[$`\\]", match[3])):  # the shell would expand it
        raise _Inexact
    return match[3]


def split_patch(patch: str) -> list[str]:
    """Return the lines of a patch without their ends. Only LF, also behind CR, ends a line: a form feed is content."""
    return [line.rstrip("\r") for line in patch.split("\n")]


def _patched(value: Any) -> list[str]:
    """Return all paths that the headers of a patch name."""
    if not isinstance(value, str):
        raise _Inexact
    heads = (ADD, UPDATE, DELETE, MOVE)
    paths = (line[len(head) :].strip() for line in split_patch(value) for head in heads if line.startswith(head))
    return list(dict.fromkeys(paths))


_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "seconds": _seconds,
    "first": lambda value: _range(value)[0],
    "count": _count,
    "shell": _shell,
    "patched": _patched,
    "shell_patch": _shell_patch,
    "shell_patched": lambda value: _patched(_shell_patch(value)),
}
