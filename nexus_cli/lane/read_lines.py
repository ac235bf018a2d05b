"""The lines of files that a session was sent, noted with each result that shows the text of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.window.entry_ranges import EntryRange, join_ranges, subtract_ranges
from nexus_cli.core.elide import ElidedText
from nexus_cli.core.entry import Memo
from nexus_cli.core.message import ToolResult

READ = "read"
"""Memo of a result that shows a `file` (absolute path): the spans of `lines` that were sent, of `total`."""
NAMED = 4
"""Spans of lines that are named; more are counted."""


@dataclass(frozen=True, slots=True)
class ReadLines:
    """The lines of one file that were sent."""

    spans: Sequence[EntryRange]
    total: int

    @property
    def is_whole(self) -> bool:
        """True if every line was sent."""
        return not self.total or tuple(self.spans) == ((1, self.total),)

    def describe(self) -> str:
        """Return the lines read, `1840-1989 of 3,495`, or their number if they are many spans; "" for a whole file."""
        if self.is_whole:
            return ""
        names = [f"{first}-{last}" if last > first else str(first) for first, last in self.spans]
        read = sum(last - first + 1 for first, last in self.spans)
        return f"{', '.join(names)} of {self.total:,}" if len(names) <= NAMED else f"{read:,} of {self.total:,} lines"

    def of_text(self, text: str) -> str:
        """Return these lines of the file's `text`."""
        if self.is_whole:
            return text
        lines = text.split("\n")
        return "\n".join(line for first, last in self.spans for line in lines[first - 1 : last])


def read_note(result: ToolResult, clipped: ElidedText) -> dict[str, Mapping[str, Any]]:
    """Return the memo of a result, by its kind: none for one that shows no file. `clipped` is what of it was sent."""
    lines = result.counts.get("lines", 0)
    if not result.file or not lines:
        return {}
    first, number = result.counts.get("first", 1), result.first_line or 0
    holes = []
    if not clipped.is_whole:
        number += result.output.count("\n", 0, clipped.start)
        holes = [(number, number + result.output.count("\n", clipped.start, max(clipped.start, clipped.end - 1)))]
    spans = subtract_ranges(first, first + lines - 1, holes)
    return {READ: {"file": result.file, "lines": spans, "total": result.counts.get("total", lines)}}


def read_lines(memos: Iterable[Memo]) -> dict[str, ReadLines]:
    """Return the lines that were sent of each file, from the memos `READ`, oldest first; those of a file that has
    another length by now do not count."""
    found: dict[str, ReadLines] = {}
    for memo in memos:
        path, total = str(memo.value["file"]), int(memo.value["total"])
        known = found.get(path)
        before = known.spans if known and known.total == total else ()
        found[path] = ReadLines(join_ranges([*before, *((int(a), int(b)) for a, b in memo.value["lines"])]), total)
    return found
