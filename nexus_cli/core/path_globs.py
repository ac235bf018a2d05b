"""Compile path patterns to regular expressions whose matching time is bounded for any pattern and path.

Several `*` translated to `.*` take exponential time on a path that almost matches. Here the text between two stars is
matched at its first occurrence only (an atomic group): a later one cannot allow more matches after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LEADS = {"": "", "**": ".*?", "**/": "(?:[^/]*+/)*?"}
"""The expressions of the wildcards that match several folders: `**` any text, `**/` any number of folders (only after a
`/` or at the beginning)."""


def compile_signs(signs: Iterable[str | re.Pattern[str]], end: str) -> re.Pattern[str]:
    """Compile a pattern that is split at its wildcards (`**/`, `**`, `*`, `?`, and expressions for one character) to an
    expression for `match`; `end` must match after it."""
    *before, (lead, (*texts, tail)) = _read_parts(signs)
    source = "".join(f"(?>{_LEADS[part_lead]}{_first_fit(part_texts)})" for part_lead, part_texts in before)
    if texts:
        tail = _first_fit(texts) + ("[^/]*+" if not tail else f"[^/]*?{tail}")
    return re.compile(f"{source}{_LEADS[lead]}{tail}(?={end})", re.DOTALL)


def _read_parts(signs: Iterable[str | re.Pattern[str]]) -> list[tuple[str, list[str]]]:
    """Return the parts of a pattern, each with the wildcard in `_LEADS` before it, and expressions of fixed length with
    a `*` between two of them."""
    parts = [("", [""])]
    for sign in signs:
        lead, texts = parts[-1]
        if isinstance(sign, re.Pattern):
            texts[-1] += sign.pattern
        elif sign in ("**/", "**"):
            if lead and texts == [""]:  # wildcards that follow each other directly are one
                sign = "**" if "**" in (parts.pop()[0], sign) else "**/"
            parts.append((sign, [""]))
        elif sign == "*":
            if len(texts) == 1 or texts[-1]:
                texts.append("")
        else:
            texts[-1] += "[^/]" if sign == "?" else re.escape(sign)
    return parts


def _first_fit(texts: Sequence[str]) -> str:
    return texts[0] + "".join(f"(?>[^/]*?{text})" for text in texts[1:])
