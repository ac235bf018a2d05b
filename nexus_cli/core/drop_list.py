"""List the drops of a session, and find those that are back in the window."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from nexus_cli.core.entry import Cause, Drop, DropObject, EntryRange, ItemForm, Memo, WindowItem
from nexus_cli.core.json_value import JsonOf, ReportOfSession, to_json_value
from nexus_cli.core.memo_kinds import LEFT_OUT_SECTION, UNDONE_COMPACTION

Memos = Callable[[str], Iterable[Memo]]
"""Reads the memos of one kind from a conversation."""
MAX_DIFFERENCE = 8
"""Most tokens by which the present size of a section's drop may differ while its recorded size is shown."""
UNIT = "counted"
"""Unit of drop tokens: our own count when it was recorded, as in the lines for the model. Reports that use tokens of
the budget have it in `counted` and `full_counted`."""


class ListedDrop(JsonOf[DropObject]):
    back: bool
    """True if it is in the window again."""
    unit: str


class DropsReport(ReportOfSession):
    """All content that was left out of a session's requests."""

    drops: list[ListedDrop]
    """Oldest first."""
    left_out: int
    """Number of drops not back in the window."""
    missed: int
    """Number of these that the status line counts: all but outputs and old results of tools, and sections of nexus."""
    recalled: int


def window_drops(
    session: str, drops: Sequence[Drop], items: Iterable[WindowItem], memos: Memos, sections: str = ""
) -> DropsReport:
    """Return the drops of a session, oldest first, with the number still left out, and how many of these were recalled.

    `items`, `memos` and `sections` are those of the window, its conversation and its epoch, see `returned_drops`. Drops
    of these sections have their present size.
    """
    returned, now = returned_drops(drops, items, memos, sections), _left_out_tokens(sections)
    drops = [
        replace(drop, tokens=now[drop.id])
        if abs(now.get(drop.id, drop.tokens) - drop.tokens) > MAX_DIFFERENCE
        else drop
        for drop in drops
    ]
    out = [drop for drop in drops if drop.id not in returned]
    return {
        "version": 1,
        "session": session,
        "drops": [ListedDrop(**to_json_value(DropObject(drop)), back=drop.id in returned, unit=UNIT) for drop in drops],
        "left_out": len(out),
        "missed": sum(drop.is_missed for drop in out),
        "recalled": sum(1 for drop in out if drop.recalls),
    }


def returned_drops(
    drops: Iterable[Drop], items: Iterable[WindowItem], memos: Memos, sections: str = ""
) -> frozenset[str]:
    """Return the ids of the drops that are back in the window `items`.

    A drop is back if all of its messages are whole in the window, or if its compaction was undone (see the `memos`) and
    none of the restored messages were dropped again. A section is back if the epoch with `sections` sends the same text
    in full. What a server cut is never back: the window had it all along.
    """
    items, spans = list(items), {drop.id: drop.entries for drop in drops if drop.cause is not Cause.SERVER}
    full_entries = {item.entry for item in items if item.form is ItemForm.FULL}
    returned = {name for name, span in spans.items() if span and all(entry in full_entries for entry in _range(span))}
    if any(span is None for span in spans.values()):
        full_sections = _full_sections(sections)
        values = [memo.value for memo in memos(LEFT_OUT_SECTION)] if full_sections else ()
        returned.update(str(value["drop"]) for value in values if (value["section"], value["sha256"]) in full_sections)
    taken_back = [tuple(map(str, memo.value["drops"])) for memo in memos(UNDONE_COMPACTION)]
    if not taken_back:
        return frozenset(returned)
    present = sorted({item.entry for item in items if not item.replaces_others})
    with_it: dict[str, tuple[str, ...]] = {}
    for names in taken_back:  # an undo restores the pins that had no room, with the messages
        main = next((name for name in names if spans.get(name)), "")
        with_it[main] = (*with_it.get(main, ()), *names)
    returned.update(with_it.get("", ()))
    out_since: list[EntryRange] = []
    for name, span in reversed(spans.items()):
        if span and name in with_it and _count_present(present, span) and not _is_missing(present, span, out_since):
            returned.update(with_it[name])
        if span and name not in returned:
            out_since.append(span)
    return frozenset(returned)


@lru_cache(maxsize=8)
def _full_sections(sections: str) -> frozenset[tuple[str, str]]:
    """Return id and text hash of the sections that an epoch sends in full; older epochs recorded no hashes."""
    rows = [load for load in json.loads(sections or "[]") if load.get("form") == "full" and not load.get("drop")]
    return frozenset((row["id"], row["sha256"]) for row in rows if row.get("sha256"))


@lru_cache(maxsize=8)
def _left_out_tokens(sections: str) -> dict[str, int]:
    """Return the counted tokens that an epoch omits from its sections, by drop."""
    rows = [row for row in json.loads(sections or "[]") if row.get("drop") and "full_tokens" in row]
    return {str(row["drop"]): max(1, int(row["full_tokens"]) - int(row["tokens"])) for row in rows}


def _range(span: EntryRange) -> range:
    return range(span[0], span[1] + 1)


def _count_present(present: Sequence[int], span: EntryRange) -> int:
    """Count the messages of `span` in the sorted sequence `present`."""
    return bisect_right(present, span[1]) - bisect_left(present, span[0])


def _is_missing(present: Sequence[int], span: EntryRange, out: Iterable[EntryRange]) -> bool:
    """True if a message of `span` is missing in `present` and lies in one of the spans `out`."""
    overlaps = ((max(span[0], first), min(span[1], last)) for first, last in out)
    return any(
        len(_range(line_range)) > _count_present(present, line_range)
        for line_range in overlaps
        if line_range[0] <= line_range[1]
    )
