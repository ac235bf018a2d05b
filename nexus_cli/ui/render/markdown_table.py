"""A Markdown table at any width: cells wrap, nothing is cut off; where columns would become too thin, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import TableElement
from rich.text import Text

from nexus_cli.ui.render.markdown_blocks import DELIMITER

GAP = 2
"""Columns between two cells."""
THINNEST = 5
"""Columns that a cell has at least, unless it needs less."""


class ThemedTable(TableElement):
    """A table as aligned columns under a line, or as `head: cell` lines."""

    @classmethod
    def create(cls, markdown: Any, token: Token) -> ThemedTable:
        made = cls()
        made.rule = markdown.theme.signs.rule
        return made

    rule: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = [cell.content.copy() for cell in self.header.row.cells] if self.header and self.header.row else []
        for text in head:
            text.stylize("markdown.table.header")
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        widths = column_widths([max(_widest(row[column]) for row in [head, *rows]) for column in range(len(head))],
                        options.max_width - GAP * (len(head) - 1))  # fmt: skip
        if widths is None:
            yield from _records(head, rows)
            return
        yield from _lines(console, head, widths)
        line = (" " * GAP).join(self.rule * width for width in widths)
        yield Text(line, console.get_style("markdown.table.border"), no_wrap=True)
        tall = False
        for number, row in enumerate(rows):
            lines = list(_lines(console, row, widths))
            if number and (len(lines) > 1 or tall):
                yield Text("")
            tall = len(lines) > 1
            yield from lines


def widen_head(text: str) -> str:
    """`text` with a first table whose head has as many cells as its longest row: the parser drops those beyond."""
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if n and DELIMITER.match(line) and "|" in lines[n - 1]), 0)
    columns = _cells(lines[at])
    if not at or _cells(lines[at - 1]) != columns:
        return text
    more = max((_cells(line) for line in lines[at + 1 :]), default=0) - columns
    if more > 0:
        lines[at - 1] = _begun(lines[at - 1]) + "   |" * more
        lines[at] = _begun(lines[at]) + "---|" * more
    return "\n".join(lines)


def _begun(line: str) -> str:
    line = line.rstrip()
    return line if line.endswith("|") and not line.endswith("\\|") else line + "|"


def _cells(line: str) -> int:
    """Cells of a row, as the parser counts them."""
    parts = escapedSplit(line.strip())
    return len(parts) - (parts[:1] == [""]) - (len(parts) > 1 and parts[-1] == "")


def column_widths(wanted: Sequence[int], room: int) -> list[int] | None:
    """A width for each column, together at most `room`: what it wants, or an equal share of what the others leave.

    None where a column would be thinner than `THINNEST` and wants more.
    """
    given = [0] * len(wanted)
    left = sorted(range(len(wanted)), key=lambda column: wanted[column])
    for place, column in enumerate(left):
        share = room // (len(left) - place)
        if min(wanted[column], share) < min(wanted[column], THINNEST):
            return None
        given[column] = max(1, min(wanted[column], share))
        room -= given[column]
    return given if room >= 0 else None


def _widest(text: Text) -> int:
    return max((part.cell_len for part in text.split("\n")), default=0)


def _lines(console: Console, row: Sequence[Text], widths: Sequence[int]) -> RenderResult:
    """The lines of one row."""
    wrapped = [
        list(cell.wrap(console, width, justify="left", overflow="fold")) or [Text("")]
        for cell, width in zip(row, widths, strict=False)
    ]
    for number in range(max(map(len, wrapped), default=0)):
        line = Text(no_wrap=True, overflow="ignore")
        for column, (parts, width) in enumerate(zip(wrapped, widths, strict=False)):
            part = parts[number].copy() if number < len(parts) else Text("")
            part.rstrip()
            space = max(0, width - part.cell_len)
            before = {"right": space, "center": space // 2}.get(str(row[column].justify), 0)
            line.append(" " * (before + (GAP if column else 0)))
            line.append_text(part)
            line.append(" " * (space - before))
        line.rstrip()
        yield line


def _records(head: Sequence[Text], rows: Sequence[Sequence[Text]]) -> RenderResult:
    """Each row as lines of its own."""
    if not rows:
        yield Text(" ", overflow="fold").join(head)
    for number, row in enumerate(rows):
        if number:
            yield Text("")
        for name, cell in zip(head, row, strict=False):
            line = Text(overflow="fold", justify="left")
            line.append_text(name)
            line.append(": ")
            line.append_text(cell)
            yield line
