"""Schedule the drawing of the screen, and queue the text that is printed above it.

At most `RATE` frames per second, at least `SPIN` while something moves. Text is printed in pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from io import StringIO

RATE = 15
"""Most frames per second."""
SPIN = 8
"""Frames per second while something moves."""


class RedrawTimer:
    """Calls `draw` in the running loop. `draw` returns True if there is more to draw at once."""

    def __init__(self, draw: Callable[[], bool], moving: Callable[[], bool]) -> None:
        self._draw = draw
        self._moving = moving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.TimerHandle | None = None
        self._at = 0.0
        self._last = 0.0

    def begin(self) -> None:
        """Start in the running loop; the first frame is due."""
        self._loop = asyncio.get_running_loop()
        self.now()

    def end(self) -> None:
        """Draw no more frames."""
        self._loop = None
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def dirty(self) -> None:
        """Request a frame because of a change."""
        self._schedule(self._last + 1 / RATE)

    def now(self) -> None:
        """Request a frame as soon as the loop is free."""
        self._schedule(0.0)

    def _schedule(self, when: float) -> None:
        if self._loop is None or (self._due is not None and self._at <= when):
            return
        if self._due is not None:
            self._due.cancel()
        self._at = when
        self._due = self._loop.call_at(when, self._frame)

    def _frame(self) -> None:
        self._due = None
        has_more = self._draw()
        if self._loop is None:
            return
        self._last = self._loop.time()
        if has_more:
            self.now()
        elif self._moving():
            self._schedule(self._last + 1 / SPIN)


class PrintQueue:
    """Text that is not printed yet, in order."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, text: str) -> None:
        """Append `text`, which must end in a newline."""
        self._lines.extend(StringIO(text))

    def take(self, most: int) -> str:
        """Remove and return the next whole lines, of about `most` characters up to the end of a line."""
        lines: list[str] = []
        while self._lines and most > 0:
            lines.append(self._lines.popleft())
            most -= len(lines[-1])
        return "".join(lines)

    def all(self) -> str:
        """Remove and return all text."""
        return self.take(1 << 62)
