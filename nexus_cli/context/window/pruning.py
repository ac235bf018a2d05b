"""Find stale tool results: repeated in the window, or out of date. Pure, from groups to a new head.

A result is stale when the same file was read again later or changed since by a tool of ours, or when the same listing
or search was made again. It is replaced by one line with the reason and the way to read it back; nothing else changes,
so that pairs and order stay the same. `nexus_cli.context.window.rewrite_cost` decides if that pays.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.window.groups import Group, Measure, is_placeholder
from nexus_cli.core.elide import one_line
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.message import ToolCall
from nexus_cli.core.wire import canonical

LEAST = 200
"""Least tokens of a result that deserves a stub."""
RECENT = 8
"""Newest groups that are never changed, because the model is working on them."""
CUT = "left out: recall("
"""Mark of a shortened result."""
NAMED = 120
"""Characters of a call's subject in its stub."""
READS, CHANGES = frozenset({"read_file"}), frozenset({"edit_file", "write_file"})
LISTINGS: Mapping[str, str] = {"glob": "listed", "grep": "searched"}
KNOWN = READS | CHANGES | frozenset(LISTINGS)
FAILED = (
    "arguments are no JSON object",
    "bad arguments for",
    "Declined",
    "interrupted while it ran",
    "not permitted",
    "not run",
    "outcome unknown",
    "the person said no",
    "there is no tool",
    "tools are switched off",
)
"""Beginnings of results of calls that could not run, or did not end."""


@dataclass(frozen=True, slots=True)
class StaleResult:
    """One result that the window no longer needs."""

    item: WindowItem
    call: ToolCall
    why: str
    """`read again below`, `changed below`, ..."""

    @property
    def what(self) -> str:
        """The call: `read_file src/a.py`."""
        key = "path" if self.call.name in READS else "pattern"
        subject = one_line(str(self.call.arguments.get(key, "")))
        return f"{self.call.name} {subject if len(subject) <= NAMED else subject[: NAMED - 3] + '...'}"

    def stub(self, drop_id: str, measure: Measure) -> WindowItem:
        """Return the item with the stub as its text; its preamble stays."""
        text = f'[{self.what}: {self.why}; recall("{drop_id}")]'
        message = replace(self.item.message, content=text)
        return replace(self.item, form=ItemForm.STUB, message=message, tokens=measure(message, self.item.preamble))


def find_stale(groups: Sequence[Group]) -> list[StaleResult]:
    """Return the stale results of a window, oldest first; errors and the `RECENT` newest groups stay."""
    old = max(0, len(groups) - RECENT)
    later = _Later()
    found: list[StaleResult] = []
    for index in reversed(range(len(groups))):
        group = groups[index]
        calls = group[0].message.tool_calls
        for place in reversed(range(len(calls))):
            call, item = calls[place], group[place + 1]
            if call.name not in KNOWN or _has_failed(call, item) or is_placeholder(item):
                continue
            if index < old and item.form is ItemForm.FULL and item.tokens > LEAST < len(item.message.content):
                why = later.why(call)
                if why:
                    found.append(StaleResult(item, call, why))
            later.saw(call, item)
    return found[::-1]


def with_stubs(groups: Sequence[Group], stubs: Mapping[int, WindowItem]) -> list[WindowItem]:
    """Return the window's items with the stubs, by entry, in place of the originals."""
    return [stubs.get(item.entry, item) if _is_result(item) else item for group in groups for item in group]


class _Later:
    """The calls of a window from a certain place on, collected from its end."""

    def __init__(self) -> None:
        self._reads: dict[str, set[tuple[int, float, bool]]] = {}
        self._changed: set[str] = set()
        self._asked: set[tuple[str, bytes]] = set()

    def why(self, call: ToolCall) -> str:
        """Return the reason that the result of an earlier call is stale; "" if it is not."""
        if call.name in LISTINGS:
            return f"{LISTINGS[call.name]} again below" if _key(call) in self._asked else ""
        if call.name not in READS or not (path := _path(call)):
            return ""
        if path in self._changed:
            return "changed below"
        first, last = _lines(call)
        again = any(
            (start <= first and last <= end and whole) or (start, end) == (first, last)
            for start, end, whole in self._reads.get(path, ())
        )
        return "read again below" if again else ""

    def saw(self, call: ToolCall, item: WindowItem) -> None:
        """Add a call that succeeded and its result."""
        path = _path(call)
        if call.name in CHANGES and path:
            self._changed.add(path)
        elif item.form is not ItemForm.FULL:
            return
        elif call.name in LISTINGS:
            self._asked.add(_key(call))
        elif call.name in READS and path and path not in self._changed:
            self._reads.setdefault(path, set()).add((*_lines(call), CUT not in item.message.content))


def _has_failed(call: ToolCall, item: WindowItem) -> bool:
    """True if a result reports an error: nothing was read or changed, and it is kept."""
    text = item.message.content
    path = str(call.arguments.get("path", ""))
    return (
        bool(call.raw)
        or text.startswith(FAILED)
        or text.startswith(f"{call.name} failed:")
        or bool(path and text.startswith(f"{path}: "))
        or text.endswith("Nothing was changed.")
    )


def _is_result(item: WindowItem) -> bool:
    return item.message.tool_call_id is not None


def _key(call: ToolCall) -> tuple[str, bytes]:
    return call.name, canonical(sorted(call.arguments.items()))


def _path(call: ToolCall) -> str:
    """Return the file that a call names as far as its arguments show; "" if it names none."""
    path = call.arguments.get("path")
    return posixpath.normpath(path) if isinstance(path, str) and path else ""


def _lines(call: ToolCall) -> tuple[int, float]:
    """Return the range of lines of a call: the first, and one past the last."""
    first, limit = _whole(call.arguments.get("offset"), 1), call.arguments.get("limit")
    return first, float("inf") if limit is None else first + _whole(limit, 0)


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
