"""The person's own words as a summary quotes them: what of them fits, the oldest yield first (law 6). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nexus_cli.core.clip import clip, plain_marker

WORTH_CUTTING = 64
"""Tokens of a message below which a part of it says nothing."""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Counts and chooses quotations."""

    count: Callable[[str], int]

    def cost(self, words: str) -> int:
        """Tokens of the quotation."""
        return self.count(quoted(words)) + 2

    def newest(self, said: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
        """The first of `said` up to the one that `room` tokens cannot hold whole; the rest is not read."""
        found = []
        for entry, text in said:
            found.append((entry, text))
            room -= self.cost(text)
            if room < 0:
                break
        return found

    def chosen(self, said: Iterable[tuple[int, str]], room: int) -> tuple[str, ...]:
        """What fits of `said` (newest first), oldest first; what does not fit whole is cut where that is worth it."""
        found: list[str] = []
        for _, text in said:
            cost = self.cost(text)
            if cost > room:
                lines = self.count(quoted(text)) - self.count(text)
                if room - lines > WORTH_CUTTING:
                    found.append(clip(text, room - lines - 4, self.count, plain_marker).text)
                break
            room -= cost
            found.append(text)
        return tuple(reversed(found))


def quoted(words: str) -> str:
    """`words` with `> ` before each line."""
    return "\n".join(f"> {line}" for line in words.split("\n"))
