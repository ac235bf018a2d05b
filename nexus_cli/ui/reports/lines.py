"""Lay out lines: cells as a terminal counts them, text wrapped and cut to a width, tables.

Reports sanitize texts when they are printed; here they are measured.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from nexus_cli.ui.terminal_sanitizer import sanitize

Value = Mapping[str, Any]
ENOUGH = 16
"""Cells that the last column of a table needs to say something."""
LEAST = 20
"""The narrowest width that a form keeps to."""
SHORT_ID = 13
"""Characters of a session's id that name it in a hint: its time in milliseconds and three by chance."""


def number(value: Any) -> str:
    """Return a number with thousands separated, `-` when it is unknown."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def limit(value: Any) -> str:
    """Return the value of a limit in words: `yes`, `no`, names after each other, a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return number(value) if isinstance(value, int | float) else str(value)


def dollars(value: Any) -> str:
    """Return an amount of US dollars, `?` when it is unknown; below one dollar always with four decimals, as columns
    need."""
    if value is None:
        return "?"
    return f"${value:,.4f}" if round(value, 4) < 1 else f"${value:,.2f}"


def share(part: Any, whole: Any) -> str:
    """Return `part` of `whole` in percent, `-` where there is no whole."""
    return f"{part / whole:.1%}" if whole and part is not None else "-"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 request`, `3 requests`; `nouns` where an s is not enough."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def when(at: Any) -> str:
    """Return a time of the ledger, to the minute."""
    return str(at or "")[:16].replace("T", " ")


def cells(text: str) -> int:
    """Return columns that `text`, one line without tabs, takes at most in a terminal once it is sanitized."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_cell, sanitize(text)))


def _cell(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


@lru_cache(4096)
def _alone(char: str) -> int:
    """Return the most cells that one character takes, whatever stands beside it."""
    return cells(char)


def cut(text: str, room: int) -> str:
    """Return `text`, one line, in at most `room` cells; where it is longer it ends in an ellipsis."""
    if _fits(text, room):
        return text
    return text[: _most(text, 0, max(0, room - 1))] + "…" if room > 0 else ""


def one_line(text: Any, room: int) -> str:
    """Return `text` on one line of at most `room` cells."""
    return cut(" ".join(str(text or "")[: DENSE * max(1, room)].split()), room)


DENSE = 8
"""Characters of no width that one cell can hold before a line counts as full."""


def _fits(text: str, room: int) -> bool:
    """True if `text` takes at most `room` cells; quick for a text of any length."""
    return len(text) <= DENSE * room and cells(text) <= room


def _most(text: str, start: int, room: int) -> int:
    """Return where the longest piece of `text` from `start` on ends that takes at most `room` cells."""
    window = text[start : start + DENSE * room]
    if window[: room + 1].isascii() and window[: room + 1].isprintable():
        return start + min(room, len(window))
    used = 0
    for place, char in enumerate(window):
        used += _alone(char)
        if used > room:
            return start + place
    return start + len(window)


def filled(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Return `text` as lines of words in at most `width` cells, `indent` before each (`first` before the first).

    A word that is too long for a line is broken.
    """
    lines: list[str] = []
    line, empty = indent if first is None else first, True
    room = max(1, width - cells(indent))
    for word in text.split():
        start = 0
        while start < len(word):
            gap = "" if empty else " "
            left = width - cells(line + gap)
            rest = word[start : start + DENSE * width]
            if len(rest) == len(word) - start and _fits(rest, left):
                line, empty, start = line + gap + rest, False, len(word)
                continue
            end = _most(word, start, max(0, left))
            if not empty and (end == start or left < width // 3 or _fits(word[start:], room)):
                lines.append(line)
                line, empty = indent, True
            else:
                end = max(start + 1, end)
                lines.append(line + gap + word[start:end])
                line, empty, start = indent, True, end
    return lines if empty else [*lines, line]


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text` line by line as it is, only long lines broken: for code, output and what people wrote."""
    room = max(2, width - cells(indent))
    lines = []
    for line in text.expandtabs(4).split("\n"):
        line = line.rstrip("\r")
        start, end = 0, len(line) if _fits(line, room) else _most(line, 0, room)
        while end < len(line):
            lines.append(indent + line[start:end])
            start, end = end, max(end + 1, _most(line, end, room))
        lines.append((indent + line[start:]).rstrip())
    return lines


def shortened(lines: Sequence[str], most: int, width: int, *, tail: bool = False) -> list[str]:
    """Return at most `most` of `lines`, and a line that says how many are not shown; `tail` keeps the last ones."""
    hidden = len(lines) - most
    if hidden <= 0:
        return list(lines)
    note = cut(f"[{plural(hidden, 'line')} {'before' if tail else 'more'}]", width)
    return [note, *lines[-most:]] if tail else [*lines[:most], note]


def table(
    rows: Sequence[Sequence[str]], width: int, *, right: Sequence[int] = (), whole: bool = False
) -> list[str]:
    """Return `rows` (the first is the heading) as aligned lines.

    The last column takes the rest of `width` and is cut to it, or wrapped if `whole`. If too little is left for it each
    row becomes a paragraph: its label (the first cell, or the last if the first is a number), then the others by name,
    without empty ones.
    """
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    if not rows:
        return []
    columns = list(zip(*rows, strict=True))
    sizes = [max(map(cells, column)) for column in columns[:-1]]
    room = width - sum(sizes) - 2 * len(sizes)
    if not _roomy(columns[-1], room):
        return [line for row in rows[1:] for line in _paragraph(rows[0], row, width, whole)]
    lines = []
    for row in rows:
        aligned = [
            " " * (size - cells(cell)) + cell if index in right else cell + " " * (size - cells(cell))
            for index, (cell, size) in enumerate(zip(row, sizes, strict=False))
        ]
        first, *more = (filled(row[-1], room) if whole else ()) or (one_line(row[-1], room),)
        lines.append("  ".join([*aligned, first]).rstrip())
        lines += [" " * (width - room) + line for line in more]
    return lines


def aligns(rows: Sequence[Sequence[str]], width: int) -> bool:
    """True if `table` makes aligned lines of `rows` at this width, not paragraphs."""
    columns = list(zip(*rows, strict=True))
    return _roomy(columns[-1], width - sum(max(map(cells, column)) + 2 for column in columns[:-1]))


def _roomy(last: Sequence[str], room: int) -> bool:
    return room >= min(ENOUGH, max(map(cells, last)))


def _paragraph(names: Sequence[str], row: Sequence[str], width: int, whole: bool) -> list[str]:
    """Return a row below its label; a column without a name (a mark) goes before the label, or without a name."""
    label = len(names) - 1 if names[0] in NUMBERS else 0 if names[0] else 1
    head = " ".join(filter(None, row[: label + 1]))
    if label > 1:
        head = row[label] if whole else one_line(row[label], 2 * width)
    rest = [place for place in range(0 if label > 1 else label + 1, len(names)) if place != label]
    said = [
        f"{names[place]} {one_line(row[place], 2 * width)}".strip() for place in rest if row[place] not in ("", "-")
    ]
    return [*filled(head, width, "    ", ""), *filled(", ".join(said), width, "    ")]


def block(title: str, rows: Sequence[Sequence[str]], width: int, *, whole: bool = False) -> list[str]:
    """Return a titled table after an empty line; nothing if it has only its heading. Numbers are right-aligned."""
    if len(rows) < 2:
        return []
    right = [index for index, name in enumerate(rows[0]) if name in NUMBERS]
    return ["", f"{title}:", *("  " + line for line in table(rows, width - 2, right=right, whole=whole))]


NUMBERS = frozenset(
    {"tokens", "value", "requests", "input", "output", "cached", "cost", "turns", "window", "cold", "saved", "missed",
     "expected", "written"}
)  # fmt: skip
"""Headings of right-aligned columns."""


def paragraphs(texts: Iterable[str], width: int, indent: str = "") -> list[str]:
    """Return each of `texts` filled by itself."""
    return [line for text in texts for line in filled(text, width, indent)]
