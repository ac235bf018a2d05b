"""Track the lines of files that were sent to the model, in a memo with each result that shows file text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.window.entry_ranges import EntryRange, join_ranges, subtract_ranges
from nexus_cli.core.elide import ElidedText
from nexus_cli.core.entry import Memo
from nexus_cli.core.message import ToolResult

READ = "read"
"""Kind of the memo of a result that shows a `file` (absolute path): the spans of `lines` sent, out of `total`."""
NAMED = 4
"""Most spans of lines that are listed; of more only the number of lines is shown."""


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
        """Format the lines, `1840-1989 of 3,495`, or their number if there are many spans; "" for a whole file."""
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
    """Make the memo of a result, by kind; {} if it shows no file. `clipped` is the part of its output that was sent."""
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
    """Merge the `READ` memos (oldest first) into the lines sent of each file. A memo with another file length discards
    the earlier lines."""
    found: dict[str, ReadLines] = {}
    for memo in memos:
        path, total = str(memo.value["file"]), int(memo.value["total"])
        known = found.get(path)
        before = known.spans if known and known.total == total else ()
        found[path] = ReadLines(join_ranges([*before, *((int(a), int(b)) for a, b in memo.value["lines"])]), total)
    return found
