"""What a model thinks before it answers: folded to one line, or shown dimmed line by line."""

from __future__ import annotations

from collections.abc import Callable

from nexus_cli.ui.render.event_notes import format_duration
from nexus_cli.ui.terminal_sanitizer import StreamSanitizer

MOST = 1_000_000
"""Characters of one thought that are kept, to be shown when the person wants to see them."""
LONG_LINE = 8192
"""Characters after which an unfinished line is given out."""


class Thought:
    """One stretch of thinking. `feed` and `end` give the lines that are finished, through the door."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._door = StreamSanitizer()
        self._lines: list[str] = []
        self._size = 0
        self._line: list[str] = []
        self._length = 0
        self._in_word = False
        self.words = 0

    def feed(self, text: str) -> list[str]:
        """The lines that `text` finishes."""
        text = self._door.feed(text)
        self._count(text)
        *lines, rest = text.split("\n")
        made = []
        for line in lines:
            made.append("".join(self._line) + line)
            self._line, self._length = [], 0
        if rest:
            self._line.append(rest)
            self._length += len(rest)
            if self._length > LONG_LINE:
                made.append("".join(self._line))
                self._line, self._length = [], 0
        self._keep(made)
        return made

    def end(self) -> list[str]:
        """The last line, if one is open."""
        made = self.feed(held) if (held := self._door.flush()) else []
        if self._line:
            rest = "".join(self._line)
            self._line, self._length = [], 0
            self._keep([rest])
            made.append(rest)
        return made

    @property
    def tail(self) -> str:
        """The open line."""
        return "".join(self._line)

    @property
    def text(self) -> str:
        """All of it, in lines; of a very long thought the beginning."""
        more = "\n[the rest of this thought was too long to keep]" if self._size > MOST else ""
        return "\n".join(self._lines).strip("\n") + more

    def summary(self, shows: str = "") -> str:
        """How long it took and how much it was; `shows` names the key that shows it, where there is one."""
        seconds = self._clock() - self._began
        time = f" for {format_duration(seconds)}" if seconds >= 1 else ""
        return f"thought{time} ({self.words:,} words{', ' if shows else ''}{shows})"

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            if self._size <= MOST:
                self._lines.append(line)
            self._size += len(line) + 1

    def _count(self, text: str) -> None:
        if not text:
            return
        self.words += len(text.split()) - (self._in_word and not text[0].isspace())
        self._in_word = not text[-1].isspace()
