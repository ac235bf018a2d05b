"""Render streaming Markdown to text block by block: `feed` and `flush` return finished blocks; nothing is redrawn.

Everything is sanitized before it is styled. `markdown_print` draws the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nexus_cli.text.cells import PROSE
from nexus_cli.text.terminal_sanitizer import StreamSanitizer
from nexus_cli.ui.render.markdown_blocks import Block, Blocks
from nexus_cli.ui.render.theme import Theme

LEAST = 4
"""Least columns to render for."""


class Markdown:
    """Renders one stream of Markdown at a width in columns, which is asked for at each block."""

    def __init__(self, width: Callable[[], int], theme: Theme, *, eager: bool = False) -> None:
        """With `eager`, a block is returned line by line where possible."""
        self._eager = eager
        self._door = StreamSanitizer()
        self._blocks = Blocks()
        self._theme = theme
        self._width = width
        self._first = True

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
        """Return the rest; then a new text begins, with no blank line before its first block."""
        pending = self._door.flush()
        text = (self._render(self._blocks.feed(pending)) if pending else "") + self._render(self._blocks.flush())
        self._first = True
        return text

    def _columns(self) -> int:
        return max(LEAST, self._width())

    def _render(self, blocks: Iterable[Block]) -> str:
        pieces = []
        for block in blocks:
            from nexus_cli.ui.render.markdown_print import print_block  # noqa: PLC0415  (rich: a tenth of the start)

            text = print_block(block, self._columns(), self._theme)
            if text.strip():
                gap = "" if self._first or not block.begins else "\n"
                self._first = False
                pieces.append(gap + text.strip("\n") + "\n" if not block.fence else gap + text)
        return "".join(pieces)
