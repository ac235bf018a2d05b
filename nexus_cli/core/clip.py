"""Cutting one text to a number of tokens: head and tail stay, one visible marker stands where the hole is.

Positions are character offsets as in Python slices, so that joined ranges give the original back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Count = Callable[[str], int]
Marker = Callable[[int, int, int, int], str]
"""`(start, end, total, tokens) -> line`: the hole `[start:end)` of a text of `total` characters, and its tokens."""

TRIES = 12


@dataclass(frozen=True, slots=True)
class Clipped:
    """A text that fits, and what was cut out of it."""

    text: str
    start: int = 0
    """First character left out."""
    end: int = 0
    """One past the last character left out; equal to `start` when nothing was."""
    tokens: int = 0
    """Tokens left out."""

    @property
    def whole(self) -> bool:
        """Nothing was cut."""
        return self.start == self.end


def clip(text: str, cap: int, count: Count, marker: Marker) -> Clipped:
    """`text` in at most `cap` tokens, at least its marker."""
    total_tokens = count(text)
    if total_tokens <= cap:
        return Clipped(text)
    length = len(text)
    room = cap - count(marker(length, length, length, total_tokens)) - 4
    if room < 2:
        return Clipped(marker(0, length, length, total_tokens), 0, length, total_tokens)
    side = max(1, int(length * room / total_tokens / 2))
    for _ in range(TRIES):
        start, end = _line_end(text, side), _line_start(text, length - side)
        head, tail = text[:start], text[end:]
        used = count(head) + count(tail)
        if used <= room and start < end:
            line = marker(start, end, length, total_tokens - used)
            return Clipped(_join(head, line, tail), start, end, total_tokens - used)
        side = int(side * min(0.9, room / max(1, used)))
        if side < 1:
            break
    return Clipped(marker(0, length, length, total_tokens), 0, length, total_tokens)


def _join(head: str, line: str, tail: str) -> str:
    before = head if not head or head.endswith("\n") else head + "\n"
    after = tail if not tail or tail.startswith("\n") else "\n" + tail
    return before + line + after


def _line_end(text: str, position: int) -> int:
    """The end of the last line before `position`, if that costs less than a quarter of the head."""
    newline = text.rfind("\n", 0, position) + 1
    return newline if newline > position * 0.75 else position


def _line_start(text: str, position: int) -> int:
    """The start of the next line after `position`, if that costs less than a quarter of the tail."""
    newline = text.find("\n", position) + 1
    return newline if newline and newline - position < (len(text) - position) * 0.25 else position


def plain_marker(start: int, end: int, total: int, tokens: int) -> str:
    """The marker where nothing can be read back."""
    return f"[... {tokens} tokens left out ...]"


def drop_marker(drop_id: str) -> Marker:
    """The marker that says how to read the rest of drop `drop_id`."""

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        where = f"characters {start}:{end} of {total}"
        return f'[... {tokens} tokens left out ({where}): recall("{drop_id}", "{start}:{end}") ...]'

    return marker
