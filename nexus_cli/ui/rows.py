"""Rows of the screen that are written as a whole: cut to a width, without characters that terminals draw differently.

A row is text with SGR codes. Other modules decide on the content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from nexus_cli.text.cells import cells, cut

_SGR = re.compile(r"(\x1b\[[0-9;:]*m)")
_CONTROL = re.compile(r"[\x00-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")
_DISAGREED = re.compile(
    "[\u200b-\u200f\ufe00-\ufe0f\u2060\ufeff"  # joiners, marks, selectors
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"  # letters of flags, tones of skin, tags
)
_FLAG, _WIDE_LETTER = 0x1F1E6, 0xFF21
RESET = "\x1b[0m"


def strip_ambiguous(text: str) -> str:
    """Return `text` so that each character takes the same number of columns as alone, in every terminal.

    Joiners and selectors are removed, so that a joined emoji is shown as its parts. Flag letters become wide letters
    and skin tones a wide blank. The width by `wcwidth` never changes, so that computed positions stay valid.
    """
    return text if text.isascii() else _DISAGREED.sub(_alone, text)


def _alone(match: re.Match[str]) -> str:
    code = ord(match[0])
    if _FLAG <= code < _FLAG + 26:
        return chr(code - _FLAG + _WIDE_LETTER)
    return "\u3000" if 0x1F3FB <= code <= 0x1F3FF else ""


def fit_row(line: str, columns: int) -> str:
    """Return `line` with its codes, cut to `columns`."""
    line = strip_ambiguous(_CONTROL.sub(_replace_control, line)).replace("\t", "    ")
    room, pieces = columns, []
    for place, part in enumerate(_SGR.split(line)):
        if place % 2 == 0:
            piece = cut(part, room)
            room = room - cells(piece) if piece == part else 0
            part = piece
        pieces.append(part)
    return "".join(pieces) + (RESET if "\x1b" in line else "")


def _replace_control(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\t" else "?"


def count_folds(widths: Iterable[int], columns: int) -> int:
    """Return the rows that characters of these widths take in a terminal that wraps at `columns`; at least one."""
    rows, used = 1, 0
    for width in widths:
        if used + width > columns and used:
            rows, used = rows + 1, 0
        used += width
    return rows


def rows_above_cursor(rows: Sequence[Sequence[int]], x: int, columns: int) -> int:
    """Return the rows above the cursor, which is in the last of `rows` at column `x`, after a terminal has wrapped
    them.

    Each row is given by its characters' widths. After the end of a row, the cursor stays in the row's last part.
    """
    *before, last = rows
    # The character under the cursor decides the part of the row that has the cursor.
    characters_before = 1 + sum(start < x for start in accumulate(last[:-1], initial=0))
    return sum(count_folds(row, columns) for row in before) + count_folds(last[:characters_before], columns) - 1
