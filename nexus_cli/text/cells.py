"""Text by the cells that it takes in a terminal: measuring, cutting, wrapping. The meaning of the text does not matter
here.

Widths are those of `wcwidth`, added up. Terminals disagree about joined emoji, selectors and Indic vowels; where they
do, the larger width counts, so that nothing runs over. Only Markdown is measured by rich, which breaks its lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from nexus_cli.text.terminal_sanitizer import sanitize

TAB = 4
PROSE = 110
"""Cells that a line of prose takes at most, however wide the terminal is."""
_WORD = re.compile(r"\s*\S+|\s+$")
_CODE = re.compile(r"\x1b\[[0-9;:]*m|\x1b\]8;[^\x07\x1b]*\x1b\\")
_JOINERS = "\u200c\u200d"
_SELECTOR = "\ufe0f"


@lru_cache(8192)
def char_cells(char: str) -> int:
    """Return the cells that one character takes at most, whatever stands beside it; 1 for a control character."""
    if char == _SELECTOR or unicodedata.category(char) == "Mc":
        return 1
    from wcwidth import wcwidth  # noqa: PLC0415  (it takes 12 ms, and most text is ASCII)

    return abs(wcwidth(char))


def cells(text: str) -> int:
    """Return cells that `text` (one line without control characters) takes at most."""
    return len(text) if text.isascii() else sum(map(char_cells, text))


def without_codes(text: str) -> str:
    """Return `text` without SGR codes and links."""
    return _CODE.sub("", text) if "\x1b" in text else text


def one_line(text: str) -> str:
    """Return `text` sanitized and on one line, every run of blanks one space."""
    return " ".join(sanitize(text).split())


def expand_tabs(line: str) -> str:
    """Return `line` with each tab as the spaces up to the next multiple of `TAB` characters."""
    return line.expandtabs(TAB)


def cut(line: str, width: int, sign: str = "") -> str:
    """Return as much of `line` as fits `width` cells, with `sign` at the end where something is missing."""
    if cells(line) <= width:
        return line
    sign = sign if cells(sign) <= width else ""
    room = width - cells(sign)
    prefix = line[: _fits(line, 0, room)].rstrip(_JOINERS) if room > 0 else ""
    return (prefix if cells(prefix) <= room else "") + sign


def cut_start(text: str, width: int, sign: str = "") -> str:
    """Return the end of `text` that fits `width` cells, with `sign` before it where something is missing."""
    if cells(text) <= width:
        return text
    room, start = width - cells(sign), len(text)
    while start > 0 and room >= char_cells(text[start - 1]):
        room -= char_cells(text[start - 1])
        start -= 1
    while start < len(text) and _joined(text, start):
        start += 1
    return (sign if cells(sign) <= width else "") + text[start:]


def fold(line: str, width: int) -> Iterator[str]:
    """Return `line` in pieces of at most `width` cells, cut anywhere but inside a character; at least one piece."""
    width = max(2, width)
    start = 0
    if line.isascii():
        yield from (line[at : at + width] for at in range(0, len(line) or 1, width))
        return
    while True:
        end = _fits(line, start, width)
        yield line[start:end]
        if end >= len(line):
            return
        start = end


def wrap(text: str, width: int) -> Iterator[str]:
    """Return the lines of `text` in pieces of at most `width` cells, cut between words where that is possible."""
    width = max(2, width)
    for line in text.split("\n"):
        line = expand_tabs(line).rstrip(" ")
        if cells(line) <= width:
            yield line
        else:
            yield from _wrapped(line, width)


def _wrapped(line: str, width: int) -> Iterator[str]:
    row, used = "", 0
    for match in _WORD.finditer(line):
        word = match[0]
        size = cells(word)
        if used + size > width and row.strip():
            yield row
            row, used = "", 0
            word = word.lstrip()
            size = cells(word)
        if used + size > width:
            *rows, word = fold(row + word, width)
            yield from rows
            row, used, size = "", 0, cells(word)
        row += word
        used += size
    if row:
        yield row


def _fits(line: str, start: int, width: int) -> int:
    """Return one past the last character of `line[start:]` that fits `width`; at least one character where there is
    one."""
    end, used = start, 0
    while end < len(line) and used + char_cells(line[end]) <= width:
        used += char_cells(line[end])
        end += 1
    boundary = end
    while start < boundary < len(line) and _joined(line, boundary):
        boundary -= 1
    if boundary > start:
        return boundary
    return max(end, min(start + 1, len(line)))


def _joined(text: str, cut: int) -> bool:
    """True if a cut here would part what is read as one character."""
    after = text[cut]
    return text[cut - 1] in _JOINERS or char_cells(after) == 0 or unicodedata.category(after).startswith("M")
