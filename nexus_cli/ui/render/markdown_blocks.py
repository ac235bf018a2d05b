"""Cut streaming Markdown into finished blocks, in time linear in its length. Knows nothing about drawing.

A block is a heading, a paragraph, a table, a whole list, a fence or a quotation. A very long one is output in parts, to
bound memory and delay. With `row`, single lines are output for the least delay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONG_LINE = 8192
"""Characters after which an unfinished line is cut."""
LONG_BLOCK = 400
"""Lines after which a block is output at the next line."""
LARGE_BLOCK = 32_768
"""Characters after which a block is output. A list first waits for the next item, but at most for as much again."""

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})\s*(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_BREAKS_IN = re.compile(r" {0,3}([-*+]|1[.)])\s+\S")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(\1[ \t]*){2,}$")
_SPECIAL = re.compile(r"\s*([-*+>#|]|\d{1,9}[.)]|`{3}|~{3}|$)(?!\*)|\s{4}")
"""A line that may begin something other than a paragraph."""
_MARKS = "`*_["
DELIMITER = re.compile(r" {0,3}\|?[ \t]*+:?-++:?[ \t]*+(\|[ \t]*+:?-++:?[ \t]*+)*\|?[ \t]*+$")
"""The second line of a table, repeated with the head if a long table is output in parts."""


@dataclass(frozen=True, slots=True)
class Block:
    """One finished block."""

    text: str
    fence: bool = False
    """True if `text` is the inside of a code fence."""
    info: str = ""
    """Text after the opening marks of a fence: the language, perhaps a file's name."""
    begins: bool = True
    """False for a later part of the same fence, list or line."""
    is_continued: bool = False
    """True for a later part of one long line: its first characters have no meaning as the beginning of a line."""


class Blocks:
    """`feed` yields the blocks that a piece of text finishes, `flush` the rest."""

    def __init__(self) -> None:
        self.row = 0
        """Columns of a row. If set, text is output by rows, code by lines and lists by items."""
        self._pieces: list[str] = []
        self._length = 0
        self._lines: list[str] = []
        self._size = 0
        self._list = False
        self._blank = 0
        self._fence = ""
        self._indent = 0
        self._info = ""
        self._continued = False
        self._torn = False

    @property
    def in_fence(self) -> bool:
        return bool(self._fence)

    @property
    def later(self) -> bool:
        """True if the open block continues an earlier part."""
        return self._continued or self._torn

    @property
    def empty(self) -> bool:
        """True if no block is open."""
        return not (self._length or self._lines or self._fence)

    @property
    def _ended_by_items(self) -> bool:
        """True if the open block is a paragraph, after which a list needs no blank line."""
        return not self._list and (self._continued if self.row else bool(self._lines) and not self._continued)

    def tail(self, most: int) -> str:
        """Return the end of the open block, at most about `most` characters of it."""
        pieces, size = ["".join(self._pieces)[-most:]], self._length
        for line in reversed(self._lines):
            if size >= most:
                break
            pieces.append(line)
            size += len(line) + 1
        return "\n".join(reversed(pieces))

    def feed(self, text: str) -> Iterator[Block]:
        """Yield the blocks that `text` finishes."""
        *lines, partial_line = text.split("\n")
        for line in lines:
            self._pieces.append(line)
            yield from self._cut("".join(self._pieces))
            yield from self._line("".join(self._pieces))
            if self._torn:
                yield from self._give(ends=not self.row)
            self._pieces, self._length, self._torn = [], 0, False
        if partial_line:
            self._pieces.append(partial_line)
            self._length += len(partial_line)
        if self._length > LONG_LINE:
            yield from self._cut("".join(self._pieces))
        elif 0 < self.row < self._length and not (self._fence or self._list):
            yield from self._rows("".join(self._pieces))

    def _rows(self, line: str) -> Iterator[Block]:
        """Yield the complete rows of an open line of plain text, cut outside of emphasis and code."""
        start, plain = 0, self._torn or not _SPECIAL.match(line)
        while plain and "|" not in line and len(line) - start > self.row:
            end = line.rfind(" ", start, start + self.row + 1) + 1
            while end > start and any(line.count(mark, start, end) % 2 for mark in _MARKS):
                end = line.rfind(" ", start, end - 1) + 1
            if end <= start:
                break
            yield from self._line(line[start:end])
            yield from self._give(ends=True)
            self._torn, start = True, end
        self._pieces, self._length = [line[start:]], len(line) - start

    def _cut(self, line: str) -> Iterator[Block]:
        start = 0
        while len(line) - start > LONG_LINE:
            end = line.rfind(" ", start, start + LONG_LINE) + 1 or start + LONG_LINE
            yield from self._line(line[start:end])
            if not self._fence:
                yield from self._give(ends=True)
                self._torn = True
            start = end
        self._pieces, self._length = [line[start:]], len(line) - start

    def flush(self) -> Iterator[Block]:
        """Yield the rest, including an open fence."""
        if self._length:
            line = "".join(self._pieces)
            self._pieces, self._length = [], 0
            yield from self._line(line)
        yield from self._give(ends=True)
        self._fence, self._torn = "", False

    def _line(self, line: str) -> Iterator[Block]:
        if self._fence:
            closing = line.strip()
            if closing.startswith(self._fence) and not closing.strip(self._fence[0]) and line[:4].strip():
                yield from self._give(ends=True)
                self._fence = ""
                return
            self._add(line[min(self._indent, len(line) - len(line.lstrip(" "))) :])
        elif not line.strip():
            if not self._list:
                yield from self._give(ends=True)
            elif self._lines:
                self._blank += 1
            return
        else:
            yield from self._opening(line)
        if self.row and self._lines and (self._fence or (not self._list and "|" not in line)):
            yield from self._give(ends=False)
        else:
            most = 2 if self._list else 1  # a list first waits for the next item
            if len(self._lines) >= most * LONG_BLOCK or self._size >= most * LARGE_BLOCK:
                yield from self._give(ends=False)

    def _opening(self, line: str) -> Iterator[Block]:
        item = not self._torn and _ITEM.match(line) and not _RULE.match(line)
        inside = self._list and (line.startswith(("  ", "\t")) or item)
        if self._list and self._blank and not inside:
            yield from self._give(ends=True)
        elif self._list and item and not line.startswith(" "):
            if self.row or len(self._lines) >= LONG_BLOCK or self._size >= LARGE_BLOCK:
                yield from self._give(ends=False)
        elif self._ended_by_items and item and _BREAKS_IN.match(line):
            yield from self._give(ends=True)
        if self._blank:
            self._lines += [""] * self._blank
            self._blank = 0
        fence = None if inside or self._torn else _FENCE.match(line)
        if fence:
            yield from self._give(ends=True)
            self._fence, self._info = fence[1], fence[2].strip()
            self._indent = len(line) - len(line.lstrip(" "))
            return
        if not inside and not self._torn and _HEADING.match(line):
            yield from self._give(ends=True)
            yield Block(line)
            return
        if not self._lines and not self._continued:
            self._list = bool(item)
        self._add(line)

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _give(self, *, ends: bool) -> Iterator[Block]:
        if self._lines or (self._fence and ends and not self._continued):
            begins = not (self._continued or self._torn)
            yield Block("\n".join(self._lines), bool(self._fence), self._info, begins, self._torn)
        head = self._lines[:2] if not ends and len(self._lines) > 2 and DELIMITER.match(self._lines[1]) else []
        self._lines, self._size, self._blank = head, 0, 0
        self._continued = not ends
        if ends:
            self._list, self._info = False, "" if not self._fence else self._info
