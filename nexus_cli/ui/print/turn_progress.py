"""Show a turn outside the REPL: finished text scrolls up, and in a terminal a few live lines below show running work.

The assistant's text goes to stdout, everything else to stderr. `notice_lines` prints notices and errors.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nexus_cli.core import event as e
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.print.notice_lines import NOTICES, NoticeLines
from nexus_cli.ui.print.stream import Writable
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme, choose_theme
from nexus_cli.ui.rows import fit_row

RATE = 8
"""Frames per second."""
STOP_KEY = "ctrl+c to stop"
MIN_ROWS = 6
"""Least rows of a terminal for showing running calls and open text above the spinner."""
SILENCE_SECONDS = 10.0
"""Seconds without an event after which a terminal without a spinner gets a line."""
_OF_QUESTION = (e.ApprovalRequest, e.ApprovalAnswer, e.TurnEnd)
"""Events of a worker that begin or end its question."""


class LiveLines:
    """Lines at the end of a terminal that are redrawn in place on `stream`."""

    def __init__(self, stream: Writable, lines: Callable[[], list[str]]) -> None:
        self._stream = stream
        self._lines = lines
        self._drawn: list[str] = []
        self.at_line_start = True
        """True if the cursor is at the beginning of a line: where the person has ended the line with a question too."""
        self._over = False

    def write_above(self, stream: Writable, text: str) -> None:
        """Write `text` to `stream`; the lines are redrawn below it if it ends its line."""
        erased = self._erased()
        if stream is self._stream:
            stream.write(erased + text)
        else:
            self.erase()
            stream.write(text)
        self._drawn = []
        self.at_line_start = text.endswith("\n")
        self.draw()

    def draw(self) -> None:
        """Draw the lines in their current state."""
        lines = self._lines() if self.at_line_start and not self._over else []
        if lines != self._drawn:
            self._stream.write(self._erased() + "\n".join(lines))
            self._drawn = lines

    def erase(self) -> None:
        """Erase the lines until they are drawn again."""
        if self._drawn:
            self._stream.write(self._erased())
            self._drawn = []

    def close(self) -> None:
        """Erase them for good."""
        self._over = True
        self.erase()

    def _erased(self) -> str:
        """Return the codes that erase the lines. If a narrower terminal has wrapped them, a copy of a row stays."""
        return "\r\x1b[K" + "\x1b[A\x1b[K" * (len(self._drawn) - 1) if self._drawn else ""


class _Above:
    """A stream whose text is written above the live lines."""

    def __init__(self, stream: Writable, live: LiveLines) -> None:
        self._stream = stream
        self._live = live
        self.terminal = stream.terminal
        self.colour = stream.colour

    @property
    def width(self) -> int:
        return self._stream.width

    def write(self, text: str) -> None:
        self._live.write_above(self._stream, text)


class _Notices(_Above):
    """Writes whole lines above the live lines, set off from text."""

    def __init__(self, stream: Writable, live: LiveLines, renderer: RichRenderer) -> None:
        super().__init__(stream, live)
        self._renderer = renderer

    def write(self, text: str) -> None:
        """Write the lines of `text`, which must be sanitized."""
        self._renderer.add_lines(text.removesuffix("\n").split("\n"))


def _height() -> int:
    """Return the rows of the terminal that stderr is; 0 if unknown."""
    try:
        return os.get_terminal_size(2).lines
    except OSError:
        return 0


class TurnProgress:
    """Shows one turn on stdout and stderr together; `run` keeps its live lines moving."""

    def __init__(
        self,
        out: Writable,
        err: Writable,
        theme: Theme,
        *,
        text: bool = False,
        silent: bool = False,
        verbose: bool = False,
        folder: Path | None = None,
        height: Callable[[], int] = _height,
    ) -> None:
        """With `text`, the answer is shown; if `silent`, nothing else is. `verbose` as in `RichRenderer`."""
        self._height = height
        self._theme = theme
        self._is_drawn = err.colour and not silent
        """True if live lines can be drawn."""
        self._live = LiveLines(err, self._lines)
        self.out: Writable = _Above(out, self._live)
        self.err: Writable = _Above(err, self._live)
        self._renderer = RichRenderer(
            None if silent else self.err.write,
            lambda: (out if silent else err).width,
            theme,
            drawn=self._is_drawn,
            put_text=self.out.write,
            text=text,
            commands=False,
            verbose=verbose,
            folder=folder,
        )
        self.notices: Writable = err if silent else _Notices(err, self._live, self._renderer)
        self._moved_at = time.monotonic()
        self._deferred: list[e.Event] = []
        """Events that arrived while a question about a worker's call was open at the cursor."""

    def feed(self, event: e.Event) -> None:
        """Show `event`, unless it is one of `NOTICES`."""
        self._moved_at = time.monotonic()
        if isinstance(event, NOTICES):
            return
        inner = e.without_worker(event)
        if isinstance(inner, e.ApprovalAnswer | e.TurnEnd):
            self._live.at_line_start = True
        if isinstance(event, e.AgentEvent) and isinstance(inner, _OF_QUESTION):
            self._renderer.feed(event)
        else:
            self._deferred.append(event)
        if not self._renderer.worker_asks or isinstance(event, e.TurnEnd):
            deferred, self._deferred = self._deferred, []
            for deferred_event in deferred:
                self._renderer.feed(deferred_event)

    async def run(self) -> None:
        """Redraw the live lines until this is cancelled; where there are none, print what a silent turn waits for."""
        while True:
            await asyncio.sleep(1 / RATE)
            if self._is_drawn:
                self._live.draw()
            elif time.monotonic() - self._moved_at >= SILENCE_SECONDS:
                self._moved_at = time.monotonic()
                self._renderer.show_wait()

    def close(self) -> None:
        """Erase the live lines. Safe to call twice, and from a signal handler."""
        self._live.close()

    def _lines(self) -> list[str]:
        if not (self._is_drawn and self._renderer.moving):
            return []
        rows, width = self._height(), self.err.width
        live = self._renderer.live(rows // 3 if rows >= MIN_ROWS else 0)
        spinner, stop = self._renderer.spinner(), f"{self._theme.dot}{STOP_KEY}"
        spinner += stop if cells(without_codes(spinner + stop)) < width else ""
        return [fit_row(line, width - 1) for line in [*live, spinner]]


class TurnLines(NoticeLines):
    """Shows a turn on stderr without its answer: in a terminal its calls and workers too."""

    def __init__(self, err: Writable, theme: str) -> None:
        """`theme` is the setting `ui.theme`."""
        look = choose_theme(theme, err.colour)
        self.progress = TurnProgress(err, err, look, silent=not err.terminal)
        super().__init__(self.progress.notices, alone=not err.terminal)

    def feed(self, event: e.Event) -> None:
        self.progress.feed(event)
        super().feed(event)

    @asynccontextmanager
    async def drawn(self) -> AsyncIterator[None]:
        """Redraw the live lines within the block, and erase them at its end."""
        moving = asyncio.create_task(self.progress.run())
        try:
            yield
        finally:
            moving.cancel()
            self.progress.close()
