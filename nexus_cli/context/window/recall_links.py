"""Recall ids at a hole in the window: a drop for each part that was removed together, oldest first. Pure.

A drop has the messages removed at one time. Earlier ones have their own drop, named by the marker of the older, smaller
hole; the marker that replaces it names that drop again. If these become too many, or one is unknown, one drop has the
whole hole. `nexus_cli.context.window.truncation` chooses the messages to remove.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.context.window.entry_ranges import (
    HOLE,
    EntryRange,
    format_ranges,
    hole_ranges,
    join_ranges,
    ranges_of,
    subtract_ranges,
)
from nexus_cli.context.window.truncation import Hole
from nexus_cli.core.entry import ItemForm, WindowItem

MOST = 5
"""Most drops that one marker names: each takes room, and is one more to read or search."""
_NAMED = re.compile(r'recall\("(d\d{1,18})"\)')


@dataclass(frozen=True, slots=True)
class HolePart:
    """The part of a hole that one drop contains."""

    what: str
    tokens: int
    """Tokens that left the window now."""
    entries: EntryRange
    """The messages that it returns."""


@dataclass(frozen=True, slots=True)
class RecallLinks:
    """The drops to create for a hole, and the existing ones."""

    known: tuple[str, ...]
    """Ids of drops with the rest of the hole, oldest first."""
    new: tuple[HolePart, ...]


def links_of_hole(hole: Hole, *, recalls: bool = True) -> RecallLinks:
    """Return the drops that `hole` needs. If the model never `recalls`, earlier drops are not named to it."""
    before = join_ranges(hole_ranges(hole.markers))
    went = [item for item in hole.gone if item.form is not ItemForm.SUMMARY]
    spans = join_ranges([*((item.entry, item.entry) for item in went), *subtract_ranges(hole.first, hole.last, before)])
    known = [_drops_named(item.message.content) for item in hole.markers if hole_ranges([item])]
    names = tuple(dict.fromkeys(name for several in known for name in several))
    if len(went) == len(hole.gone) and (not recalls or (all(known) and len(names) + len(spans) <= MOST)):
        return RecallLinks(names, tuple(HolePart(_what(span), _tokens(went, span), span) for span in spans))
    return RecallLinks((), (_all(hole, went, before),))


def hole_line(first: int, last: int, ways: Sequence[str]) -> str:
    """Return the line that replaces the left-out messages from `first` to `last`."""
    how = ", ".join(f'recall("{name}")' for name in ways)
    return f"{HOLE.format(first, last)} Read them with {how}.]" if ways else f"{HOLE.format(first, last)}]"


def _drops_named(text: str) -> list[str]:
    """Return the drops that the first line of a marker names."""
    return _NAMED.findall(text.partition("\n")[0])


def _tokens(items: Iterable[WindowItem], span: EntryRange) -> int:
    return sum(item.tokens for item in items if span[0] <= item.entry <= span[1])


def _what(*spans: EntryRange) -> str:
    return f"message{'s' * (spans[0][0] < spans[-1][1])} {format_ranges(spans)} of the conversation"


def _all(hole: Hole, went: Sequence[WindowItem], before: Sequence[EntryRange]) -> HolePart:
    """Return one drop for the whole hole, with the tokens that left the window now."""
    now = ranges_of(item.entry for item in went)
    rest = subtract_ranges(hole.first, hole.last, now)
    summed = len(went) < len(hole.gone)
    what = _what(*now) if now else f"the summary of messages {format_ranges(rest)}"
    if rest and now:
        what += f"; read with {format_ranges(rest)}, {'summarized or left out' if summed else 'left out'} before"
    return HolePart(what, hole.tokens, (hole.first, hole.last))
