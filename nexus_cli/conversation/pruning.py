"""Find stale tool results: repeated in the window, out of date, or old. Pure, from groups to a new head and its drops.

A result is stale when the same file was read again later or changed since by a tool of ours, when the same listing or
search was made again, or when `OLD` groups follow a read, a search or a command. It is replaced by one line with the
reason and the way to read it back (and the exit status of a command); nothing else changes, so that pairs and order
stay the same. `nexus_cli.core.rewrite_cost` decides if that pays.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.groups import Group, Measure, flatten
from nexus_cli.conversation.tokens.content_kinds import ByKind, slots_by_kind
from nexus_cli.core.elide import clip_text, last_line, one_line
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem, is_placeholder
from nexus_cli.core.message import SAME, ToolCall
from nexus_cli.core.tool import Effect, FindTool, Reads, Tool
from nexus_cli.core.wire import canonical

LEAST = 200
"""Least tokens of a result that deserves a stub."""
RECENT = 8
"""Newest groups that are never changed, because the model is working on them."""
OLD = 16
"""Groups after which what was read, searched or run counts as stale by its age alone."""
CUT = "left out: recall("
"""Mark of a shortened result."""
LONGEST_SUBJECT = 120
"""Characters of a call's subject that its stub names."""
LINES = ("offset", "limit")
"""Arguments of a call that reads a part of a file: its first line, and how many."""
AGED = "left out as too old"
STUB = "d000000"
"""Placeholder for the drop id of a stub that is measured alone."""
LISTED: Mapping[Reads, str] = {Reads.LIST: "listed", Reads.SEARCH: "searched"}
Key = tuple[str, tuple[str, ...], bytes]
FAILED = (
    "arguments are not a JSON object",
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
    subject: str
    """The argument of the call that a person sees."""
    why: str
    """`read again below`, `changed below`, `AGED`, ..."""
    end: str = ""
    """The last line of a command's result, which stays: its exit status."""

    @property
    def what(self) -> str:
        """The call: `read_file src/a.py`."""
        subject = one_line(self.subject)
        return f"{self.call.name} {clip_text(subject, LONGEST_SUBJECT, '...')}"

    def stub(self, drop_id: str, measure: Measure) -> WindowItem:
        """Return the item with the stub as its text; its preamble stays."""
        text = f'[{self.what}: {self.why}; recall("{drop_id}")]' + (f"\n{self.end}" if self.end else "")
        message = replace(self.item.message, content=text)
        return replace(self.item, form=ItemForm.STUB, message=message, tokens=measure(message, self.item.preamble))


def find_stale(groups: Sequence[Group], find_tool: FindTool) -> list[StaleResult]:
    """Return the stale results of a window, oldest first; errors, the `RECENT` newest groups and what these refer to
    stay."""
    old = max(0, len(groups) - RECENT)
    later = _LaterCalls()
    referred: list[object] = []
    stale_results: list[StaleResult] = []
    for index in reversed(range(len(groups))):
        group = groups[index]
        calls = group[0].message.tool_calls
        for place in reversed(range(len(calls))):
            call, item = calls[place], group[place + 1]
            tool = find_tool(call.name)
            request = call.name, call.arguments
            refers = item.message.content.startswith(SAME)
            if refers and index >= old:
                referred.append(request)
            is_old = index < len(groups) - OLD and request not in referred
            if tool is None or refers or is_placeholder(item):
                continue
            if tool.runs_commands:
                if is_old and _is_long(item):
                    command = str(call.arguments.get(tool.subject, ""))
                    stale_results.append(
                        StaleResult(item, call, command, AGED, last_line(item.message.content, LONGEST_SUBJECT))
                    )
                continue
            if not _touches_files(tool):
                continue
            paths = tuple(str(path) for path in tool.find_paths(call.arguments))
            if _has_failed(call, item, paths):
                continue
            named_call = _NamedCall(call, tool, tuple(posixpath.normpath(path) for path in paths if path))
            if index < old and _is_long(item):
                why = later.why(named_call)
                if not why and is_old and tool.effect is Effect.READ:
                    why = AGED
                if why:
                    stale_results.append(StaleResult(item, call, str(call.arguments.get(tool.subject, "")), why))
            later.saw(named_call, item)
    return stale_results[::-1]


def _is_long(item: WindowItem) -> bool:
    return item.form is ItemForm.FULL and item.tokens > LEAST < len(item.message.content)


def with_stubs(groups: Sequence[Group], stubs: Mapping[int, WindowItem]) -> list[WindowItem]:
    """Return the window's items with the stubs, by entry, in place of the originals."""
    return [
        stubs.get(item.entry, item) if item.message.tool_call_id is not None else item
        for group in groups
        for item in group
    ]


@dataclass(frozen=True, slots=True)
class StaleBatch:
    """Stale results that are replaced together, oldest first; none: there is nothing to replace."""

    results: Sequence[StaleResult] = ()
    saved: int = 0
    """Tokens that their stubs free, by our count."""
    cold: int = 0
    """The sent tokens behind the first stub, which no cache has then."""

    @property
    def by_kind(self) -> ByKind:
        """The tokens of the results by kind."""
        return slots_by_kind(stale_result.item for stale_result in self.results)

    def draft(self, conversation: Conversation, measure: Measure) -> tuple[list[WindowItem], list[Drop]]:
        """Return the window with stubs in place of the results, and the drops of these, whose ids it takes."""
        stubs, drops = dict[int, WindowItem](), list[Drop]()
        for stale_result in self.results:
            name, entry = conversation.log.next_drop(), stale_result.item.entry
            stubs[entry] = stale_result.stub(name, measure)
            tokens = stale_result.item.tokens - stubs[entry].tokens
            subject = f"result of {stale_result.what} ({stale_result.why})"
            drops.append(Drop(name, subject, tokens, Cause.PRUNED, conversation.now(), (entry, entry)))
        return with_stubs(conversation.groups(), stubs), drops


def find_batches(
    conversation: Conversation, find_tool: FindTool, pinned: Container[int], measure: Measure
) -> Iterator[StaleBatch]:
    """Yield the newest stale result, then the two newest, and so on, without those of `pinned` entries."""
    groups, behind, total, saved = conversation.groups(), dict[int, int](), 0, 0
    for item in reversed(flatten(groups)):
        total += item.tokens if item.entry <= conversation.cursor else 0
        behind[item.entry] = total
    stale_results = [stale for stale in find_stale(groups, find_tool) if stale.item.entry not in pinned]
    for start in reversed(range(len(stale_results))):
        item = stale_results[start].item
        saved += max(0, item.tokens - stale_results[start].stub(STUB, measure).tokens)
        yield StaleBatch(stale_results[start:], saved, max(0, behind.get(item.entry, 0) - saved))


@dataclass(frozen=True, slots=True)
class _NamedCall:
    """A call, its tool and the files that it names, as far as its words show."""

    call: ToolCall
    tool: Tool
    paths: tuple[str, ...]

    @property
    def whole_key(self) -> Key:
        """Key that is equal for listings or searches of the same thing."""
        return self.call.name, (), canonical(sorted(self.call.arguments.items()))

    @property
    def file_key(self) -> Key:
        """Key that is equal for readings that differ only in their lines."""
        without = {*self.tool.paths, *LINES} - {self.tool.ranged}
        other_arguments = sorted((name, value) for name, value in self.call.arguments.items() if name not in without)
        return self.call.name, self.paths, canonical(other_arguments)


class _LaterCalls:
    """The calls of a window from a certain place on, collected from its end."""

    def __init__(self) -> None:
        self._reads: dict[Key, set[tuple[int, float, bool]]] = {}
        self._changed: set[str] = set()
        self._searches: set[Key] = set()

    def why(self, earlier: _NamedCall) -> str:
        """Return the reason that the result of an earlier call is stale, "" if it is not."""
        if earlier.tool.finds_files:
            return f"{LISTED[earlier.tool.reads]} again below" if earlier.whole_key in self._searches else ""
        if not earlier.tool.reads_content or not earlier.paths:
            return ""
        if not self._changed.isdisjoint(earlier.paths):
            return "changed below"
        first, last = _lines(earlier.call)
        again = any(
            (start <= first and last <= end and is_whole) or (start, end) == (first, last)
            for start, end, is_whole in self._reads.get(earlier.file_key, ())
        )
        return "read again below" if again else ""

    def saw(self, later_call: _NamedCall, item: WindowItem) -> None:
        """Take in a call that succeeded and its result."""
        if later_call.tool.effect is Effect.EDIT:
            self._changed.update(later_call.paths)
        elif item.form is not ItemForm.FULL:
            return
        elif later_call.tool.finds_files:
            self._searches.add(later_call.whole_key)
        elif later_call.paths and self._changed.isdisjoint(later_call.paths):
            lines = (*_lines(later_call.call), CUT not in item.message.content)
            self._reads.setdefault(later_call.file_key, set()).add(lines)


def _touches_files(tool: Tool) -> bool:
    """True if results of `tool` become stale, or make others so."""
    return tool.finds_files or tool.reads_content or tool.effect is Effect.EDIT


def _has_failed(call: ToolCall, item: WindowItem, paths: Sequence[str]) -> bool:
    """True if a result reports an error: then nothing was read or changed, and it is kept."""
    text = item.message.content
    return (
        bool(call.raw)
        or text.startswith(FAILED)
        or text.startswith(f"{call.name} failed:")
        or any(path and text.startswith(f"{path}: ") for path in paths)
        or text.endswith("Nothing was changed.")
    )


def _lines(call: ToolCall) -> tuple[int, float]:
    """Return the lines that a call asks for: the first, and one past the last."""
    first, limit = _read_int(call.arguments.get(LINES[0]), 1), call.arguments.get(LINES[1])
    if limit == 0:  # an outline, which no range of lines contains
        return 0, 0
    return first, float("inf") if limit is None else first + _read_int(limit, 0)


def _read_int(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
