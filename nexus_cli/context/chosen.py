"""One section with the form in which it is sent, and the line that names what is not sent at all.

Which form it is, is decided by `nexus_cli.context.planner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.section import Layer, Phase, Section, sha256

UNREAD = "contributor"
"""Stands for the source of what was not read."""
NAMED = 20
"""Sections that the line for the model names at most."""

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A section with the form in which it is sent."""

    section: Section
    form: int | None
    """Index into the section's forms, 0 is full; None: it is left out."""
    tokens: int
    full_tokens: int
    multiplier: float = 1.0
    why: str = ""
    """Why not in a fuller form; "" when there is nothing to explain."""
    drop: str = ""
    """Id of the drop with the whole text, where less of it is sent."""
    off: bool = False
    """The recipe's multiplier is 0: nobody wants it, so that nothing is missing."""

    @classmethod
    def skipped(cls, contributor: str, why: str) -> Chosen:
        """How a contributor stands in the report that has not given its sections."""
        text = f"{contributor} could not be read: {why}"
        section = Section(contributor, Phase.CONSTRAINT, (text,), Layer.SYSTEM, 0, source=UNREAD)
        return cls(section, None, 0, 0, why=why)

    @property
    def unread(self) -> bool:
        """Its contributor gave nothing, so that nobody knows what it would have said."""
        return self.form is None and self.section.source == UNREAD

    @property
    def name(self) -> str:
        """`full`, `shortened`, `outline`, `pointer` or `dropped`."""
        return "dropped" if self.form is None else self.section.names[self.form]

    @property
    def text(self) -> str:
        """What is sent; "" when it is left out."""
        return "" if self.form is None else self.section.forms[self.form]

    @property
    def short(self) -> bool:
        """Less of it is sent than there is."""
        return (self.form != 0 or self.section.beyond > 0) and not self.off

    @property
    def lost(self) -> bool:
        """Nothing of it is sent, so that no text of its own says where it is."""
        return self.short and self.form is None

    @property
    def capped(self) -> bool:
        """It is short only because its fuller forms are never sent."""
        return self.short and self.form == self.section.least

    @property
    def reason(self) -> str:
        """What was chosen and why: `full (score 92, 410 tokens)`."""
        if self.off:
            return "off: its multiplier is 0"
        kept = "" if self.form is None else f" (score {self.section.score(self.multiplier):g}, {self.tokens:,} tokens)"
        beyond = f"{self.section.beyond:,} bytes of its file are not read" if self.section.beyond else ""
        why = "; ".join(filter(None, (self.why, beyond)))
        return self.name + kept + (f": {why}" if why else "")

    def described(self, *, cached: bool) -> dict[str, Any]:
        """One element of `sections` in interface.md section 8, with the hash of the text that is sent."""
        return self.section.described() | {
            "multiplier": self.multiplier,
            "score": self.section.score(self.multiplier),
            "tokens": self.tokens,
            "full_tokens": self.full_tokens,
            "form": self.name,
            "reason": self.reason,
            "drop": self.drop or None,
            "off": self.off,
            "sha256": sha256(self.text) if self.text else None,
            "cached": cached and bool(self.text),
        }


def told(left_out: Mapping[str, str], room: int, count: Count) -> str:
    """One line for the model that names what is left out, section to drop, in at most `room` tokens; "" when none fits.

    What there is no room to name is counted.
    """
    names = [f"{section} ({drop})" for section, drop in left_out.items()]
    for shown in range(min(len(names), NAMED), -1, -1):
        listed = names[:shown] + ([f"{len(names) - shown} more"] if shown < len(names) else [])
        named, counted = f"left out for space: {', '.join(listed)}", f"{len(names)} sections left out"
        line = f"[nexus: {named if shown else counted}]"
        if names and count(line) <= room:
            return line
    return ""
