"""Draw the bottom of the terminal, from above: live rows, a gap, spinner, queue, question, box, status line.

One container of prompt-toolkit. Rows with our text are written in one piece each: that is cheap, and a character that a
terminal counts differently cannot shift the text after it. prompt-toolkit draws the box and the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from prompt_toolkit.layout import Container, Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition

from nexus_cli.reports.text.blocks import Paragraph
from nexus_cli.text.cells import without_codes
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.repl.view import ReplController
from nexus_cli.ui.rows import RESET, fit_row
from nexus_cli.ui.screen.picker import PickerPanel
from nexus_cli.ui.screen.question import QuestionPanel

MIN_ROWS_FOR_GAP = 16
"""Least rows of a terminal for an empty row above the spinner, the queue and the box."""
PICKER_LEAVES = 4
"""Rows that an open list leaves to its field, the status line and printed text."""
MIN_KEY_COLUMNS = 60
"""Least columns for the names of the keys in their own column."""
MAX_QUEUED = 3
"""Most queued messages that are shown one by one."""
_FULL_ROW = Char("", "")
"""In the first place of a row that is written in one piece."""


class _Placed(NamedTuple):
    """A container of prompt-toolkit with its number of rows."""

    container: Container
    rows: int


class ScreenLayout(Container):
    """The root of the layout."""

    def __init__(
        self,
        box: InputBox,
        panel: QuestionPanel,
        picker: PickerPanel,
        size: Callable[[], tuple[int, int]],
        codes: bool,
    ) -> None:
        """`size` returns rows and columns of the terminal."""
        self._box = box
        self._inner = box.container
        self._question = panel
        self._picker = picker
        self._size = size
        self._codes = codes
        self._live: list[str] = []
        """The controller's values at the last read, as are the next three."""
        self._spinner = self._status = ""
        self._queued: list[str] = []
        self.hint = ""
        """Replaces the status line while it is not empty."""
        self._keys: Sequence[tuple[str, str]] = ()
        self.help = False
        """True if the list of keys is shown below the box."""
        self.last: Callable[[], Screen | None] = lambda: None
        """Returns the screen that the terminal shows."""
        self._written: Mapping[int, str] = {}
        """The rows that were written in one piece, by number."""
        self._drawn_on: Screen | None = None
        self._plan: Sequence[Sequence[str] | _Placed] = ()

    def ask(self, controller: ReplController, columns: int) -> None:
        """Read the content from `controller`."""
        rows, self._keys = self.live_rows(), controller.keys
        live = controller.live(rows)
        self._live, self._spinner = live[-rows:] if rows else [], controller.spinner()
        self._queued, self._status = controller.queued(), controller.status(columns) if columns > 0 else ""

    @property
    def _panel(self) -> QuestionPanel | PickerPanel:
        """The panel that may have the focus."""
        return self._picker if self._picker.asking else self._question

    def live_rows(self) -> int:
        """Return the rows available for live lines."""
        rows, _ = self._size()
        return rows // 3 if rows >= 6 else 0

    def plan(self) -> Sequence[Sequence[str] | _Placed]:
        """Return the parts from above, each as rows of text or as a container. The box gets its rows first, then the
        question, then status, spinner, queue and live lines."""
        rows, columns = self._size()
        picking = self._picker.asking
        row_limit = max(1, rows - PICKER_LEAVES if picking else rows // 3)
        panel = min(self._panel.height(columns - 1, row_limit), rows if picking or self._question.is_open else rows - 1)
        cap = max(1, rows // 3 if self._box.buffer.complete_state is None else rows * 2 // 3)
        box = min(max(1, self._inner.preferred_height(columns, cap).preferred), cap, rows - panel)
        if picking or (self._question.is_open and self._box.empty):
            box = 0  # one prompt: the field replaces the box
        free = rows - panel - box
        helps = key_rows(self._keys, columns - 1)[: max(0, free - 2)] if self.help else []
        free -= len(helps)
        status = [self.hint or self._status] * (rows >= 3 and free > 0)
        # One row is left to printed text if there is room.
        free -= len(status) + (1 if rows > 3 else 0)
        gap = [""] * (rows >= MIN_ROWS_FOR_GAP and free > 0)
        free -= len(gap)
        # A question describes its own wait.
        spinner = [self._spinner] * bool(self._spinner and free > 0 and not self._panel.asking)
        free -= len(spinner)
        queued = _fold(self._queued, min(free, rows // 4))
        live = max(0, min(len(self._live), free - len(queued), self.live_rows()))
        field = self._panel.field if panel else 0
        prompt = self._panel.prompt(columns - 1, panel - field)[: panel - field] if panel else []
        above = (self._live[len(self._live) - live :], gap, spinner, queued, prompt)
        return (*above, _Placed(self._panel.container, field), _Placed(self._inner, box), helps, status)

    def reset(self) -> None:
        self._inner.reset()
        self._question.container.reset()
        self._picker.container.reset()

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        """Return the number of planned rows."""
        self._plan = self.plan()
        return Dimension.exact(sum(part.rows if isinstance(part, _Placed) else len(part) for part in self._plan))

    def get_children(self) -> list[Container]:
        """Return the containers that can have the focus."""
        return [self._inner, self._question.container, self._picker.container]

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        """Draw everything from the top of `write_position`."""
        columns, y = write_position.width, write_position.ypos
        rows: dict[int, str] = {}
        for part in self._plan or self.plan():
            if not isinstance(part, _Placed):
                rows.update(enumerate(part, y))
                y += len(part)
            elif part.rows:
                place = WritePosition(write_position.xpos, y, columns, part.rows)
                part.container.write_to_screen(screen, mouse_handlers, place, parent_style, erase_bg, z_index)
                y += part.rows
        self._write(screen, rows, columns)
        screen.height = max(screen.height, y)

    def _write(self, screen: Screen, rows: Mapping[int, str], columns: int) -> None:
        """Put whole rows on `screen` so that the renderer's comparison with the former screen is right."""
        last = self.last()
        before = self._written if last is self._drawn_on else {}
        ends = f"{RESET}\x1b[K" if self._codes else "\x1b[K"
        written = {y: fit_row(row if self._codes else without_codes(row), columns - 1) for y, row in rows.items()}
        for y, text in written.items():
            screen.data_buffer[y][0] = _FULL_ROW
            screen.zero_width_escapes[y][0] = f"\r{text}{ends}\r\x1b[C"
            if last is not None and (before.get(y) != text or len(last.data_buffer[y]) > 1):
                # Another text, or a menu covered it.
                last.data_buffer.pop(y, None)
        if last is not None:
            for y in before.keys() - rows.keys():
                # The whole row has content: cells that are not drawn over must be erased.
                last.data_buffer.pop(y, None)
                last.data_buffer[y][0] = last.data_buffer[y][columns - 1] = _FULL_ROW
        self._written, self._drawn_on = written, screen

    def drawn_row(self, y: int) -> str | None:
        """Return the text of a row of the last drawing that was written in one piece, None for any other."""
        return without_codes(self._written[y]) if y in self._written else None


def key_rows(listed: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """Return a list of keys in rows of at most `columns` columns, in two columns if they fit, else wrapped."""
    size = max(len(keys) for keys, _ in listed) + 2 if columns >= MIN_KEY_COLUMNS else 0
    cells = [(f"{keys + '  ':<{size}}", action) for keys, action in listed]
    texts = [head + action for head, action in cells]
    half = (len(texts) + 1) // 2
    column_width = max(map(len, texts[:half])) + 3
    if column_width + max(map(len, texts[half:])) > columns:
        return [row for head, action in cells for row in Paragraph(action, " " * (size or 2), head).lines(columns)]
    return [
        f"{first:<{column_width}}{second}".rstrip()
        for first, second in zip_longest(texts[:half], texts[half:], fillvalue="")
    ]


def _fold(lines: list[str], rows: int) -> list[str]:
    """Return `lines` in at most `rows` rows, the last of which has the number of missing lines."""
    if len(lines) <= min(rows, MAX_QUEUED):
        return lines
    fitting = min(rows - 1, MAX_QUEUED)
    return [*lines[:fitting], f"... and {len(lines) - fitting} more"] if rows > 0 else []
