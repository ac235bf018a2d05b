"""Ranges of entries: join, subtract and format them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexus_cli.core.elide import join_with_and
from nexus_cli.core.entry import EntryRange


def ranges_of(entries: Iterable[int]) -> tuple[EntryRange, ...]:
    """Return the fewest ranges that contain these entries, in order."""
    return join_ranges((entry, entry) for entry in entries)


def join_ranges(spans: Iterable[EntryRange]) -> tuple[EntryRange, ...]:
    """Return the fewest ranges that contain these, in order."""
    ranges: list[EntryRange] = []
    for first, last in sorted(spans):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], last)
        else:
            ranges.append((first, last))
    return tuple(ranges)


def subtract_ranges(first: int, last: int, without: Sequence[EntryRange]) -> tuple[EntryRange, ...]:
    """Return the entries from `first` to `last` without these ranges."""
    ranges = []
    for start, end in without:
        if first < start and first <= last:
            ranges.append((first, min(last, start - 1)))
        first = max(first, end + 1)
    return (*ranges, (first, last)) if first <= last else tuple(ranges)


def format_ranges(spans: Sequence[EntryRange]) -> str:
    """Return `1 to 17`, `1 to 17 and 21`, `3, 5 to 9 and 21`."""
    names = [f"{first} to {last}" if first < last else str(first) for first, last in spans]
    return join_with_and(names)
