"""Compile path patterns to expressions whose matching time is bounded, whatever the pattern and the path are.

`*` as a regular expression, several times in one pattern, takes exponential time on a path that almost fits. Here the
text between two stars is matched at the first place where it fits and never again elsewhere (an atomic group): a later
place could not let more fit behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

ONE = "[^/]"
"""Any one character of a name."""


@dataclass(slots=True)
class GlobPart:
    """What lies between two signs that may stand for several folders."""

    lead: str = ""
    """What may stand before it: "" nothing, `**` any text, `**/` any number of whole folders: only behind a `/` or at
    the beginning."""
    texts: list[str] = field(default_factory=lambda: [""])
    """Expressions of fixed length, between which a `*` stands that stays within one name."""

    def add(self, expression: str) -> None:
        """Append an expression for one character."""
        self.texts[-1] += expression

    def add_star(self) -> None:
        """Append a `*`."""
        if len(self.texts) == 1 or self.texts[-1]:
            self.texts.append("")

    def is_empty(self) -> bool:
        """Return True if nothing stands behind what leads to it."""
        return self.texts == [""]


_LEADS = {"": "", "**": ".*?", "**/": "(?:[^/]*+/)*?"}


def compile_parts(parts: Sequence[GlobPart], end: str = r"\Z") -> re.Pattern[str]:
    """Return the expression of a pattern, for `match`; `end` is what must follow."""
    *before, last = _merge(parts)
    source = "".join(f"(?>{_LEADS[part.lead]}{_first_fit(part.texts)})" for part in before)
    *texts, tail = last.texts
    if texts:
        tail = _first_fit(texts) + ("[^/]*+" if not tail else f"[^/]*?{tail}")
    return re.compile(f"{source}{_LEADS[last.lead]}{tail}(?={end})", re.DOTALL)


def _merge(parts: Sequence[GlobPart]) -> list[GlobPart]:
    """Return the parts without those between which nothing stands."""
    merged = list(parts[:1])
    for part in parts[1:]:
        before = merged[-1]
        if before.lead and before.is_empty():
            merged[-1] = GlobPart("**" if "**" in (before.lead, part.lead) else "**/", part.texts)
        else:
            merged.append(part)
    return merged


def _first_fit(texts: Sequence[str]) -> str:
    return texts[0] + "".join(f"(?>[^/]*?{text})" for text in texts[1:])
