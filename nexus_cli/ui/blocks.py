"""Cuts streaming Markdown into finished blocks, in time linear in its length. How a block looks is not known here.

A block is a heading, a paragraph, a table, a whole list, a fence, a quotation. One that grows without an end is given
out in parts, so that neither the memory nor the wait does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONG_LINE = 8192
"""Characters after which an unfinished line is cut."""
LONG_BLOCK = 400
"""Lines after which a block is given out at the next line."""

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})\s*([^\s`]*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """One finished block."""

    text: str
    fence: bool = False
    """`text` is the inside of a code fence."""
    language: str = ""
    begins: bool = True
    """False for a later part of the same fence or list."""


class Blocks:
    """`feed` gives the blocks that a piece of text finishes, `flush` what is left."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._lines: list[str] = []
        self._list = False
        self._blank = 0
        self._fence = ""
        self._language = ""
        self._continued = False

    def feed(self, text: str) -> Iterator[Block]:
        """The blocks that `text` finishes."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._pieces.append(line)
            yield from self._cut("".join(self._pieces))
            yield from self._line("".join(self._pieces))
            self._pieces, self._length = [], 0
        if rest:
            self._pieces.append(rest)
            self._length += len(rest)
        if self._length > LONG_LINE:
            yield from self._cut("".join(self._pieces))

    def _cut(self, line: str) -> Iterator[Block]:
        start = 0
        while len(line) - start > LONG_LINE:
            end = line.rfind(" ", start, start + LONG_LINE) + 1 or start + LONG_LINE
            yield from self._line(line[start:end])
            if not self._fence:
                yield from self._give(ends=True)
            start = end
        self._pieces, self._length = [line[start:]], len(line) - start

    def flush(self) -> Iterator[Block]:
        """Everything that is left, also a fence that is still open."""
        if self._length:
            line = "".join(self._pieces)
            self._pieces, self._length = [], 0
            yield from self._line(line)
        yield from self._give(ends=True)
        self._fence = ""

    def _line(self, line: str) -> Iterator[Block]:
        if self._fence:
            closing = line.strip()
            if closing.startswith(self._fence) and not closing.strip(self._fence[0]) and line[:4].strip():
                yield from self._give(ends=True)
                self._fence = ""
                return
            self._lines.append(line)
        elif not line.strip():
            if not self._list:
                yield from self._give(ends=True)
            elif self._lines:
                self._blank += 1
            return
        else:
            yield from self._opening(line)
        if len(self._lines) >= LONG_BLOCK:
            yield from self._give(ends=False)

    def _opening(self, line: str) -> Iterator[Block]:
        inside = self._list and (line.startswith(("  ", "\t")) or _ITEM.match(line))
        if self._list and self._blank and not inside:
            yield from self._give(ends=True)
        if self._blank:
            self._lines += [""] * self._blank
            self._blank = 0
        fence = None if inside else _FENCE.match(line)
        if fence:
            yield from self._give(ends=True)
            self._fence, self._language = fence[1], fence[2]
            return
        if _HEADING.match(line) and not inside:
            yield from self._give(ends=True)
            yield Block(line)
            return
        if not self._lines and not self._continued:
            self._list = bool(_ITEM.match(line))
        self._lines.append(line)

    def _give(self, *, ends: bool) -> Iterator[Block]:
        if self._lines or (self._fence and ends and not self._continued):
            yield Block("\n".join(self._lines), bool(self._fence), self._language, not self._continued)
        self._lines, self._blank = [], 0
        self._continued = not ends
        if ends:
            self._list, self._language = False, "" if not self._fence else self._language
