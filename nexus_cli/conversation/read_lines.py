"""Track the lines of files that were sent to the model, in a memo with each result that shows file text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import ElidedText
from nexus_cli.core.entry import EntryRange, Memo
from nexus_cli.core.entry_ranges import join_ranges, subtract_ranges
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import LINES_READ
from nexus_cli.core.message import FileEdit, FilePart, ToolResult

MAX_LISTED = 4
"""Most spans of lines that are listed; of more only the number of lines is shown."""


@dataclass(frozen=True, slots=True)
class ReadLines:
    """The lines of one file that were sent, or written by the model, by their present numbers."""

    spans: Sequence[EntryRange]
    total: int
    changed: Sequence[EntryRange] = ()
    """The lines that edits changed. Where one only removed lines, the line before."""

    @property
    def is_whole(self) -> bool:
        """True if every line was sent."""
        return not self.total or tuple(self.spans) == ((1, self.total),)

    def describe(self) -> str:
        """Format the lines, `1840-1989 of 3,495`, or their number if there are many spans; "" for a whole file."""
        if self.is_whole:
            return ""
        number = f"{_count(self.spans):,} of {self.total:,} lines"
        return number if len(self.spans) > MAX_LISTED else f"{_name(self.spans)} of {self.total:,}"

    def describe_changes(self) -> str:
        """Format the changed lines, `443-446, 500`, or their number; "" if they are unknown."""
        return f"{_count(self.changed):,} lines" if len(self.changed) > MAX_LISTED else _name(self.changed)


def _name(spans: Sequence[EntryRange]) -> str:
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)


def _count(spans: Iterable[EntryRange]) -> int:
    return sum(last - first + 1 for first, last in spans)


def read_note(result: ToolResult, clipped: ElidedText) -> dict[str, JsonObject]:
    """Make the memo of a result, by kind; {} if it shows or edits no file. `clipped` is the part of its output that was
    sent."""
    lines, first = result.counts.get("lines", 0), result.counts.get("first", 1)
    total, number = result.counts.get("total", lines), result.first_line or 0
    alone = (FilePart(result.file, first, lines, total, number),) if result.file and lines else ()
    hole = None
    if not clipped.is_whole:
        start = result.output.count("\n", 0, clipped.start)
        hole = start, start + result.output.count("\n", clipped.start, max(clipped.start, clipped.end - 1))
    notes = [_describe_part(part, hole) for part in result.parts or alone]
    notes += [_describe_edit(edit) for edit in result.edits]
    return {LINES_READ: {**notes[0], **({"also": notes[1:]} if notes[1:] else {})}} if notes else {}


def _describe_part(part: FilePart, hole: tuple[int, int] | None) -> JsonObject:
    """Return the lines of a part that were sent; `hole` are the first and the last output line left out."""
    holes = [(part.number + hole[0], part.number + hole[1])] if hole else []
    spans = subtract_ranges(part.first, part.first + part.count - 1, holes)
    return {"file": part.file, "lines": spans, "total": part.total}


def _describe_edit(edit: FileEdit) -> JsonObject:
    """Return the changes of an edit, with the lines of the new text that the model wrote."""
    written = [(start + 1, end) for _, _, start, end in edit.changes if end > start]
    lines = [(1, edit.total)] * bool(edit.total) if edit.is_whole else written
    return {"file": edit.file, "lines": lines, "edits": edit.changes, "total": edit.total}


def read_lines(memos: Iterable[Memo]) -> dict[str, ReadLines]:
    """Merge the `READ` memos (oldest first) into the lines sent of each file. An edit moves the earlier lines; a memo
    with an unexpected file length discards them."""
    merged: dict[str, ReadLines] = {}
    for value in (note for memo in memos for note in (memo.value, *memo.value.get("also", ()))):
        path, total, edits = str(value["file"]), int(value["total"]), value.get("edits", ())
        record = merged.get(path, ReadLines((), 0))
        grown = sum((end - start) - (old_end - old_start) for old_start, old_end, start, end in edits)
        fits = record.total + grown == total
        spans, changed = (_move(line_spans, edits) if fits else () for line_spans in (record.spans, record.changed))
        lines = [(int(first), int(last)) for first, last in value["lines"]]
        edited = [(min(start + 1, max(end, 1)), max(end, 1)) for _, _, start, end in edits]
        merged[path] = ReadLines(join_ranges([*spans, *lines]), total, join_ranges([*changed, *edited]))
    return merged


def _move(spans: Iterable[EntryRange], edits: Iterable[Sequence[int]]) -> list[EntryRange]:
    """Return the numbers after `edits` of those lines that they left."""
    moved: list[EntryRange] = []
    low, by = 1, 0
    for high, old_end, _, end in (*edits, (sys.maxsize, 0, 0, 0)):
        unchanged = ((max(first, low), min(last, high)) for first, last in spans)
        moved += [(first + by, last + by) for first, last in unchanged if first <= last]
        low, by = old_end + 1, end - old_end
    return moved


def count_unread(conversation: Conversation, path: str, total: int) -> int:
    """Return the number of the `total` lines of a file that were neither sent nor written; 0 if nothing is known about
    it."""
    record = read_lines(conversation.memos(LINES_READ)).get(path)
    if record is None:
        return 0
    return total - _count((first, min(last, total)) for first, last in record.spans if first <= total)
