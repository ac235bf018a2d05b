"""The live part: the end of the open block, the open thought, and the calls that run, in few lines.

What is finished is the business of `rich_renderer`. Every line fits the width.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from nexus_cli.core.message import ToolCall
from nexus_cli.ui.render.cells import cut, expand_tabs, fold, wrap
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import format_call, format_running_call
from nexus_cli.ui.terminal_sanitizer import StreamSanitizer

KEPT = 4096
"""Characters of an open text that are looked at."""


class OpenCall:
    """A call without a result."""

    def __init__(self, call: ToolCall, subject: str, now: float) -> None:
        self.call = call
        self.subject = subject
        self.began = now
        self.asked = False
        """The person is asked first: it does not run yet."""
        self.shown = ""
        """What they were shown of it then."""
        self.what = format_call(call, subject)
        self._door = StreamSanitizer()
        self._end = ""

    def feed(self, text: str) -> None:
        """More of its output."""
        self._end = (self._end + self._door.feed(text[-KEPT:]))[-KEPT:]

    def seconds(self, now: float) -> float | None:
        """How long it has run; None while the person is asked."""
        return None if self.asked else max(0.0, now - self.began)

    @property
    def last_line(self) -> str:
        """The last line of its output with something on it."""
        return next((line for line in reversed(self._end.split("\n")) if line.strip()), "").strip()


def tail_of_prose(text: str, rows: int, width: int) -> list[str]:
    """The last `rows` lines of a text."""
    return list(deque(wrap(text, width), rows))


def tail_of_code(text: str, rows: int, width: int) -> list[str]:
    """The last `rows` lines of an open fence, set off as it will be when it is finished."""
    indent = " " * (4 if width >= 40 else 2 if width >= 6 else 0)
    pieces = (indent + piece for line in text.split("\n") for piece in fold(expand_tabs(line), width - len(indent)))
    return list(deque(pieces, rows))


def call_lines(open_: Iterable[OpenCall], now: float, rows: int, width: int, theme: Theme) -> list[str]:
    """One line for each call and below it the last line of its output, as far as there is room."""
    every = list(open_)
    lines = [format_running_call(call.what, call.seconds(now), width, theme) for call in every]
    if len(lines) > rows:
        more = cut(f"... and {len(lines) - rows + 1} more", width, theme.signs.cut)
        return [*lines[: rows - 1], theme.paint("dim", more)]
    spare = rows - len(lines)
    made: list[str] = []
    for line, call in zip(lines, every, strict=True):
        made.append(line)
        if spare and call.last_line and width > 8:
            made.append("    " + theme.paint("dim", cut(expand_tabs(call.last_line), width - 4, theme.signs.cut)))
            spare -= 1
    return made
