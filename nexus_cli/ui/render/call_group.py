"""Hold finished read-only calls while more of them may follow, to fold many into a few lines.

A call that failed, changed a file or saved a fact is never in a group. The outputs are kept until the next group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nexus_cli.core.grouping import group_pairs
from nexus_cli.reports.text.lines import plural
from nexus_cli.text.cells import one_line
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import (
    FinishedCall,
    call_verb,
    find_called_tool,
    format_call,
    format_finished_call,
    format_head,
)

FEW = 3
"""Calls that are shown one by one."""


@dataclass(frozen=True, slots=True)
class HeldNote:
    """A line between calls, with its role: the time that the model thought."""

    text: str
    role: str


class CallGroup:
    """Calls in their order, with the notes between them."""

    def __init__(self) -> None:
        self._items: list[FinishedCall | HeldNote] = []

    def __bool__(self) -> bool:
        return bool(self._items)

    @staticmethod
    def fits(finished: FinishedCall) -> bool:
        """True if `finished` may be folded with others."""
        result = finished.result
        open_ = finished.failed or result.stopped or result.job or finished.is_named
        tool = find_called_tool(finished.call)
        shows_arguments = any(name in finished.call.arguments for name in tool.shows)
        is_single = shows_arguments or tool.tells or tool.delegates or tool.lists or tool.asks
        return not (open_ or result.diff or result.changed or result.warning or result.waits or is_single)

    def add(self, item: FinishedCall | HeldNote) -> None:
        self._items.append(item)

    @property
    def _calls(self) -> list[FinishedCall]:
        return [item for item in self._items if isinstance(item, FinishedCall)]

    @property
    def folds(self) -> bool:
        """True if there are too many calls to show each of them."""
        return len(self._calls) > FEW

    def summary(self) -> str:
        """Summarize the calls in one line: `15 calls · read 12 files · 3 searches`."""
        kinds = group_pairs(
            (find_called_tool(finished.call).counted_as or (finished.call.name,), finished) for finished in self._calls
        )
        return " · ".join([plural(len(self._calls), "call"), *map(_count, kinds.values())])

    def head(self, width: int, theme: Theme, full_text_hint: str = "") -> list[str]:
        """Return a folded group: the summary, and below it the objects of the calls."""
        sure = all(finished.is_sure for finished in self._calls)
        sign, role = (theme.signs.ok, "ok") if sure else (theme.signs.dot, "dim")
        text = theme.cut(self.summary().replace(" · ", theme.dot) + full_text_hint, width - len(sign) - 1)
        indent = "    " if width >= 40 else "  "
        objects = ", ".join(dict.fromkeys(one_line(finished.subject) for finished in self._calls if finished.subject))
        below = [indent + theme.paint("dim", theme.cut(objects, width - len(indent)))] if objects else []
        return [f"{theme.paint(role, sign)} {text}", *below]

    def live_lines(self, width: int, theme: Theme) -> list[str]:
        """Return the calls so far, while more may follow, the last one with its output."""
        if self.folds:
            return self.head(width, theme)
        *before, last = self._calls
        heads = [line for finished in before for line in format_head(finished, width, theme)]
        return [*heads, *format_finished_call(last, width, theme)]

    def pieces(self, width: int, theme: Theme, full_text_hint: str) -> Iterator[list[str] | HeldNote | FinishedCall]:
        """Yield the lines of a folded group, or its calls, and the remaining notes, in their order."""
        if not self.folds:
            yield from self._items
            return
        yield self.head(width, theme, full_text_hint)
        last = max(place for place, item in enumerate(self._items) if isinstance(item, FinishedCall))
        yield from self._items[last + 1 :]

    def output(self) -> tuple[str, str]:
        """Return a title and the complete outputs of all calls."""
        parts = [
            f"{format_call(finished.call, finished.subject)}\n{finished.text.rstrip()}\n" for finished in self._calls
        ]
        return self.summary(), "\n".join(parts)


def _count(calls: list[FinishedCall]) -> str:
    """Count the calls of one kind: `read 12 files`, `3 searches`, `4 commands`."""
    tool, verb = find_called_tool(calls[0].call), call_verb(calls[0].call)
    if tool.counted_as:
        return plural(len(calls), *tool.counted_as)
    if tool.reads_content:
        return f"{verb} {plural(len({finished.subject for finished in calls}), 'file')}"
    return f"{verb} {len(calls)} times" if len(calls) > 1 else verb
