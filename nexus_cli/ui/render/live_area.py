"""Draw the live area: the end of the open block, the open thought and the running calls, in a few lines that fit the
width.

`rich_renderer` prints finished text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from nexus_cli.core.message import ToolCall
from nexus_cli.reports.event_texts import format_elapsed
from nexus_cli.reports.text.lines import plural
from nexus_cli.text.cells import expand_tabs, fold, wrap
from nexus_cli.text.terminal_sanitizer import StreamSanitizer, sanitize_output
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import FinishedCall, format_call, format_head, format_running_call
from nexus_cli.ui.render.worker_tree import WorkerTree

TAIL_CHARACTERS = 4096
"""Most characters of an open text that are used."""
LONG_CALL, LONG_LINES = 10.0, 5
"""Seconds after which more than the last line of a call's output is shown, and how many are."""


class OpenCall:
    """A call without a result."""

    def __init__(self, call: ToolCall, subject: str, now: float, *, queued: bool = False) -> None:
        self.call = call
        self.subject = subject
        self.began = now
        self.queued = queued
        """True if an earlier call of the step has to end first."""
        self.awaits_answer = False
        """True if the person is asked first: it does not run yet."""
        self.is_answered = False
        """True if the person has answered, but not all questions of the step."""
        self.declined = False
        """True if the answer was no."""
        self.outcome: FinishedCall | None = None
        """Its outcome while an earlier call still runs."""
        self.after: list[FinishedCall] = []
        """The ends of workers that it manages, to show below its own outcome."""
        self.title = format_call(call, subject)
        self._end = ""

    def feed(self, text: str) -> None:
        """Add output."""
        self._end = (self._end + text[-TAIL_CHARACTERS:])[-TAIL_CHARACTERS:]

    @property
    def waiting(self) -> bool:
        """True if it waits for an earlier call or for the person's other answers."""
        return self.queued or self.is_answered

    @property
    def has_output(self) -> bool:
        """True if it has printed something."""
        return bool(self._end)

    def seconds(self, now: float) -> float | None:
        """Return the time that it has run; None while it waits or the person is asked."""
        return None if self.awaits_answer or self.waiting else max(0.0, now - self.began)

    def runs_long(self, now: float) -> bool:
        return not self.outcome and (self.seconds(now) or 0.0) >= LONG_CALL

    def last_lines(self, now: float) -> list[str]:
        """Return the last non-blank line of its output, or the last few of a call that has run for long."""
        line_limit = LONG_LINES if self.runs_long(now) else 1
        return [line.strip() for line in sanitize_output(self._end).split("\n") if line.strip()][-line_limit:]


def tail_of_prose(text: str, rows: int, width: int) -> list[str]:
    """Return the last `rows` lines of a text."""
    return list(deque(wrap(text, width), rows))


def tail_of_code(text: str, rows: int, width: int) -> list[str]:
    """Return the last `rows` lines of an open fence, in its final form."""
    pieces = (piece for line in text.split("\n") for piece in fold(expand_tabs(line), width))
    return list(deque(pieces, rows))


def call_lines(
    open_: Iterable[OpenCall], workers: WorkerTree, now: float, rows: int, width: int, theme: Theme
) -> list[str]:
    """Return one line for each call and below it the last lines of its output, or the workers of its worker, as far as
    there is room."""
    blocks = []
    for call in open_:
        worker = workers.of_call(call.call)
        if call.outcome:
            block = [format_head(call.outcome, width, theme)[0]]
        elif worker:
            block = workers.running_lines(worker, width, theme)
        else:
            held = theme.signs.error if call.declined else theme.signs.waiting if call.waiting else ""
            block = [format_running_call(call.title, call.seconds(now), width, theme, held)]
            if width > 8:
                ends = (theme.cut(expand_tabs(line), width - 4) for line in call.last_lines(now))
                block += ["    " + theme.paint("dim", line) for line in ends]
        blocks.append(block)
    return fit_blocks(blocks, rows, width, theme)


def fit_blocks(blocks: Sequence[Sequence[str]], rows: int, width: int, theme: Theme) -> list[str]:
    """Return the first line of each block, and as many other lines as fit into `rows`."""
    if len(blocks) > rows:
        more = theme.cut(f"... and {len(blocks) - rows + 1} more", width)
        return [*(block[0] for block in blocks[: max(0, rows - 1)]), theme.paint("dim", more)]
    spare = rows - len(blocks)
    lines: list[str] = []
    for first, *following in blocks:
        lines += [first, *following[:spare]]
        spare -= min(spare, len(following))
    return lines


MOST = 1_000_000
"""Most characters of a thought that are kept for showing it later."""
LONG_LINE = 8192
"""Characters after which an unfinished line is output."""


class Thought:
    """One stretch of thinking. `feed` and `end` return finished lines, sanitized."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._door = StreamSanitizer()
        self._lines: list[str] = []
        self._size = 0
        self.tail = ""
        """The open line."""
        self._words = 0
        self.seconds = 0.0
        """The time that thinking of the past took."""

    def feed(self, text: str) -> list[str]:
        """Return the lines that `text` finishes."""
        text = self._door.feed(text)
        *lines, self.tail = (self.tail + text).split("\n")
        if len(self.tail) > LONG_LINE:
            lines.append(self.tail)
            self.tail = ""
        self._keep(lines)
        return lines

    def end(self) -> list[str]:
        """Return the last line, if one is open."""
        lines = self.feed(pending) if (pending := self._door.flush()) else []
        if self.tail:
            self._keep([self.tail])
            lines.append(self.tail)
            self.tail = ""
        return lines

    @property
    def words(self) -> int:
        return self._words + len(self.tail.split())

    @property
    def text(self) -> str:
        """The whole thought, in lines; of a very long one only the beginning."""
        cut_note = "\n[thinking truncated: too long to keep]" if self._size > MOST else ""
        return "\n".join(self._lines).strip("\n") + cut_note

    def summary(self, shows: str = "") -> str:
        """Return the duration and size of the thought; `shows` is the key that shows it, if there is one."""
        seconds = self.seconds or self._clock() - self._began
        time = f" for {format_elapsed(seconds)}" if seconds >= 1 else ""
        return f"thought{time} ({plural(self.words, 'word')}{', ' if shows else ''}{shows})"

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            if self._size <= MOST:
                self._lines.append(line)
            self._size += len(line) + 1
            self._words += len(line.split())
