"""A pin: text that stays in the window word for word through every compaction and cut (law 6).

Owns the value, its quotation, and the line that names pins without room. `nexus_cli.engine.compaction.pins` stores
pins, `nexus_cli.conversation.compaction.compaction_plan` plans which of them fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.compaction.own_words import quote_lines

NAMED = 24
"""Most pins without room that are named, each with the drop that has its text."""
_WAY = re.compile(r"\b(p\d+): recall\(\"(d\d+)\"\)")


@dataclass(frozen=True, slots=True)
class Pin:
    """One pinned text."""

    id: str
    """`p1`, `p2`, ... in a session."""
    entry: int
    """The entry whose text it is; 0 for words of its own."""
    text: str

    @property
    def quotation(self) -> str:
        """Return the pin as quoted after a summary or in a marker."""
        place = f"{self.id}, message {self.entry}" if self.entry else self.id
        return f"[{place}]\n{quote_lines(self.text)}"

    def tokens(self, count: Callable[[str], int]) -> int:
        """Return the tokens of the pin in the window."""
        return count(self.quotation) + 2


def crowded_line(ways: Sequence[tuple[str, str]], recalls: bool) -> str:
    """Return the line that names pins without room by their id; with their drops if the model `recalls` drops."""
    named = [f'{name}: recall("{drop}")' if recalls else name for name, drop in ways[:NAMED]]
    more = [f"and {len(ways) - NAMED} more"] if len(ways) > NAMED else []
    return f"[Pinned too, and left out here for room: {', '.join([*named, *more])}]"


def named_ways(texts: Iterable[str]) -> dict[str, str]:
    """Return the drop of each pin that a line in `texts` names. A pin's text never changes: one drop is enough."""
    lines = (line for text in texts for line in text.splitlines() if line.startswith("[Pinned too"))
    return {name: drop for line in lines for name, drop in _WAY.findall(line)}
