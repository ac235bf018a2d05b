"""Elements of Markdown for rich: nothing is cut off at any width, and glyphs follow the theme.

Cells of a table wrap; if columns would become too narrow, a table is printed row by row. `markdown` parses and
sanitizes the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    ListElement,
    ListItem,
    MarkdownElement,
    Paragraph,
    TableElement,
)
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from nexus_cli.text.cells import PROSE, cells, fold
from nexus_cli.ui.render.highlight import LONGEST, SYNTAX_THEMES
from nexus_cli.ui.render.markdown_blocks import DELIMITER
from nexus_cli.ui.render.theme import Theme

LEAST = 8
"""Least columns that indentation leaves to the text."""
_ADDRESS = re.compile(r"https?://[!-~]+?(?=[.,;:!?'\"*_]*(?:[)\]>}]*[.,;:!?'\"*_]*)(?:[^!-~]|$))")
_NO_LANGUAGE = re.compile(r"[^\w+#-]")


class Code:
    """Lines of code, highlighted if colours are wanted. Long lines are folded at any place, and blanks are never lost
    or added, so that the code can be copied with the mouse."""

    def __init__(self, text: str, language: str, theme: Theme) -> None:
        self._text = text.expandtabs(4)
        self._language = language
        self._theme = theme

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = Text("", no_wrap=True, overflow="ignore")
        for line in self._lines():
            start = 0
            for piece in fold(line.plain, options.max_width):
                yield whole + line[start : start + len(piece)]
                start += len(piece)

    def _lines(self) -> list[Text]:
        lines = self._text.split("\n")
        if not self._theme.colour or max(map(len, lines)) > LONGEST:
            return [Text(line) for line in lines]
        syntax = Syntax("", self._language or "text", theme=SYNTAX_THEMES[self._theme.name])
        highlighted = list(syntax.highlight(self._text).split("\n", allow_blank=True))
        # A lexer may drop or add newlines at the end, never inside.
        return [*highlighted[: len(lines)], *(Text(line) for line in lines[len(highlighted) :])]


def render_fence(text: str, info: str, theme: Theme) -> RenderableType:
    """Return the inside of a fence, set off from the prose; text after the language is shown above it."""
    language, _, more = info.partition(" ")
    code = Code(text, language, theme)
    return Group(Text(info, "dim", overflow="fold"), code) if more or _NO_LANGUAGE.search(language) else code


class ThemedElement(MarkdownElement):
    """An element that knows the theme and its token."""

    look: Theme
    token: Token

    @classmethod
    def create(cls, markdown: Any, token: Token) -> Any:
        element: Any = super().create(markdown, token)
        element.look, element.token = markdown.theme, token
        return element


def _limit(console: Console, options: ConsoleOptions) -> ConsoleOptions:
    """Return `options` for prose, limited to `PROSE` including its prefix."""
    before = console.width - options.max_width
    return options.update(width=min(options.max_width, max(LEAST, PROSE - before)))


def _link_addresses(text: Text, theme: Theme) -> Text:
    """Return `text` with its addresses as links, complete even if they are wrapped."""
    if theme.links:
        for match in _ADDRESS.finditer(text.plain):
            text.stylize(Style(link=match[0]), *match.span())
    return text


class ThemedParagraph(ThemedElement, Paragraph):
    """Prose."""

    @classmethod
    def create(cls, markdown: Any, token: Token) -> Any:
        paragraph: Any = Paragraph.create.__func__(cls, markdown, token)  # type: ignore[attr-defined]
        paragraph.look, paragraph.token = markdown.theme, token
        return paragraph

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = self.justify
        yield from console.render(_link_addresses(self.text, self.look), _limit(console, options))


class ThemedHeading(ThemedElement, Heading):
    """Left-aligned; without bold, it keeps its number signs."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text("" if self.look.codes else "#" * int(self.tag[1:]) + " ") + self.text
        text.overflow = "fold"
        yield from console.render(text, _limit(console, options))


class ThemedCode(ThemedElement, CodeBlock):
    """A fence inside a list or a quotation, or indented code."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield render_fence(str(self.text).rstrip("\n"), self.token.info.strip(), self.look)


class ThemedRule(ThemedElement, HorizontalRule):
    """A horizontal rule."""

    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self.look.signs.rule * _limit(console, options).max_width
        yield Text(line, console.get_style("markdown.hr"), no_wrap=True)


class ThemedQuote(ThemedElement, BlockQuote):
    """A quotation with a bar before each line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sign = self.look.signs.quote + " " if options.max_width - 2 >= LEAST else ""
        yield from _behind(self.elements, console, options, sign, sign, self.style)


