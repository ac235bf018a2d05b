"""Which of the messages that a summary stands for nobody has shown to whoever wrote it: they were out of the window.

Read from what stands in the window itself: the markers where messages were left out, and the note of an earlier summary
that stood for such ones. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from nexus_cli.core.entry import Form, Slot

Span: TypeAlias = tuple[int, int]
"""First and last message, both included."""

HOLE = "[Left out here to fit the window: messages {} to {}."
"""How the line begins that stands where messages were left out."""
SUMMED = "[Messages {} are summed up here"
BUT = "; messages {} are not, they were left out before"
"""What follows `SUMMED` where not all of them are."""
_HOLE = re.compile(re.escape(HOLE).replace(r"\{\}", r"(\d{1,9})"))
_BUT = re.compile(
    re.escape(SUMMED).replace(r"\{\}", r"[\d, andtowihu.]{1,400}")
    + re.escape(BUT).replace(r"\{\}", r"([\d, andto]{1,4000})")
)
_SPAN = re.compile(r"(\d+)(?: to (\d+))?")


def unseen(gone: Iterable[Slot], kept: Iterable[Slot], last: int) -> tuple[Span, ...]:
    """Return the messages up to `last` that stand neither among the slots that go nor in those that are kept, in order.
    """
    slots = list(gone)
    spans = [(first, min(end, last)) for slot in slots for first, end in _left_out(slot) if first <= last]
    shown = merged(slot.entry for slot in [*slots, *kept] if slot.form not in (Form.SUMMARY, Form.MARKER))
    return tuple(rest for first, end in joined(spans) for rest in between(first, end, shown))


def _left_out(slot: Slot) -> list[Span]:
    """Return the messages that a marker, or the note of a summary, says were left out."""
    text = slot.message.content
    if slot.form is Form.MARKER and (hole := _HOLE.match(text)):
        return [(int(hole[1]), int(hole[2]))]
    if slot.form is Form.SUMMARY and (note := _BUT.search(text.partition("\n---\n")[0])):
        return [(int(span[1]), int(span[2] or span[1])) for span in _SPAN.finditer(note[1])]
    return []


def holes(markers: Iterable[Slot]) -> list[Span]:
    """Return the messages that each of these markers says were left out; those that say nothing of it have none."""
    return [span for slot in markers if slot.form is Form.MARKER for span in _left_out(slot)]


def merged(entries: Iterable[int]) -> tuple[Span, ...]:
    """Return the spans that these entries make."""
    return joined((entry, entry) for entry in entries)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the fewest spans that hold the messages of these, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def between(first: int, last: int, without: Sequence[Span]) -> tuple[Span, ...]:
    """Return what is left of the messages from `first` to `last`."""
    found = []
    for start, end in without:
        if first < start and first <= last:
            found.append((first, min(last, start - 1)))
        first = max(first, end + 1)
    return (*found, (first, last)) if first <= last else tuple(found)


def named(spans: Sequence[Span]) -> str:
    """Return `1 to 17`, `1 to 17 and 21`, `3, 5 to 9 and 21`."""
    names = [f"{first} to {last}" if first < last else str(first) for first, last in spans]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
