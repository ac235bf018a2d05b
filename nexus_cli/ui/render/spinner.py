"""What is waited for, on one line: the model, a tool, an answer, the next attempt, a compaction.

Knows only what the renderer tells it; what has happened already is not shown here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nexus_cli.ui.cells import cells, cut, one_line
from nexus_cli.ui.render.theme import Theme

SPEED = 10
"""Frames a second."""
SILENT = 10.0
"""Seconds without a word of an answer after which that is said."""


@dataclass(frozen=True, slots=True)
class _Tool:
    what: str
    began: float


class Spinner:
    """The state of a turn as one line."""

    def __init__(self, theme: Theme, clock: Callable[[], float]) -> None:
        self._theme = theme
        self._clock = clock
        self._phase = ""
        self._began = 0.0
        self._characters = 0
        self._wrote = 0.0
        self._tools: dict[str, _Tool] = {}
        self._asked: set[str] = set()
        self._retry = (0, 0.0, "")

    @property
    def moving(self) -> bool:
        """True if work is in progress; False while a question waits for the person."""
        return bool(self._phase) and not self._asked

    def phase(self, name: str, *, again: bool = False) -> None:
        """What goes on from now, "" for nothing; with `again` its time begins anew also where it went on before."""
        if name != self._phase or again:
            self._phase, self._began, self._characters = name, self._clock(), 0
        self._retry = (0, 0.0, "")
        if not name:
            self._tools.clear()
            self._asked.clear()

    def wrote(self, characters: int) -> None:
        """The model has written so much more."""
        self._characters += characters
        self._wrote = self._clock()

    def called(self, call_id: str, what: str) -> None:
        """A tool runs."""
        self._tools[call_id] = _Tool(one_line(what), self._clock())

    def resulted(self, call_id: str) -> None:
        """It runs no longer."""
        self._tools.pop(call_id, None)
        self._asked.discard(call_id)

    def asked(self, call_id: str) -> None:
        """The person is asked about a call."""
        self._asked.add(call_id)

    def answered(self, call_id: str) -> None:
        """And has answered: the time that it ran begins."""
        self._asked.discard(call_id)
        if call_id in self._tools:
            self._tools[call_id] = _Tool(self._tools[call_id].what, self._clock())

    def retry(self, attempt: int, wait: float, why: str) -> None:
        """The request is sent again after `wait` seconds."""
        self._retry = (attempt, self._clock() + wait, one_line(why))

    def line(self, width: int) -> str:
        """Return the line in fewer than `width` cells; "" when nothing is waited for."""
        if not self._phase:
            return ""
        room = max(1, width - 1)
        if self._asked:
            return self._theme.paint("warn", cut("waiting for your answer", room))
        frames = self._theme.signs.frames
        sign = frames[int(self._clock() * SPEED) % len(frames)]
        text = self._said(room - 2)
        return f"{self._theme.paint('accent', sign)} {text}" if room > 2 else sign

    def _said(self, room: int) -> str:
        now = self._clock()
        dot, mark = f" {self._theme.signs.dot} ", self._theme.signs.cut
        attempt, until, why = self._retry
        if attempt and until > now:
            return cut(f"retry {attempt} in {until - now:.0f} s: {why}", room, mark)
        if self._tools:
            first = min(self._tools.values(), key=lambda tool: tool.began)
            more = f" +{len(self._tools) - 1}" if len(self._tools) > 1 else ""
            tail = f"{more} {now - first.began:.0f} s"
            return cut(cut(first.what, max(4, room - cells(tail)), mark) + tail, room, mark)
        text = f"{self._phase} {now - self._began:.0f} s"
        if self._characters:
            text += f"{dot}~{max(1, self._characters // 4):,} tokens"
            if now - self._wrote >= SILENT:
                text = f"no data for {now - self._wrote:.0f} s{dot}{text}"
        return cut(text, room, mark)
