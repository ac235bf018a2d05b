"""prompt-toolkit's renderer, extended to find its own rows again after a change of the terminal's size.

A terminal that becomes narrower either cuts rows off (xterm) or wraps them, so that the app takes more rows than were
drawn (tmux and most others). This cannot be detected, only known by the terminal's name. For an unknown terminal,
printed text is never drawn over: rather a copy of a row stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from nexus_cli.text.cells import char_cells
from nexus_cli.ui.rows import rows_above_cursor
from nexus_cli.ui.screen.terminal import TerminalOutput

UNDER_WAY, UNDER_WAY_TMUX = 0.02, 0.3
"""Seconds after which a terminal has certainly drawn its output in the size that it reported. tmux rewraps its own
lines at once and notifies the program up to a quarter of a second later."""
_VARIABLES = (
    "TMUX",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "KONSOLE_VERSION",
    "ALACRITTY_WINDOW_ID",
    "WT_SESSION",
    "GHOSTTY_RESOURCES_DIR",
    "TERM_PROGRAM",
    "LC_TERMINAL",
)
_NAMES = tuple(
    """
    tmux xterm-kitty alacritty foot xterm-ghostty ghostty wezterm rxvt-unicode konsole vte gnome iterm contour
    mintty
    """.split()
)


def breaks_lines() -> bool:
    """True if the terminal is known to rewrap drawn lines when its width changes."""
    if os.environ.get("TMUX"):
        return True
    if os.environ.get("XTERM_VERSION") or os.environ.get("STY"):
        return False
    return any(os.environ.get(name) for name in _VARIABLES) or os.environ.get("TERM", "").startswith(_NAMES)


class FittedRenderer(Renderer):
    """A renderer that is not full-screen, for a terminal that may change its size at any moment."""

    def __init__(
        self,
        style: BaseStyle,
        output: TerminalOutput,
        drawn_row: Callable[[int], str | None],
    ) -> None:
        """`drawn_row` returns the text of the row with a number if it was drawn as a whole, else None."""
        self._drawn_row = drawn_row
        self._breaks = breaks_lines()
        self._under_way = UNDER_WAY_TMUX if os.environ.get("TMUX") else UNDER_WAY
        self._whole_at = 0.0
        super().__init__(style, output)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw the changes; everything if the size has changed."""
        if self._last_size is not None and self._last_size != self.output.get_size():
            self.erase_for_now()
        if self._last_screen is None:
            self._whole_at = time.monotonic()
        super().render(app, layout, is_done)

    def erase_for_now(self) -> None:
        """Erase the app; the next `render` draws it again at the cursor."""
        # Otherwise the mode would be switched off and on each time, and a running paste would lose its marks.
        pasting, self._bracketed_paste_enabled = self._bracketed_paste_enabled, False
        self.erase()
        self._bracketed_paste_enabled = pasting

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the app; the cursor is then where its first row began."""
        self.output.write_raw("\r")
        self._cursor_pos = Point(x=0, y=self._above())
        super().erase(leave_alternate_screen)

    def clear(self) -> None:
        """Clear the screen with the app at its top; printed lines scroll off and are not lost."""
        with_app = self.output.get_size().rows
        self.erase()
        # From the app's first row, exactly the rows above it scroll off.
        self.output.write_raw("\r\n" * (with_app - 1) + "\x1b[H")
        self.output.erase_down()
        self.output.flush()

    def _above(self) -> int:
        size, last, screen = self.output.get_size(), self._last_size, self._last_screen
        x, y = self._cursor_pos
        if screen is None or last is None or size.columns >= last.columns or not self._breaks:
            return y
        if time.monotonic() - self._whole_at < self._under_way:
            # Perhaps drawn after the rows were wrapped: then going up further would erase printed text.
            return y
        return rows_above_cursor([self._widths(row) for row in range(y + 1)], x, size.columns)

    def _widths(self, row: int) -> list[int]:
        drawn_row = self._drawn_row(row)
        if drawn_row is not None:
            return [char_cells(char) for char in drawn_row]
        screen = self._last_screen
        cells = screen.data_buffer[row] if screen is not None else {}
        end = max((place for place, cell in cells.items() if cell.char != " "), default=-1)
        widths, place = [], 0
        while place <= end:
            width = cells[place].width or 1
            widths.append(width)
            place += width
        return widths
