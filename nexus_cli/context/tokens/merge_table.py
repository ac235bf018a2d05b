"""Exact token counts of a few short texts, without the encoder of tiktoken.

The encoder takes 0.2 s and 75 MB before it counts anything. To look words up in the same table takes 0.05 s, and its
memory can be released before the model library is imported. `nexus_cli.context.tokens.counter` decides which texts are
counted here.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from importlib import import_module
from itertools import pairwise
from pathlib import Path

_KNOWN = re.compile("[\0-\u04ff\u2010-\u2027]*").fullmatch
LONGEST = 64
"""Bytes of the longest word that is joined here: joining takes the square of its length."""


class MergeTable:
    """The ranks of a table's tokens, by their base64. Raises `ImportError` without the regex library."""

    def __init__(self, path: Path, pattern: str) -> None:
        """Read the table at `path`; `pattern` splits a text into words. Its lines are in the order of their ranks."""
        # As the encoder's own library has it: for this one, white space has four control characters more.
        pattern = pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")
        self._split = import_module("regex").compile(pattern).findall
        tokens = path.read_bytes().split()[::2]
        self._ranks = dict(zip(tokens, range(len(tokens)), strict=True))
        self._counted: dict[str, int] = {}

    def count(self, text: str) -> int | None:
        """Return the tokens of `text`, None if only the encoder can count it.

        The two libraries know different versions of Unicode, so they disagree on some characters: only text in Latin,
        Greek and Cyrillic letters with common punctuation is counted here.
        """
        if not (text.isascii() or _KNOWN(text)):
            return None
        tokens = 0
        for word in self._split(text):
            known = self._counted.get(word)
            if known is None:
                known = self._counted[word] = self._count_word(word.encode())
            if known == 0:
                return None
            tokens += known
        return tokens

    def _count_word(self, word: bytes) -> int:
        """Join the bytes of `word` to tokens, the pair of the lowest rank first; return their number, 0 if unknown."""
        if self._rank(word) is not None:
            return 1
        if len(word) > LONGEST:
            return 0
        parts = [word[at : at + 1] for at in range(len(word))]
        while True:
            pairs = ((self._rank(left + right), at) for at, (left, right) in enumerate(pairwise(parts)))
            _, at = min(((rank, at) for rank, at in pairs if rank is not None), default=(0, -1))
            if at < 0:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return 0 if any(self._rank(part) is None for part in parts) else len(parts)

    def _rank(self, token: bytes) -> int | None:
        return self._ranks.get(b2a_base64(token, newline=False))
