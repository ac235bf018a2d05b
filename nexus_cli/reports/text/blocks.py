"""Lay out reports: paragraphs, lines and tables at a width in cells. All text is sanitized here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import cut_line, number
from nexus_cli.text.cells import cells, expand_tabs, fold, one_line, wrap
from nexus_cli.text.terminal_sanitizer import sanitize

MIN_COLUMN_CELLS = 16
"""Least useful width of a table's last column, in cells."""


class ReportBlock(Protocol):
    """A part of a report, which knows its lines at each width."""

    def lines(self, width: int) -> list[str]: ...


Blocks = Iterable[str | ReportBlock]
"""What a report says: a text is a paragraph, "" an empty line."""


def lay_out(blocks: Blocks, width: int) -> list[str]:
    """Return the lines of a report at `width` cells."""
    lines: list[str] = []
    for block in blocks:
        lines += (Paragraph(block) if isinstance(block, str) else block).lines(width) if block else [""]
    return lines


class Paragraph(NamedTuple):
    """Words that fill lines behind `indent` (`first`: the first line); words are broken if needed."""

    text: str
    indent: str = ""
    first: str | None = None

    def lines(self, width: int) -> list[str]:
        lines: list[str] = []
        line, gap = self.indent if self.first is None else sanitize(self.first), ""
        room = width - cells(self.indent)
        for word in sanitize(self.text).split():
            space = width - cells(line + gap)
            if gap and cells(word) > space and (space < width // 3 or cells(word) <= room):
                lines.append(line)
                line, gap, space = self.indent, "", room
            if cells(word) > space:
                begin = next(fold(word, space))
                folded = fold(word[len(begin) :], room)
                *full_lines, word = [line + gap + begin, *(self.indent + piece for piece in folded)]
                lines += full_lines
                line, gap = word, " "
            else:
                line, gap = line + gap + word, " "
        return [*lines, line] if gap else lines


def paragraphs(texts: Iterable[str], indent: str = "", first: str | None = None) -> list[Paragraph]:
    """Return a paragraph for each of `texts`."""
    return [Paragraph(text, indent, first) for text in texts]


class Verbatim(Paragraph):
    """Lines that stay unchanged, except that long ones are broken: code, output and typed text."""

    def lines(self, width: int) -> list[str]:
        lines, room = expand_tabs(sanitize(self.text + "\n")).split("\n")[:-1], width - cells(self.indent)
        return self._indented(piece for line in lines for piece in fold(line, room))

    def _indented(self, pieces: Iterable[str]) -> list[str]:
        first, *following = pieces
        start = self.indent if self.first is None else sanitize(self.first)
        return [(start + first).rstrip(), *((self.indent + piece).rstrip() for piece in following)]


class Wrapped(Verbatim):
    """Lines that stay unchanged, except that long ones are broken between words: messages, and names of files beside
    words."""

    def lines(self, width: int) -> list[str]:
        return self._indented(wrap(sanitize(self.text + "\n")[:-1], width - cells(self.indent)))


class OneLine(Paragraph):
    """A text on one line, which is cut."""

    def lines(self, width: int) -> list[str]:
        return [self.indent + cut_line(self.text, width - cells(self.indent))]


class Pair(NamedTuple):
    """A name in a column of `size` cells and its text beside it, or below it if there is no room."""

    name: str
    text: str
    size: int

    def lines(self, width: int) -> list[str]:
        if self.size + 20 > width or cells(self.name) + 2 > self.size:
            return lay_out([Paragraph(self.name, "    ", "  "), Paragraph(self.text, "      ")], width)
        return Paragraph(self.text, " " * self.size, self.name.ljust(self.size)).lines(width)


class Drawn(NamedTuple):
    """A line that fits and is shown as it is."""

    text: str

    def lines(self, width: int) -> list[str]:
        return [self.text]


Columns = Mapping[str, Any]
"""The columns of a table by name: the key of the value in a row, or a function that makes the value of the row."""

NO_CELLS: Columns = {" ": lambda row: ""}
"""A last column that is empty: the column before it is aligned, and not cut."""


class Table(NamedTuple):
    """Aligned `rows` below the names of their columns, if these are shown (`headed`); `none`, a sentence of ours, if
    there are no rows. Figures are formatted by `number`; below `NUMBERS`, and in a first column without a name, cells
    are right-aligned.

    The last column takes the rest of the width and is cut to it. If too little is left for it each row becomes a
    paragraph: its label (the first cell, or the last if the first is a number), then the others by name, without empty
    ones.
    """

    columns: Columns
    rows: Iterable[Any]
    none: str = ""
    headed: bool = True

    def lines(self, width: int) -> list[str]:
        names, *cell_rows = _cells(self.columns, self.rows)
        if not cell_rows:
            return Paragraph(name_commands(self.none)).lines(width)
        columns = list(zip(names, *cell_rows, strict=True))
        sizes = [max(map(cells, column)) for column in columns[:-1]]
        room = width - sum(sizes) - 2 * len(sizes)
        if not _has_spare_room(columns[-1], room):
            return lay_out((block for row in cell_rows for block in _paragraph(names, row, width)), width)
        lines, is_right = [], [name in NUMBERS or not (place or name) for place, name in enumerate(names)]
        for row in [names, *cell_rows] if self.headed else cell_rows:
            gaps = (" " * (size - cells(cell)) for cell, size in zip(row, sizes, strict=False))
            parts = zip(row, gaps, is_right, strict=False)
            aligned = [gap + cell if right else cell + gap for cell, gap, right in parts]
            lines.append("  ".join([*aligned, cut_line(row[-1], room)]).rstrip())
        return lines


class TitledTable(NamedTuple):
    """A table below an empty line and its title; nothing without rows."""

    title: str
    columns: Columns
    rows: Iterable[Any]

    def lines(self, width: int) -> list[str]:
        lines = Table(self.columns, self.rows).lines(width - 2)
        return ["", f"{sanitize(self.title)}:", *("  " + line for line in lines)] if lines else []


def _cells(columns: Columns, rows: Iterable[Any]) -> list[list[str]]:
    """Return the names of the columns, then each row, as texts on one line."""
    values = ([column(row) if callable(column) else row[column] for column in columns.values()] for row in rows)
    texts = ([value if isinstance(value, str) else number(value) for value in row] for row in values)
    return [[one_line(text) for text in row] for row in (map(str.strip, columns), *texts)]


def aligns(columns: Columns, rows: Iterable[Any], width: int) -> bool:
    """True if a table aligns `rows` at this width, False if it makes paragraphs."""
    filled = list(zip(*_cells(columns, rows), strict=True))
    return _has_spare_room(filled[-1], width - sum(max(map(cells, column)) + 2 for column in filled[:-1]))


def _has_spare_room(last: Sequence[str], room: int) -> bool:
    return room >= min(MIN_COLUMN_CELLS, max(map(cells, last)))


def _paragraph(names: Sequence[str], row: Sequence[str], width: int) -> list[Paragraph]:
    """Return a row below its label. A column without a name (a mark) goes before the label, or has no name."""
    label = len(names) - 1 if names[0] in NUMBERS else 0 if names[0] else 1
    head = cut_line(row[label], 2 * width) if label > 1 else " ".join(filter(None, row[: label + 1]))
    other_columns = [place for place in range(0 if label > 1 else label + 1, len(names)) if place != label]
    parts = [
        f"{names[place]} {cut_line(row[place], 2 * width)}".strip()
        for place in other_columns
        if row[place] not in ("", "-")
    ]
    return [Paragraph(head, "    ", ""), Paragraph(", ".join(parts), "    ")]


NUMBERS = frozenset(
    """
    tokens value requests input output cached cost turns window cold saved missed expected written new priority steps
    tools
    """.split()
) | {"$ in", "$ out"}
"""Headings of right-aligned columns."""
