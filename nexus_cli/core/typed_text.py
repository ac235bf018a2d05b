"""Separate what a person typed in a message from what is attached behind it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

LONGEST_TYPED = 4_000
"""Characters: a longer text holds a paste (a log, a page), so nothing rests on it."""

_BLOCKS = ("stdin", "file", "folder", "shell", "recalled")
"""Tags of the blocks that hold attachments; they follow the typed text."""
_BLOCK = re.compile(rf"^[^\S\n]*<(?:{'|'.join(_BLOCKS)})\b", re.MULTILINE)
_ATTACHED = re.compile(rf"^<(?:stdin\b|(?:{'|'.join(_BLOCKS)}) \w+=)", re.MULTILINE)
"""The beginning of a block as we write it: all but `stdin` have an attribute."""
_CLOSED = tuple(f"</{name}>" for name in _BLOCKS)
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b\d[.])(?<!\b\d\d[.])(?<!\bvs[.])(?<!\bi[.]e[.])(?<!\be[.]g[.])(?<!\betc[.])(?<!\bcf[.])\s+"
    r"|(?<=[\u3002\uff01\uff1f])\s*",
    re.IGNORECASE,
)
"""The gap between two sentences; a number and an abbreviation end none."""
_ENDS = (".", "!", "?", ":", "\u3002", "\uff01", "\uff1f", "\uff1a")
"""Last characters of a line that the next one does not continue."""
_COLONS = (":", "\uff1a")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s")
"""The beginning of an item of a list."""
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that put no space between words, as a range of a regular expression."""
_LETTER = rf"[^\W{UNSPACED}]"
"""A letter or digit of a script that puts spaces between words."""
_HOLE = re.compile(r"^\[\.\.\. [\d,]{1,12} tokens ", re.MULTILINE)
"""Marker of an elided middle, which may have held the beginning of a block."""
_TAG = 64
"""Characters beyond the longest typed text in which the block after it may begin."""


def typed_text(message: str) -> str:
    """Return the text before the first attached block, or "" if it is longer than `LONGEST_TYPED`."""
    head = message[: LONGEST_TYPED + _TAG]
    block = _BLOCK.search(head)
    typed = head[: block.start()] if block else head
    return typed if len(typed) <= LONGEST_TYPED else ""


def split_attachments(message: str) -> tuple[str, str]:
    """Return what the person typed, whatever its length, and what is attached to it.

    A message has attachments only if it ends with a closing tag. They begin with the first block as we write one and
    reach to the end of the message, whatever a file in them says.
    """
    if not message.rstrip().endswith(_CLOSED):
        return message, ""
    found = _ATTACHED.search(message) or _HOLE.search(message)
    return (message[: found.start()].rstrip(), message[found.start() :]) if found else (message, "")


def enclosing_words(text: str, quote: str) -> str:
    """Return the whole sentences of `text` that hold `quote`, see `QuotedText.find`."""
    return QuotedText(text).find(quote)


class QuotedText:
    """A text in which quotations are looked up: it is split and folded once."""

    def __init__(self, text: str) -> None:
        self._paragraphs = _paragraphs(text)
        each = enumerate(self._paragraphs)
        self._units = [(number, one) for number, part in each for one in _SENTENCE.split(part) if one.strip()]
        self._starts, pieces, end = list[int](), list[str](), 0
        for _, one in self._units:
            self._starts.append(end)
            pieces.append(f"{_fold(one)} ")
            end += len(pieces[-1])
        self._joined = "".join(pieces)

    def find(self, quote: str) -> str:
        """Return the whole sentences that hold `quote`, white space and case apart; "" where it is not there.

        A part of a sentence may say the contrary of the whole ("push to main" of "never push to main"), on whichever
        line it stands, and so may what follows a line that ends in a colon without that line.
        """
        wanted = _fold(quote)
        if not any(map(str.isalnum, wanted)):
            return ""
        at = _find_words(self._joined, wanted)
        if at < 0:
            return ""
        units = self._units
        first, last = bisect_right(self._starts, at) - 1, bisect_right(self._starts, at + len(wanted) - 1) - 1
        return _introduction(self._paragraphs, units[first][0]) + "\n".join(
            " ".join(one.strip() for number, one in units[first : last + 1] if number == each)
            for each in dict.fromkeys(number for number, _ in units[first : last + 1])
        )


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs and the items of lists of `text`, each without its line ends: lines may be wrapped."""
    found, is_open = list[str](), False
    for line in text.split("\n"):
        if is_open and line.strip() and not _ITEM.match(line):
            found[-1] += f" {line.strip()}"
        elif line.strip():
            found.append(line)
        is_open = bool(line.strip()) and not line.rstrip().endswith(_ENDS)
    return found


def _introduction(paragraphs: Sequence[str], number: int) -> str:
    """Return the words ending in a colon that paragraph `number` follows, or the list that it is an item of."""
    above = list(paragraphs[:number])
    while above and _ITEM.match(paragraphs[number]) and _ITEM.match(above[-1]):
        above.pop()
    last = _SENTENCE.split(above[-1].strip())[-1] if above else ""
    return f"{last}\n" if last.endswith(_COLONS) else ""


def _find_words(joined: str, wanted: str) -> int:
    """Return the place of `wanted` where no word is cut by its ends, -1 where there is none."""
    if wanted not in joined:  # an expression takes ten times as long to say so
        return -1
    before = f"(?<!{_LETTER})" if wanted[0].isalnum() else ""
    after = f"(?!{_LETTER})" if wanted[-1].isalnum() else ""
    found = re.search(f"{before}{re.escape(wanted)}{after}", joined)
    return found.start() if found else -1


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
