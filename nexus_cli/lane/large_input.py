"""Find the attached texts of a message, share its room among them, and index what is left out of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

from nexus_cli.core.elide import Marker, drop_marker, line_namer, one_line

_OPENING = re.compile(
    r'^<(?:(?P<stdin>stdin)|file path="(?P<path>[^"\n]*)"(?: lines="(?P<line>\d+)-\d+"| pages="[\d-]+" of="\d+")?)>\n',
    re.MULTILINE,
)
_LEAST, _FEWEST, _MOST = 32_000, 4, 32
"""Least characters of a chunk (about one recall), fewest and most chunks of an index."""
_LINE_TOKENS = 80
"""Most tokens of a chunk's line."""
_SHARE = 4
"""Part of a text's room that its index may take: a fourth."""
_SHOWN = 80
"""Characters shown of a chunk's first line."""


@dataclass(frozen=True, slots=True)
class AttachedText:
    """The content of a `<stdin>` or `<file>` block: `text[start:end]` of its message."""

    name: str
    start: int
    end: int
    first_line: int = 1
    """Number of its first line."""


def find_attached_texts(message: str) -> list[AttachedText]:
    """Return the contents of the attached blocks of `message`, in order; a block without an end is none."""
    found: list[AttachedText] = []
    opening = _OPENING.search(message)
    while opening:
        start, closing = opening.end(), "\n</stdin>" if opening["stdin"] else "\n</file>"
        # stdin is attached last, whatever tags it contains.
        end = message.rfind(closing, start) if opening["stdin"] else message.find(closing, start)
        if end < start:
            break
        name = "stdin" if opening["stdin"] else one_line(unescape(opening["path"]))
        found.append(AttachedText(name, start, end + 1, int(opening["line"] or 1)))
        opening = _OPENING.search(message, end)
    return found


def share_room(sizes: Sequence[int], room: int) -> list[int]:
    """Return the share of `room` for each text: its size while the smaller ones leave it so much."""
    shares = [0] * len(sizes)
    for left, place in zip(range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True):
        shares[place] = min(sizes[place], max(0, room) // left)
        room -= shares[place]
    return shares


def indexed_marker(text: str, drop_id: str, *, first_line: int, cap: int) -> Marker:
    """Return a marker that names the lines of its hole, and lists the hole's chunks if there are several.

    Each is listed with its range, for `recall`, its lines and the start of its first line. `cap` is the room in tokens
    of the elided text.
    """
    line = drop_marker(drop_id, line_namer(text, first_line))

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        low, high = (start, end) if start < end else (0, total)
        chunks = min(_MOST, (high - low) // _LEAST, cap // _SHARE // _LINE_TOKENS)
        if chunks < _FEWEST:
            return line(start, end, total, tokens)
        head = f'[{chunks} chunks of it: recall("{drop_id}", "A:B") reads one, with a query it searches it]'
        rows = _chunk_rows(text, low, high, chunks, first_line)
        return "\n".join([line(start, end, total, tokens), head, *rows, "[end of the chunks]"])

    return marker


def _chunk_rows(text: str, low: int, high: int, chunks: int, first_line: int) -> list[str]:
    """Return a row for each of `chunks` parts of `text[low:high]`, which begin at lines where there are any."""
    starts = [low]
    for n in range(1, chunks):
        at = low + (high - low) * n // chunks
        line = text.find("\n", at, at + _LEAST // 4) + 1
        starts.append(line or at)
    rows, number = [], first_line + text.count("\n", 0, low)
    for start, end in zip(starts, [*starts[1:], high], strict=True):
        last = number + text.count("\n", start, end - 1)
        first = one_line(text[start : min(end, start + _SHOWN)].partition("\n")[0])
        lines = f"line {number}" if number == last else f"lines {number}-{last}"
        rows.append(f"{start}:{end} {lines}: {first}")
        number = last + (text[end - 1] == "\n")
    return rows
