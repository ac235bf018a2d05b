"""Render streaming Markdown to text block by block: `feed` and `flush` return finished blocks; nothing is redrawn.

Everything is sanitized before it is styled, and again after entities are decoded; rich's markup is never interpreted.
`markdown_elements` draws lists, code and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from io import StringIO

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, RenderableType
from rich.markdown import Markdown as RichMarkdown
from rich.text import Text
from rich.theme import Theme as RichTheme

from nexus_cli.text.cells import PROSE
from nexus_cli.text.terminal_sanitizer import StreamSanitizer, sanitize
from nexus_cli.ui.render.markdown_blocks import Block, Blocks
from nexus_cli.ui.render.markdown_elements import ELEMENTS, ThemedTable, render_fence, widen_head
from nexus_cli.ui.render.theme import Theme

DEEPEST = 40
"""Deepest nesting that is rendered; a deeper block is shown as source."""
LEAST = 4
"""Least columns to render for."""


@cache
def _rich_theme(name: str) -> RichTheme:
    """Return rich's styles of Markdown elements for a background."""
    return RichTheme(dict(Theme(name).markdown_styles))


class _Themed(RichMarkdown):
    elements = RichMarkdown.elements | ELEMENTS | {"table_open": ThemedTable}
    theme: Theme


class Markdown:
    """Renders one stream of Markdown at a width in columns, with control codes only where `colour` is wanted."""

    def __init__(
        self, width: int | Callable[[], int], *, colour: bool, theme: Theme | None = None, eager: bool = False
    ) -> None:
        """A function as `width` is called for each block; `theme` overrides `colour`.

        With `eager`, a block is returned line by line where possible.
        """
        self._eager = eager
        self._door = StreamSanitizer()
        self._blocks = Blocks()
        self._theme = theme or Theme(colour=colour)
        self._width = width
        self._first = True
        self._console = Console(
            file=StringIO(),
            width=80,
            force_terminal=self._theme.codes,
            color_system="standard" if self._theme.codes else None,
            no_color=not self._theme.colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )
        # Without HTML, images and link definitions, so that `Vec<String>` and addresses stay visible.
        self._parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST + 10})
        self._parser.enable(["strikethrough", "table"]).disable(["image", "reference"])

    @property
    def is_open(self) -> bool:
        """True if a block has begun and is not finished."""
        return not self._blocks.empty

    @property
    def parted(self) -> bool:
        """True if the previous block requires a blank line before the open one."""
        return not self._first and not self._blocks.later

    @property
    def in_fence(self) -> bool:
        """True if the open block is a fence."""
        return self._blocks.in_fence

    def tail(self, most: int = 4096) -> str:
        """Return the end of the open block as source, at most about `most` characters."""
        return self._blocks.tail(most)

    def feed(self, text: str) -> str:
        """Return the text of the blocks that `text` finishes, ready for a terminal."""
        if self._eager:
            self._blocks.row = min(self._columns(), PROSE)
        return self._render(self._blocks.feed(self._door.feed(text)))

    def flush(self) -> str:
        """Return the rest; afterwards a new text may begin."""
        held = self._door.flush()
        return (self._render(self._blocks.feed(held)) if held else "") + self._render(self._blocks.flush())

    def begin(self) -> None:
        """Begin a new text: no blank line comes before its first block."""
        self._first = True

    def _columns(self) -> int:
        return max(LEAST, self._width if isinstance(self._width, int) else self._width())

    def _render(self, blocks: Iterable[Block]) -> str:
        shown = []
        for block in blocks:
            self._console.width = self._columns()
            text = self._print(
                render_fence(block.text, block.info if block.begins else block.info.partition(" ")[0], self._theme)
                if block.fence
                else self._prose(block)
            )
            if text.strip():
                gap = "" if self._first or not block.begins else "\n"
                self._first = False
                shown.append(gap + text.strip("\n") + "\n" if not block.fence else gap + text)
        return "".join(shown)

    def _print(self, what: RenderableType) -> str:
        with self._console.capture() as captured, self._console.use_theme(_rich_theme(self._theme.name)):
            self._console.print(what)
        lines = captured.get().split("\n")
        return "\n".join(line.rstrip() for line in lines)

    def _prose(self, block: Block) -> RenderableType:
        tokens = self._inline(block.text) if block.torn else self._parser.parse(widen_head(block.text))
        if max((token.level for token in tokens), default=0) >= DEEPEST:
            return Text(block.text, overflow="fold")
        _clean(tokens)
        made = _Themed("", hyperlinks=False)
        made.theme = self._theme
        made.parsed = _dressed(tokens, self._theme)
        return made

    def _inline(self, text: str) -> list[Token]:
        """Parse `text` as one paragraph, whatever its beginning looks like."""
        return [Token("paragraph_open", "p", 1), *self._parser.parseInline(text), Token("paragraph_close", "p", -1)]


def _clean(tokens: Iterable[Token]) -> None:
    """Sanitize the text that the parser has decoded from entities."""
    for token in tokens:
        token.content = sanitize(token.content)
        token.info = sanitize(token.info)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = sanitize(value)
        if token.children:
            _clean(token.children)


def _dressed(tokens: list[Token], theme: Theme) -> list[Token]:
    """Return `tokens` with task boxes for bullets, addresses once, backquotes around code without colour."""
    for place, token in enumerate(tokens):
        if token.type != "inline" or not token.children:
            continue
        token.children = _links(token.children)
        for child in token.children:
            if child.type == "code_inline" and not theme.colour:
                child.content = f"`{child.content}`"
        item = tokens[place - 2] if place > 1 else token
        first = token.children[0]
        box = first.content[:4] if first.type == "text" and item.type == "list_item_open" else ""
        if box in ("[ ] ", "[x] ", "[X] "):
            item.meta["box"] = box.lower().rstrip() if box != "[ ] " else "[ ]"
            first.content = first.content[4:]
    return tokens


def _links(children: list[Token]) -> list[Token]:
    kept: list[Token] = []
    skip = 0
    for place, token in enumerate(children):
        if skip:
            skip -= 1
            continue
        after = children[place + 1 : place + 3]
        plain = token.type == "link_open" and [one.type for one in after] == ["text", "link_close"]
        if plain and str(token.attrs.get("href", "")).removeprefix("mailto:") == after[0].content:
            kept.append(after[0])
            skip = 2
        else:
            kept.append(token)
    return kept
