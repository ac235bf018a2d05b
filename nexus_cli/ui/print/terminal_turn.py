"""One turn of `nexus ask` in a terminal: finished text scrolls up, and a few live lines below show running work.

The assistant's text goes to stdout, everything else to stderr. `progress_lines` prints notices and errors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nexus_cli.core import event as e
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.tools.registry import tells_person
from nexus_cli.ui.print.progress_lines import Writable
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.rows import fit_row

RATE = 8
"""Frames per second."""
STOP_KEY = "ctrl+c to stop"
LEAST_ROWS = 6
"""Least rows of a terminal for showing running calls and open text above the spinner."""
_ELSEWHERE = (
    e.SessionStart,
    e.SteeringMessage,
    e.ContextPlan,
    e.ContextDrop,
    e.ContextRecall,
    e.CacheExpectation,
    e.CacheResult,
    e.CompactionDone,
    e.Notice,
    e.WorkerState,
)
"""Events that `progress_lines` shows, if anything does."""
_OF_QUESTION = (e.ApprovalRequest, e.ApprovalAnswer, e.TurnEnd)
"""Events of a worker that begin or end its question."""


class LiveLines:
    """Lines at the end of a terminal that are redrawn in place on `stream`."""

    def __init__(self, stream: Writable, lines: Callable[[], list[str]]) -> None:
        self._stream = stream
        self._lines = lines
        self._drawn: list[str] = []
        self._at_line_start = True
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
        self._at_line_start = text.endswith("\n")
        self.draw()

    def note_line_start(self) -> None:
        """Redraw: the person has ended the line with the question."""
        self._at_line_start = True

    def draw(self) -> None:
        """Draw the lines in their current state."""
        lines = self._lines() if self._at_line_start and not self._over else []
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


class TerminalTurn:
    """Shows one turn on stdout and stderr together; `run` keeps its live lines moving."""

    def __init__(
        self,
        out: Writable,
        err: Writable,
        theme: Theme,
        *,
        text: bool,
        thinking: bool,
        folder: Path,
        height: Callable[[], int] = _height,
    ) -> None:
        """Without `text`, the answer is not shown here: the caller prints it through `out`."""
        self._height = height
        self._theme = theme
        self._live = LiveLines(err, self._lines)
        self.out: Writable = _Above(out, self._live)
        self.err: Writable = _Above(err, self._live)
        self._renderer = RichRenderer(
            self.err.write,
            lambda: err.width,
            theme,
            put_text=self.out.write,
            text=text,
            commands=False,
            folder=folder,
        )
        self.notices: Writable = _Notices(err, self._live, self._renderer)
        self._held: list[e.Event] = []
        """Events that arrived while a question about a worker's call was open at the cursor."""
        if thinking:
            self._renderer.toggle_thinking()

    def feed(self, event: e.Event) -> None:
        """Show `event`, unless `ProgressLines` prints a line for it."""
        if isinstance(event, _ELSEWHERE):
            return
        inner = event.event if isinstance(event, e.AgentEvent) else event
        if isinstance(inner, e.ApprovalAnswer | e.TurnEnd):
            self._live.note_line_start()
        events: list[e.Event] = [event]
        if isinstance(event, e.AgentEvent) and isinstance(inner, _OF_QUESTION):
            self._renderer.feed(event)
            events = []
        if self._renderer.worker_asks and not isinstance(event, e.TurnEnd):
            self._held += events
            return
        self._held, events = [], [*self._held, *events]
        for one in events:
            self._show(one)

    def _show(self, event: e.Event) -> None:
        if isinstance(event, e.ToolResultEvent) and tells_person(event.call.name):
            output = event.result.output.replace("/memory", "nexus memory")
            event = replace(event, result=replace(event.result, output=output))
        self._renderer.feed(event)

    async def run(self) -> None:
        """Redraw the live lines until this is cancelled."""
        while True:
            await asyncio.sleep(1 / RATE)
            self._live.draw()

    def close(self) -> None:
        """Erase the live lines. Safe to call twice, and from a signal handler."""
        self._live.close()

    def _lines(self) -> list[str]:
        if not self._renderer.moving:
            return []
        rows, width = self._height(), self.err.width
        live = self._renderer.live(rows // 3 if rows >= LEAST_ROWS else 0)
        spinner, stop = self._renderer.spinner(), f" {self._theme.signs.dot} {STOP_KEY}"
        spinner += stop if cells(without_codes(spinner + stop)) < width else ""
        return [fit_row(line, width - 1)[0] for line in [*live, spinner]]
