"""A pin: what the person wants to stay in the window word for word, through every compaction (law 6).

The value and its quotation. Where pins are kept is `nexus_cli.session.pins`, which of them fit is planned in
`nexus_cli.context.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.context.own_words import quoted


@dataclass(frozen=True, slots=True)
class Pin:
    """One text that stays."""

    id: str
    """`p1`, `p2`, ... in a session."""
    entry: int
    """The entry that it is the text of; 0 for words of its own."""
    text: str

    @property
    def shown(self) -> str:
        """How it stands after a summary or in a marker."""
        place = f"{self.id}, message {self.entry}" if self.entry else self.id
        return f"[{place}]\n{quoted(self.text)}"
