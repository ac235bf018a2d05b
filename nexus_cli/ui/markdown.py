"""Markdown as it streams, rendered to text by blocks: `feed` and `flush` give finished blocks, nothing is redrawn.

Everything passes the door before it is styled, and again after entities are decoded; markup of rich is never read.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading
from rich.markdown import Markdown as RichMarkdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from nexus_cli.ui.blocks import Block, Blocks
from nexus_cli.ui.door import Door, through


class _LeftHeading(Heading):
    """rich centres a first heading, which suits a page and not a stream."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _LeftMarkdown(RichMarkdown):
    elements = RichMarkdown.elements | {"heading_open": _LeftHeading}


class Markdown:
    """Renders one stream of Markdown at a width in columns, with control codes only where `colour` is wanted."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self._door = Door()
        self._blocks = Blocks()
        self._colour = colour
        self._first = True
        self._console = Console(
            file=StringIO(),
            width=width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            theme=Theme({"markdown.code": "cyan"}),
            _environ={},
        )
        # Without HTML and images, so that `Vec<String>` and an address stay: rich would leave them out.
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")

    def feed(self, text: str) -> str:
        """The text of the blocks that `text` finishes, ready for a terminal."""
        return self._render(self._blocks.feed(self._door.feed(text)))

    def flush(self) -> str:
        """What is left; afterwards a new text may begin."""
        held = self._door.flush()
        return (self._render(self._blocks.feed(held)) if held else "") + self._render(self._blocks.flush())

    def _render(self, blocks: Iterable[Block]) -> str:
        shown = []
        for block in blocks:
            text = self._print(self._code(block) if block.fence else self._prose(block))
            if text.strip():
                gap = "" if self._first or not block.begins else "\n"
                self._first = False
                shown.append(gap + text.strip("\n") + "\n" if not block.fence else gap + text)
        return "".join(shown)

    def _print(self, what: RenderableType) -> str:
        with self._console.capture() as captured:
            self._console.print(what)
        lines = captured.get().split("\n")
        return "\n".join(line.rstrip() for line in lines)

    def _code(self, block: Block) -> RenderableType:
        if not self._colour:
            return Padding(Text(block.text, overflow="fold"), (0, 0, 0, 4))
        code = Syntax(
            block.text, block.language or "text", theme="ansi_dark", background_color="default", word_wrap=True
        )
        return Padding(code, (0, 0, 0, 4))

    def _prose(self, block: Block) -> RenderableType:
        made = _LeftMarkdown("", hyperlinks=False, code_theme="ansi_dark")
        made.markup = block.text
        made.parsed = self._parser.parse(block.text)
        _clean(made.parsed)
        return made


def _clean(tokens: Iterable[Token]) -> None:
    """Let what the parser has decoded from entities pass the door too."""
    for token in tokens:
        token.content = through(token.content)
        token.info = through(token.info)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = through(value)
        if token.children:
            _clean(token.children)
