"""The person's own words as a summary or a marker quotes them: what of them fits, the oldest yield first (law 6). Pure.

What was pasted does not crowd out what was said: messages that would take a large part of the room for themselves wait
until the short ones stand, and share what those leave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from nexus_cli.core.elide import elide_text, plain_marker

WORTH_CUTTING = 64
"""Tokens of a message below which a part of it says nothing."""
LONG_SHARE = 0.25
"""Share of the room above which a message is a long one."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What a person said, as it is quoted."""

    entry: int
    text: str
    whole: bool = True
    """False where the middle of it was left out."""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Counts and chooses quotations."""

    count: Callable[[str], int]

    def cost(self, words: str) -> int:
        """Tokens of the quotation."""
        return self.count(quoted(words)) + 2

    def newest(self, said: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
        """The first of `said` up to the one that has no place in `room` tokens any more; the rest is not read."""
        found, most = [], int(room * LONG_SHARE)
        for entry, text in said:
            found.append((entry, text))
            room -= min(most, self.cost(text))
            if room < 0:
                break
        return found

    def chosen(self, said: Iterable[tuple[int, str]], room: int, first: Collection[int] = ()) -> tuple[Quote, ...]:
        """What fits of `said`, oldest first; what does not fit whole is cut where that is worth it.

        The newest get room first, and before them the entries in `first`.
        """
        rows = sorted(said, key=lambda row: (row[0] in first, row[0]), reverse=True)
        costs = {entry: self.cost(text) for entry, text in rows}
        if sum(costs.values()) <= room:
            return tuple(Quote(*row) for row in sorted(rows))
        most = max(WORTH_CUTTING, int(room * LONG_SHARE))
        long = [row for row in rows if costs[row[0]] > most]
        short = self._taken([row for row in rows if costs[row[0]] <= most], room - (most if long else 0))
        rest = room - sum(self.cost(quote.text) for quote in short)
        return tuple(sorted([*short, *self._taken(long, rest)], key=lambda quote: quote.entry))

    def _taken(self, rows: Iterable[tuple[int, str]], room: int) -> list[Quote]:
        """The first of `rows` as far as they fit, what would be the next in part."""
        found = []
        for entry, text in rows:
            cost = self.cost(text)
            if cost > room:
                if short := self._cut(text, room):
                    found.append(Quote(entry, short, whole=False))
                break
            room -= cost
            found.append(Quote(entry, text))
        return found

    def _cut(self, text: str, room: int) -> str:
        """`text` in `room` tokens as a quotation; "" where that says nothing."""
        lines = self.count(quoted(text)) - self.count(text)
        if room - lines <= WORTH_CUTTING:
            return ""
        short = elide_text(text, room - lines - 4, self.count, plain_marker).text
        return short if self.cost(short) <= room else ""


def quoted(words: str) -> str:
    """`words` with `> ` before each line."""
    return "\n".join(f"> {line}" for line in words.split("\n"))
