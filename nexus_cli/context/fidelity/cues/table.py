"""How a table of cues is made, and the pieces that several of them share."""

from __future__ import annotations

import re


def table(*patterns: str) -> re.Pattern[str]:
    """One pattern of several alternatives."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def words(text: str) -> frozenset[str]:
    """The words of a small list."""
    return frozenset(text.split())


START = r"(?:^|[,;:(—–-] ?|\b(?:and|but|so|or|please|pls|just|also|then|that|again|ok|okay|though) )"
"""Where an imperative can begin."""
NUMBER = r"(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|fifty|a hundred|a thousand)"
"""A number in words or digits begins so."""
