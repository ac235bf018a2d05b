"""Compile path patterns to regular expressions whose matching time is bounded for any pattern and path.

Several `*` translated to `.*` take exponential time on a path that almost matches. Here the text between two stars is
matched at its first occurrence only (an atomic group): a later one cannot allow more matches after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

ONE = "[^/]"
"""Matches one character of a name."""


@dataclass(slots=True)
class GlobPart:
    """A part of a pattern between two wildcards that match several folders."""

    lead: str = ""
    """The wildcard before it: "" for none, `**` for any text, `**/` for any number of folders (only after a `/` or at
    the beginning)."""
    texts: list[str] = field(default_factory=lambda: [""])
    """Expressions of fixed length, separated by `*`, which matches within one name."""

    def add(self, expression: str) -> None:
        """Append an expression that matches one character."""
        self.texts[-1] += expression

    def add_star(self) -> None:
        if len(self.texts) == 1 or self.texts[-1]:
            self.texts.append("")

    def is_empty(self) -> bool:
        """Return True if nothing follows the leading wildcard."""
        return self.texts == [""]


def read_parts(signs: Iterable[str]) -> list[GlobPart]:
    """Return the parts of a pattern that is split at its wildcards: `**/`, `**`, `*` and `?`."""
    parts = [GlobPart()]
    for sign in signs:
        if sign in ("**/", "**"):
            parts.append(GlobPart(sign))
        elif sign == "*":
            parts[-1].add_star()
        else:
            parts[-1].add(ONE if sign == "?" else re.escape(sign))
    return parts


_LEADS = {"": "", "**": ".*?", "**/": "(?:[^/]*+/)*?"}


def compile_parts(parts: Sequence[GlobPart], end: str = r"\Z") -> re.Pattern[str]:
    """Compile the parts of a pattern to an expression for `match`; `end` must match after it."""
    *before, last = _merge(parts)
    source = "".join(f"(?>{_LEADS[part.lead]}{_first_fit(part.texts)})" for part in before)
    *texts, tail = last.texts
    if texts:
        tail = _first_fit(texts) + ("[^/]*+" if not tail else f"[^/]*?{tail}")
    return re.compile(f"{source}{_LEADS[last.lead]}{tail}(?={end})", re.DOTALL)


def _merge(parts: Sequence[GlobPart]) -> list[GlobPart]:
    """Merge wildcards that follow each other directly."""
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