class ThemedList(ListElement):
    """An ordered or unordered list."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = 1 if self.list_start is None else self.list_start
        room = len(str(first + len(self.items) - 1)) + 2
        for number, item in enumerate(self.items, first):
            if not isinstance(item, ThemedItem):
                continue
            sign = f" {item.token.meta.get('box') or item.look.signs.bullet} "
            if self.list_type == "ordered_list_open":
                sign = f"{number}.".rjust(room - 1) + " "
            yield from item.render(console, options, sign)


class ThemedItem(ThemedElement, ListItem):
    """One item: a bullet or number before its first line, for a task its box instead of the bullet."""

    def render(self, console: Console, options: ConsoleOptions, sign: str) -> RenderResult:
        """Render the item after `sign`."""
        style = console.get_style("markdown.item.bullet")
        if options.max_width - len(sign) >= LEAST:
            yield from _behind(self.elements, console, options, sign, " " * len(sign), style)
            return
        yield Segment(sign.strip(), style)
        yield Segment("\n")
        yield from _behind(self.elements, console, options, "", "", style)


def _behind(
    elements: RenderableType, console: Console, options: ConsoleOptions, first: str, later: str, style: Style
) -> RenderResult:
    """Yield `elements` with one text before the first line and another before each following line."""
    width = max(1, options.max_width - len(first))
    for number, line in enumerate(console.render_lines(elements, options.update(width=width), pad=False)):
        before = later if number else first
        yield Segment(before, style if before.strip() else None)
        yield from line
        yield Segment("\n")


ELEMENTS: dict[str, type[MarkdownElement]] = {
    "paragraph_open": ThemedParagraph,
    "heading_open": ThemedHeading,
    "fence": ThemedCode,
    "code_block": ThemedCode,
    "hr": ThemedRule,
    "blockquote_open": ThemedQuote,
    "bullet_list_open": ThemedList,
    "ordered_list_open": ThemedList,
    "list_item_open": ThemedItem,
}
"""By the parser's token names."""


GAP = 2
"""Columns between two cells."""
THINNEST = 5
"""Least columns of a cell that needs them."""
WORD = 20
"""Most cells of a word that is not broken: paths, addresses and lines without spaces may be."""


class ThemedTable(ThemedElement, TableElement):
    """A table as aligned columns under a line, or as `head: cell` lines."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = [cell.content.copy() for cell in self.header.row.cells] if self.header and self.header.row else []
        for text in head:
            text.stylize("markdown.table.header")
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        for text in (text for row in rows for text in row):
            _link_addresses(text, self.look)
        columns = [[row[column] for row in [head, *rows]] for column in range(len(head))]
        widths = column_widths(
            [max(map(_widest, column)) for column in columns],
            [max(map(_thinnest, column)) for column in columns],
            options.max_width - GAP * (len(head) - 1),
        )
        if widths is None:
            yield from _records(head, rows)
            return
        yield from _lines(console, head, widths)
        line = (" " * GAP).join(self.look.signs.rule * width for width in widths)
        yield Text(line, console.get_style("markdown.table.border"), no_wrap=True)
        tall = False
        for number, row in enumerate(rows):
            lines = list(_lines(console, row, widths))
            if number and (len(lines) > 1 or tall):
                yield Text("")
            tall = len(lines) > 1
            yield from lines


def widen_head(text: str) -> str:
    """Widen the head of a first table in `text` to its longest row: the parser drops cells beyond the head."""
    lines = text.split("\n")
    row = next((n for n, line in enumerate(lines) if n and DELIMITER.match(line) and "|" in lines[n - 1]), 0)
    columns = _cells(lines[row])
    if not row or _cells(lines[row - 1]) != columns:
        return text
    missing_columns = max((_cells(line) for line in lines[row + 1 :]), default=0) - columns
    if missing_columns > 0:
        lines[row - 1] = _begun(lines[row - 1]) + "   |" * missing_columns
        lines[row] = _begun(lines[row]) + "---|" * missing_columns
    return "\n".join(lines)


def _begun(line: str) -> str:
    line = line.rstrip()
    return line if line.endswith("|") and not line.endswith("\\|") else line + "|"


def _cells(line: str) -> int:
    """Count the cells of a row as the parser does."""
    parts = escapedSplit(line.strip())
    return len(parts) - (parts[:1] == [""]) - (len(parts) > 1 and parts[-1] == "")


def column_widths(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Return the width of each column, at least its `least` and in all at most `room`; None if they do not fit."""
    widths, spare = [*least], room - sum(least)
    if spare < 0:
        return None
    extra_widths = [max(0, most - size) for most, size in zip(wanted, least, strict=True)]
    columns = sorted(range(len(extra_widths)), key=extra_widths.__getitem__)
    for place, column in enumerate(columns):
        share = min(extra_widths[column], spare // (len(columns) - place))
        widths[column] += share
        spare -= share
    return widths


def _widest(text: Text) -> int:
    return max((part.cell_len for part in text.split("\n")), default=0)


def _thinnest(text: Text) -> int:
    """Return the least columns of a cell, so that no usual word of it is broken."""
    words = (size for word in text.plain.split() if (size := cells(word)) <= WORD)
    return max(1, min(THINNEST, _widest(text)), *words)


def _lines(console: Console, row: Sequence[Text], widths: Sequence[int]) -> RenderResult:
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
    """Yield each row as separate lines."""
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
