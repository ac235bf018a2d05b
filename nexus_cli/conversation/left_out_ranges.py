"""Ranges of entries that a summary replaces but its author never saw: they were out of the window.

Read from the window itself: from the markers of left-out messages, and the note of an earlier summary that replaced
such markers. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexus_cli.core.entry import EntryRange, ItemForm, WindowItem
from nexus_cli.core.entry_ranges import join_ranges, ranges_of, subtract_ranges

HOLE = "[Left out here to fit the window: messages {} to {}."
"""Start of the line in place of omitted messages."""
SUMMED = "[Messages {} are summarized here"
_FORMER = "summed up"
"""The wording of older ledgers for `summarized`."""
BUT = "; messages {} are not, they were left out before"
"""Text after `SUMMED` if some of them are not."""
_HOLE = re.compile(re.escape(HOLE).replace(r"\{\}", r"(\d{1,9})"))
_BUT = re.compile(
    re.escape(SUMMED).replace(r"\{\}", r"[\d, andtowihu.]{1,400}").replace("summarized", f"(?:summarized|{_FORMER})")
    + re.escape(BUT).replace(r"\{\}", r"([\d, andto]{1,4000})")
)
_SPAN = re.compile(r"(\d+)(?: to (\d+))?")


def unseen_ranges(
    removed_items: Iterable[WindowItem], kept_items: Iterable[WindowItem], last: int
) -> tuple[EntryRange, ...]:
    """Return the messages up to `last` that are neither in the removed items nor in the kept ones, in order."""
    items = list(removed_items)
    spans = [(first, min(end, last)) for item in items for first, end in _left_out_ranges(item) if first <= last]
    shown_ranges = ranges_of(item.entry for item in [*items, *kept_items] if not item.replaces_others)
    return tuple(unseen for first, end in join_ranges(spans) for unseen in subtract_ranges(first, end, shown_ranges))


def _left_out_ranges(item: WindowItem) -> list[EntryRange]:
    """Return the messages that a marker, or the note of a summary, lists as left out."""
    text = item.message.content
    if item.form is ItemForm.MARKER and (hole := _HOLE.match(text)):
        return [(int(hole[1]), int(hole[2]))]
    if item.form is ItemForm.SUMMARY and (note := _BUT.search(text.partition("\n---\n")[0])):
        return [(int(span[1]), int(span[2] or span[1])) for span in _SPAN.finditer(note[1])]
    return []


def hole_ranges(markers: Iterable[WindowItem]) -> list[EntryRange]:
    """Return the messages that each of these markers lists as left out; none for a marker without a list."""
    return [span for item in markers if item.form is ItemForm.MARKER for span in _left_out_ranges(item)]
