"""When the screen is drawn, and which text is printed above it then.

At most `RATE` frames a second, at least `SPIN` while something moves. Text is given out in pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

RATE = 15
"""RedrawTimer a second at most."""
SPIN = 8
"""RedrawTimer a second while something moves."""


class RedrawTimer:
    """Calls `draw` in the running loop. `draw` says whether there is more to be drawn at once."""

    def __init__(self, draw: Callable[[], bool], moving: Callable[[], bool]) -> None:
        self._draw = draw
        self._moving = moving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.TimerHandle | None = None
        self._at = 0.0
        self._last = 0.0

    def begin(self) -> None:
        """From now on in this loop; the first frame is due."""
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        self.now()

    def end(self) -> None:
        """No more frames."""
        self._loop = None
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def dirty(self) -> None:
        """Something has changed."""
        self._schedule(self._last + 1 / RATE)

    def now(self) -> None:
        """Something has changed that is to be seen as soon as the loop is free."""
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
        if self._loop is None:
            return
        more = self._draw()
        if self._loop is None:
            return
        self._last = self._loop.time()
        if more:
            self.now()
        elif self._moving():
            self._schedule(self._last + 1 / SPIN)


class PrintQueue:
    """Text put and not printed yet, in order. All of it ends in a newline."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._at = 0
        """Offset of the rest of the first text."""

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        """`text` comes after all that is there; it ends in a newline."""
        self._texts.append(text)

    def take(self, most: int) -> str:
        """Return the next whole lines, of `most` characters and what is missing to the end of the last line."""
        parts: list[str] = []
        missing = most
        while self._texts and missing > 0:
            text, begin = self._texts[0], self._at
            end = text.find("\n", begin + missing - 1) + 1 or len(text)
            parts.append(text[begin:end])
            missing -= end - begin
            if end < len(text):
                self._at = end
            else:
                self._texts.popleft()
                self._at = 0
        return "".join(parts)

    def all(self) -> str:
        """Return everything."""
        return self.take(1 << 62)
