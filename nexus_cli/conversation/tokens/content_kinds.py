"""Classify content by kind, and sum our counts of a window by kind.

The number of provider tokens per counted token depends on the kind of content; `estimate` has a ratio for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from operator import add

from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.json_value import compact


class ContentKind(IntEnum):
    """Kinds of content, as indexes of a `ByKind`."""

    FIXED = 0
    """System text and schemas. They are in every request of an epoch, and each provider words schemas its own way."""
    PROSE = 1
    CODE = 2
    """Code, markup, and the arguments of calls."""
    WIDE = 3
    """Scripts without spaces between words."""
    DATA = 4
    """Data: tables, listings, logs."""

    @property
    def alone(self) -> ByKind:
        """One token of this kind and none of the others."""
        return tuple(float(kind is self) for kind in ContentKind)


ByKind = tuple[float, ...]
"""Our count of some content by `ContentKind`."""
EMPTY: ByKind = (0.0,) * len(ContentKind)

LOOK = 1000
"""Characters at the beginning, in the middle and at the end of a text that decide its kind."""
_SIGNS = re.compile(r"[{}()\[\];=_<>/0-9]")
_DIGITS = re.compile(r"[0-9]")
_WIDE = re.compile(r"[^\x00-\u2e7f]")
_LENGTHS = (4.0, 4.7, 3.2, 1.3, 2.2)
"""Approximate characters per token by `ContentKind`, for sharing an item's tokens among its texts."""


def kind_of(text: str) -> ContentKind:
    """Return the kind of a text, from its beginning, middle and end."""
    middle = len(text) // 2
    parts = (text[:LOOK], text[middle : middle + LOOK], text[-LOOK:]) if len(text) > 3 * LOOK else (text,)
    look = "".join(parts).strip()
    if not look:
        return ContentKind.PROSE
    if len(_WIDE.findall(look)) * 3 > len(look):
        return ContentKind.WIDE
    if len(_DIGITS.findall(look)) * 8 > len(look):
        return ContentKind.DATA
    return ContentKind.CODE if len(_SIGNS.findall(look)) * 12 > len(look) else ContentKind.PROSE


def slot_by_kind(item: WindowItem) -> ByKind:
    """Share the tokens of an item among the kinds of its texts."""
    message = item.message
    texts = [(kind_of(text), len(text)) for text in (item.preamble, message.content) if text]
    texts += [(ContentKind.CODE, len(call.name + compact(call.arguments))) for call in message.tool_calls]
    lengths = list(EMPTY)
    for kind, length in texts or [(ContentKind.PROSE, 1)]:
        lengths[kind] += length / _LENGTHS[kind]
    return times(lengths, item.tokens / sum(lengths))


def slots_by_kind(items: Iterable[WindowItem]) -> ByKind:
    """Return the tokens of several items by kind."""
    found = EMPTY
    for item in items:
        found = plus(found, slot_by_kind(item))
    return found


def times(amounts: Sequence[float], factor: float) -> ByKind:
    return tuple(part * factor for part in amounts)


def plus(one: Sequence[float], other: Sequence[float]) -> ByKind:
    """Return the sum of both."""
    return tuple(map(add, one, other))


class KindSums:
    """Sums of our count of items by kind. Items before the first change of a window are not counted again."""

    def __init__(self) -> None:
        self._newest: tuple[tuple[WindowItem, ...], Sequence[ByKind]] = (), (EMPTY,)

    def of_each(self, items: tuple[WindowItem, ...]) -> Sequence[ByKind]:
        """Return the sums over the first n of `items`, by n."""
        known, sums = self._newest
        stored = len(known)
        if items[:stored] != known:  # items are compared by identity first
            pairs = enumerate(zip(known, items, strict=False))
            stored = next((n for n, (one, other) in pairs if one is not other), min(stored, len(items)))
        extended = list(sums[: stored + 1])
        for item in items[stored:]:
            extended.append(plus(extended[-1], slot_by_kind(item)))
        self._newest = items, extended
        return extended


@dataclass(frozen=True, eq=False)
class WindowContents:
    """The content of a request, with its tokens by kind."""

    epoch: Epoch
    items: tuple[WindowItem, ...]
    """The window, in chronological order."""
    sent: int = -1
    """The last entry that an earlier request of this epoch contained; -1 if there was none."""
    counts: KindSums = field(default_factory=KindSums)
    """The sums of earlier windows, so that the items in common are not counted again."""

    def messages(self) -> ByKind:
        """Return the tokens of all messages by kind."""
        return self._sums[-1]

    def since(self, entry: int) -> ByKind:
        """Return the tokens of the messages after `entry` by kind."""
        place = len(self.items)
        while place and self.items[place - 1].entry > entry:
            place -= 1
        return plus(self._sums[-1], times(self._sums[place], -1.0))

    @cached_property
    def _sums(self) -> Sequence[ByKind]:
        return self.counts.of_each(self.items)
