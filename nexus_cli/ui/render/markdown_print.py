"""Lay out finished blocks of Markdown, styled by rich, which is imported with this module: at the first block.

Nothing is cut off at any width, and glyphs follow the theme. Text is sanitized again after entities are decoded; rich's
markup is never interpreted. Cells of a table wrap; if columns would become too narrow, it is printed row by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from io import StringIO
from itertools import zip_longest

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme

from nexus_cli.text.cells import PROSE, cells, fold
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.highlight import code_parameters
from nexus_cli.ui.render.markdown_blocks import DELIMITER, Block
from nexus_cli.ui.render.theme import Theme, paint_runs

DEEPEST = 40
"""Deepest nesting of blocks, and of emphasis in a block, that is rendered; a deeper one is shown as source."""
LEAST = 8
"""Least columns that indentation leaves to the text."""
QUOTED = "markdown.block_quote"
"""The style of what is quoted."""
BOXES = {"[ ] ": "[ ]", "[x] ": "[x]", "[X] ": "[x]"}
"""Beginnings of a task, with the box that is shown instead of a bullet."""
GAP = 2
"""Columns between two cells."""
MIN_CELL_COLUMNS = 5
"""Least columns of a cell that needs them."""
WORD = 20
"""Most cells of a word that is not broken: paths, addresses and lines without spaces may be."""
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST + 10})
"""Without HTML, images and link definitions, so that `Vec<String>` and addresses stay visible."""
_PARSER.enable(["strikethrough", "table"]).disable(["image", "reference"])
_PYTHON_NAME = re.compile(r"__[A-Za-z]\w*__")
_ADDRESS = re.compile(r"https?://[!-~]+?(?=[.,;:!?'\"*_]*(?:[)\]>}]*[.,;:!?'\"*_]*)(?:[^!-~]|$))")
_NO_LANGUAGE = re.compile(r"[^\w+#-]")


def _keep_python_name(state: StateInline, silent: bool) -> bool:
    """Keep the underscores of names such as `pkg/__init__.py`, which CommonMark takes for strong emphasis."""
    match = _PYTHON_NAME.match(state.src, state.pos)
    if match is None:
        return False
    state.pending += "" if silent else match[0]
    state.pos = match.end()
    return True


_PARSER.inline.ruler.before("emphasis", "python_name", _keep_python_name)


@cache
def _rich_theme(name: str) -> RichTheme:
    """Return rich's styles of Markdown elements for a background."""
    return RichTheme(dict(Theme(name).markdown_styles))


def print_block(block: Block, width: int, theme: Theme) -> str:
    """Return the text of a block in at most `width` columns, ready for a terminal."""
    printed = StringIO()
    console = Console(
        file=printed,
        width=width,
        force_terminal=theme.codes,
        color_system="standard" if theme.codes else None,
        no_color=not theme.colour,
        theme=_rich_theme(theme.name),
        _environ={},
    )
    page = _Page(console, theme)
    language = block.info if block.begins else block.info.partition(" ")[0]
    lines = page.fence(block.text, language, width) if block.fence else page.prose(block)
    console.print(*lines, sep="\n", soft_wrap=True)
    return "\n".join(line.rstrip() for line in printed.getvalue().split("\n"))


