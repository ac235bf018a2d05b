"""Classify content by kind, and sum our counts of a window by kind.

The number of provider tokens per counted token depends on the kind of content; `estimate` has a ratio for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import add

from nexus_cli.core.entry import Epoch, WindowItem


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
    texts += [(ContentKind.CODE, len(call.name + call.arguments_text)) for call in message.tool_calls]
    lengths = list(EMPTY)
    for kind, length in texts or [(ContentKind.PROSE, 1)]:
        lengths[kind] += length / _LENGTHS[kind]
    return times(lengths, item.tokens / sum(lengths))


def slots_by_kind(items: Iterable[WindowItem]) -> ByKind:
    """Return the tokens of several items by kind."""
    total = EMPTY
    for item in items:
        total = plus(total, slot_by_kind(item))
    return total


def times(amounts: Sequence[float], factor: float) -> ByKind:
    return tuple(part * factor for part in amounts)


def plus(one: Sequence[float], other: Sequence[float]) -> ByKind:
    """Return the sum of both."""
    return tuple(map(add, one, other))


@dataclass(frozen=True, eq=False)
class WindowCounts:
    """Our counts of the content of a request, without its texts."""

    fixed: int
    """Tokens of system text and schemas."""
    entries: Sequence[int] = ()
    """The entry of each message, in chronological order."""
    totals: Sequence[int] = (0,)
    """The tokens of the first n messages, by n."""
    by_kind: Sequence[ByKind] = (EMPTY,)
    """The same by kind."""
    sent: int = -1
    """The last entry that an earlier request of this epoch contained; -1 if there was none."""
    version: int = 0
    """`Conversation.version` of a window that can be sent, else 0."""

    @classmethod
    def of(cls, epoch: Epoch, items: tuple[WindowItem, ...], last_sent: int = -1) -> WindowCounts:
        """Return the counts of a request of `items` under `epoch`; `last_sent` is the last entry sent before."""
        return replace(ItemCounts().count(items), fixed=epoch.header_tokens, sent=last_sent)

    def messages(self) -> ByKind:
        """Return the tokens of all messages by kind."""
        return self.by_kind[-1]

    def since(self, entry: int) -> ByKind:
        """Return the tokens of the messages after `entry` by kind."""
        return plus(self.by_kind[-1], times(self.by_kind[self._count_until(entry)], -1.0))

    def tokens_until(self, entry: int) -> int:
        """Return the tokens of the messages up to `entry`."""
        return self.totals[self._count_until(entry)]

    def _count_until(self, entry: int) -> int:
        place = len(self.entries)
        while place and self.entries[place - 1] > entry:
            place -= 1
        return place


@dataclass
class ItemCounts:
    """Counts the items of a window. Items before the first change since the last count are not counted again."""

    items: tuple[WindowItem, ...] = ()
    counts: WindowCounts = field(default_factory=lambda: WindowCounts(0))

    def count(self, items: tuple[WindowItem, ...]) -> WindowCounts:
        """Return the counts of `items`, without fixed text."""
        stored_items, counts = self.items, self.counts
        if items == stored_items:  # compared by identity first
            return counts
        stored = len(stored_items)
        if items[:stored] != stored_items:
            pairs = enumerate(zip(stored_items, items, strict=False))
            stored = next(
                (n for n, (stored_item, new_item) in pairs if stored_item is not new_item), min(stored, len(items))
            )
        entries = [*counts.entries[:stored], *(item.entry for item in items[stored:])]
        totals, by_kind = [*counts.totals[: stored + 1]], [*counts.by_kind[: stored + 1]]
        for item in items[stored:]:
            totals.append(totals[-1] + item.tokens)
            by_kind.append(plus(by_kind[-1], slot_by_kind(item)))
        self.items, self.counts = items, replace(counts, entries=entries, totals=totals, by_kind=by_kind)
        return self.counts