class _Page:
    """The layout of blocks as lines for a console. A block is drawn in at most `width` cells."""

    def __init__(self, console: Console, theme: Theme) -> None:
        self._console = console
        self._theme = theme

    def prose(self, block: Block) -> Iterator[Text]:
        """Yield the lines of a block that is no fence, as wide as the console."""
        if block.is_continued:  # one paragraph, whatever its beginning looks like
            inner = _PARSER.parseInline(block.text)
            tokens = [Token("paragraph_open", "p", 1), *inner, Token("paragraph_close", "p", -1)]
        else:
            tokens = _PARSER.parse(widen_head(block.text))
        if max((part.level for token in tokens for part in (token, *(token.children or ()))), default=0) >= DEEPEST:
            yield from self._wrap(Text(block.text), self._console.width)
            return
        for number, node in enumerate(SyntaxTreeNode(tokens).children):
            yield from [Text()] * bool(number)
            yield from self._block(node, self._console.width, "")

    def fence(self, text: str, info: str, width: int) -> Iterator[Text]:
        """Yield the inside of a fence; text after the language is shown above it. Long lines are folded at any place,
        and blanks are never lost or added, so that the code can be copied with the mouse."""
        language, _, more = info.partition(" ")
        if more or _NO_LANGUAGE.search(language):
            yield from self._wrap(Text(info, "dim"), width)
        lines = text.expandtabs(4).split("\n")
        colours = code_parameters(lines, language, self._theme.name) if self._theme.colour else [[]] * len(lines)
        for line, parameters in zip(lines, colours, strict=True):
            start = 0
            for piece in fold(line, width):
                yield AnsiDecoder().decode_line(paint_runs(piece, parameters[start : start + len(piece)]))
                start += len(piece)

    def _block(self, node: SyntaxTreeNode, width: int, style: str) -> Iterator[Text]:
        """Yield the lines of a block and of those in it; its text has `style`, that of a quotation or ""."""
        signs = self._theme.signs
        match node.type:
            case "heading":  # without bold, it keeps its number signs
                head = Text("" if self._theme.codes else "#" * int(node.tag[1:]) + " ")
                text = self._inline(node, f"markdown.{node.tag}", style)
                yield from self._wrap(head + text, self._prose_width(width))
            case "fence" | "code_block":
                yield from self.fence(sanitize(node.content).rstrip("\n"), sanitize(node.info).strip(), width)
            case "hr":
                yield Text(signs.rule * self._prose_width(width), "markdown.hr")
            case "blockquote":
                sign = signs.quote + " " if width - 2 >= LEAST else ""
                yield from self._prefix_blocks(node, width, sign, sign, QUOTED, QUOTED)
            case "bullet_list" | "ordered_list":
                yield from self._list(node, width, style)
            case "table":
                yield from self._table(node, width, style)
            case _:
                yield from self._wrap(self._link_addresses(self._inline(node, style)), self._prose_width(width))

    def _prose_width(self, width: int) -> int:
        """Return the columns of prose: `PROSE` at most, including its prefix."""
        return min(width, max(LEAST, PROSE - self._console.width + width))

    def _wrap(self, text: Text, width: int) -> Iterable[Text]:
        return text.wrap(self._console, width, overflow="fold")

    def _list(self, node: SyntaxTreeNode, width: int, style: str) -> Iterator[Text]:
        first = int(node.attrs.get("start", 1))
        room = len(str(first + len(node.children) - 1)) + 2
        for number, item in enumerate(node.children, first):
            box = _take_box(item) or self._theme.signs.bullet
            sign = f" {box} " if node.type == "bullet_list" else f"{number}.".rjust(room - 1) + " "
            if width - len(sign) >= LEAST:
                yield from self._prefix_blocks(item, width, sign, " " * len(sign), "markdown.item.bullet", style)
            else:
                yield Text(sign.strip(), "markdown.item.bullet")
                yield from self._prefix_blocks(item, width, "", "", "", style)

    def _prefix_blocks(
        self, node: SyntaxTreeNode, width: int, first: str, later: str, sign_style: str, style: str
    ) -> Iterator[Text]:
        """Yield the blocks in `node` with one text before the first line and another before each following line."""
        before = first
        for inner_node in node.children:
            for line in self._block(inner_node, max(1, width - len(first)), style):
                yield Text.assemble((before, sign_style if before.strip() else ""), line)
                before = later

    def _inline(self, node: SyntaxTreeNode, *styles: str) -> Text:
        """Return the text of a block, or of a part of it, in `styles`."""
        text = Text()
        for child in node.children:
            match child.type:
                case "inline" | "em" | "strong" | "s":
                    text.append_text(self._inline(child, f"markdown.{child.tag}" if child.tag else ""))
                case "softbreak" | "hardbreak":
                    text.append(" " if child.type == "softbreak" else "\n")
                case "code_inline":
                    code = sanitize(child.content)
                    text.append(code if self._theme.colour else f"`{code}`", "markdown.code")
                case "link":
                    text.append_text(self._link(child))
                case _:
                    text.append(sanitize(child.content))
        for style in styles:
            text.stylize_before(style)
        return text

    def _link(self, node: SyntaxTreeNode) -> Text:
        """Return the text of a link and its address, once if they are the same plain text."""
        address, label = sanitize(str(node.attrs.get("href", ""))), self._inline(node).plain
        if address.removeprefix("mailto:") == label and all(child.type == "text" for child in node.children):
            return Text(label)
        return Text.assemble((label, "markdown.link"), " (", (address, "markdown.link_url"), ")")

    def _link_addresses(self, text: Text) -> Text:
        """Return `text` with its addresses as links, complete even if they are wrapped."""
        for match in _ADDRESS.finditer(text.plain) if self._theme.links else ():
            text.stylize(Style(link=match[0]), *match.span())
        return text

    def _table(self, node: SyntaxTreeNode, width: int, style: str) -> Iterator[Text]:
        """Yield a table as aligned columns under a line, or as `head: cell` lines."""
        rows = [[self._cell(cell, style) for cell in row.children] for part in node.children for row in part.children]
        head, *body = rows
        columns = [[row[column] for row in rows] for column in range(len(head))]
        widths = column_widths(
            [max(map(_widest, column)) for column in columns],
            [max(map(_min_column_width, column)) for column in columns],
            width - GAP * (len(head) - 1),
        )
        if widths is None:
            yield from self._records(head, body, width)
            return
        yield from self._row(head, widths)
        yield Text((" " * GAP).join(self._theme.signs.rule * width for width in widths), "markdown.table.border")
        is_tall = False
        for number, row in enumerate(body):
            lines = list(self._row(row, widths))
            yield from [Text()] * bool(number and (len(lines) > 1 or is_tall))
            is_tall = len(lines) > 1
            yield from lines

    def _cell(self, node: SyntaxTreeNode, style: str) -> Text:
        if node.type == "th":
            text = self._inline(node, style)
            text.stylize("markdown.table.header")
        else:
            text = self._link_addresses(self._inline(node, style))
        side = str(node.attrs.get("style", "")).removeprefix("text-align:")
        text.justify = "right" if side == "right" else "center" if side == "center" else "left"
        return text

    def _row(self, row: Sequence[Text], widths: Sequence[int]) -> Iterator[Text]:
        """Yield the lines of a row, whose cells are wrapped."""
        for parts in zip_longest(*(self._wrap(cell, width) for cell, width in zip(row, widths, strict=True))):
            line = Text(" " * GAP).join(part or Text(" " * width) for part, width in zip(parts, widths, strict=True))
            line.rstrip()
            yield line

    def _records(self, head: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
        """Yield each row as separate lines."""
        if not rows:
            yield from self._wrap(Text(" ").join(head), width)
        for number, row in enumerate(rows):
            yield from [Text()] * bool(number)
            for name, cell in zip(head, row, strict=True):
                yield from self._wrap(Text.assemble(name, ": ", cell), width)


def _take_box(item: SyntaxTreeNode) -> str:
    """Remove the box from the beginning of a task, and return it; "" for any other item of a list."""
    first = item
    while first.children and first.type in ("list_item", "paragraph", "heading", "inline"):
        first = first.children[0]
    if first.type != "text" or not (box := BOXES.get(first.content[:4])) or first.token is None:
        return ""
    first.token.content = first.content[4:]
    return box


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


def column_widths(preferred: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Return the width of each column, at least its `least` and in all at most `room`; None if they do not fit."""
    widths, spare = [*least], room - sum(least)
    if spare < 0:
        return None
    extra_widths = [max(0, most - size) for most, size in zip(preferred, least, strict=True)]
    columns = sorted(range(len(extra_widths)), key=extra_widths.__getitem__)
    for place, column in enumerate(columns):
        share = min(extra_widths[column], spare // (len(columns) - place))
        widths[column] += share
        spare -= share
    return widths


def _widest(text: Text) -> int:
    return max((part.cell_len for part in text.split("\n")), default=0)


def _min_column_width(text: Text) -> int:
    """Return the least columns of a cell, so that no usual word of it is broken."""
    words = (size for word in text.plain.split() if (size := cells(word)) <= WORD)
    return max(1, min(MIN_CELL_COLUMNS, _widest(text)), *words)
