"""Questions outside the REPL: shown on a stream, answered by single keys of the terminal that is stdin.

The terminal is in single-key mode while a question is open; its former mode is always restored.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from nexus_cli.text.cells import cells, cut_start
from nexus_cli.ui.asked_question import AskedQuestion, draw_question
from nexus_cli.ui.print.stream import Writable
from nexus_cli.ui.render.lone_key import ALONE, QUIET, AnswerField

ESCAPE_SECONDS = 0.05
"""Seconds in which an Esc may be the beginning of another key."""
LONGEST = 4096
"""Most characters of a line."""
MOST_ROWS, MOST_STARS = 8, 32
"""Most rows of a question, and most stars of a hidden line."""
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)
_BEGUN_KEY = re.compile(r"\x1b(?:\[[0-9;]*|O)?\Z")
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_ENTER = ("\r", "\n")
_MOVES = {"\x1b[D": -1, "\x1b[A": -1, "\x1b[C": 1, "\x1b[B": 1, "\t": 1}
_LEVEL, _ESCAPE, _END = "\x1b[Z", "\x1b", "\x04"


class TerminalQuestions:
    """An `AnswerSource` on a stream and a terminal."""

    def __init__(
        self,
        stream: Writable,
        descriptor: int = 0,
        *,
        stop: Callable[[], object] | None = None,
        cycle_level: Callable[[], object] = lambda: None,
    ) -> None:
        """`stop` handles Esc, which else closes the question; `cycle_level` Shift+Tab. Either may cancel it."""
        self._stream = stream
        self._descriptor = descriptor
        self._stop = stop
        self._cycle_level = cycle_level
        self._before: list[Any] | None = None
        """The terminal's former mode while it is in single-key mode."""
        self._marks_pastes = False

    @property
    def width(self) -> int:
        return self._stream.width

    async def question(self, question: AskedQuestion) -> str | None:
        """Show the question and return a key or a line; None at the end of input, and at Esc without `stop`."""
        if question.text:
            self._stream.write(f"{question.text}\n")
        self._marks_pastes = self._stream.colour and not question.is_expected
        with self._single_keys(), read_bytes(self._descriptor, 1 if question.is_expected else LONGEST) as data:
            if self._before is not None and not question.is_expected:
                await _wait_for_quiet(data)
            field = _Field(self._stream, question)
            try:
                answer = await self._answer(data, field)
            finally:
                field.close()
        return answer

    def restore(self) -> None:
        """Restore the terminal's mode. Safe to call at any time, from any thread."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(termios.error, OSError):  # the terminal is gone
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)
            if self._marks_pastes:
                self._stream.write(_PASTE_OFF)

    @contextmanager
    def _single_keys(self) -> Iterator[None]:
        """Switch the terminal to single keys without echo. Without a terminal, change nothing."""
        with suppress(termios.error):
            self._before = termios.tcgetattr(self._descriptor)
            self._set_mode()
        loop = asyncio.get_running_loop()
        with suppress(ValueError, RuntimeError):  # not in the main thread
            # A shell sets its own mode for a job that it continues.
            loop.add_signal_handler(signal.SIGCONT, self._set_mode)
        try:
            yield
        finally:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGCONT)
            self.restore()

    def _set_mode(self) -> None:
        if self._before is not None:
            mode = list(self._before)
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            with suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, mode)
            if self._marks_pastes:
                self._stream.write(_PASTE_ON)

    async def _answer(self, data: asyncio.Queue[bytes], field: _Field) -> str | None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while True:
            wait = ESCAPE_SECONDS if rest else ALONE if field.key else None
            try:
                async with asyncio.timeout(wait):
                    piece = await data.get()
            except TimeoutError:
                if not data.empty():  # a key came at the same moment
                    continue
                if not rest:
                    return field.key
                rest = ""
                if self._is_closed_by_escape():
                    return None
                continue
            if not piece:
                return None
            text = rest + decoder.decode(piece)
            begun = _BEGUN_KEY.search(text)
            text, rest = (text[: begun.start()], begun[0]) if begun else (text, "")
            presses = _KEY.findall(text.replace("\x1bO", "\x1b["))
            field.note_keys(asyncio.get_running_loop().time(), len(presses) + bool(rest))
            for number, press in enumerate(presses, 1):
                if press in (_PASTE, _PASTED):
                    field.pasting = press == _PASTE
                elif field.pasting or (press in _ENTER and self._goes_on(presses[number:])):
                    field.press(press if press.isprintable() else " ")  # always words
                elif press in _ENTER:
                    if (line := field.enter()) is not None:
                        return line
                elif press == _END and not field.words:
                    return None
                elif press == _LEVEL:
                    self._cycle_level()
                elif press == _ESCAPE:
                    if self._is_closed_by_escape():
                        return None
                    rest = ""
                    break  # the rest of this read answers nothing any more
                else:
                    field.press(press)

    def _is_closed_by_escape(self) -> bool:
        """Handle Esc; return True if it closes the question."""
        if self._stop is not None:
            self._stop()
        return self._stop is None

    def _goes_on(self, presses: Sequence[str]) -> bool:
        """True if an Enter before `presses` is part of a paste: the rest arrived with it at once."""
        return self._before is not None and any(press not in _ENTER for press in presses)


class _Field:
    """The rows of a question and the line typed below them, or after them if nothing can be redrawn."""

    def __init__(self, stream: Writable, question: AskedQuestion) -> None:
        self._stream = stream
        self._asked = question
        self._drawn = stream.colour and bool(question.keys)
        self._rows = 0
        self._field = AnswerField(question)
        self.key = ""
        """The answer of the letter in the field if nothing follows."""
        self.pasting = False
        """True during a paste."""
        self.words = ""
        if self._drawn:
            self._draw()
        else:
            stream.write("\n".join(self._question_rows(None)) + " ")

    def note_keys(self, now: float, count: int) -> None:
        """Record that keys arrive, before they act. A key after a letter makes the letter the beginning of words; of
        several keys at once, none stands alone."""
        self.key = ""
        for _ in range(count):
            self._field.press(now)

    def enter(self) -> str | None:
        """Return the typed text, else the chosen key; None if no choice is visible."""
        return self._field.enter(self.words) if self._drawn else self.words

    def press(self, press: str) -> None:
        """Handle one key that neither answers nor ends."""
        before = self.words
        if press in _MOVES and not before:
            if self._drawn:
                self._field.move(_MOVES[press])
        elif press in ("\x7f", "\b"):
            self.words = before[:-1]
        elif press == "\x15":
            self.words = ""
        elif press.isprintable() and len(before) < LONGEST:
            self.words += press
        if self.words != before:
            alone = self._field.type(self.words)
            self.key = alone.key if alone is not None and not self.pasting else ""
        if self._drawn:
            self._draw()
        else:
            shown_before, now = self._echo(before), self._echo(self.words)
            gone = cells(shown_before[len(now) :])
            self._stream.write(now[len(shown_before) :] + "\b" * gone + " " * gone + "\b" * gone)

    def close(self) -> None:
        """Erase rows and line if possible, else end the line; say how much of a hidden line was typed."""
        counted = f" ({len(self.words)} characters)" if self._asked.is_hidden and self.words else ""
        self._stream.write(self._erase() if self._drawn else f"{counted}\n")

    def _echo(self, words: str) -> str:
        """Return the part of typed text that is shown."""
        return "*" * min(len(words), MOST_STARS) if self._asked.is_hidden else words

    def _erase(self) -> str:
        return "\r\x1b[K" + "\x1b[A\x1b[K" * self._rows

    def _question_rows(self, chosen: int | None) -> list[str]:
        columns, drawn = self._stream.width - 1, self._drawn
        return draw_question(self._asked, columns, MOST_ROWS, redraws=drawn, colour=drawn, chosen=chosen)

    def _draw(self) -> None:
        width, rows = self._stream.width - 1, self._question_rows(self._field.marked)
        typed = (
            cut_start(self.words, width - 4) if self.words else f"\x1b[2m{self._asked.words[: width - 2]}\x1b[0m\r> "
        )
        if hint := self._field.describe_key(alone=bool(self.key)):
            typed = f"{typed}\x1b[2m  {hint[: max(0, width - 6)]}\x1b[0m\r> {typed}"
        self._stream.write(self._erase() + "\n".join([*rows, f"> {typed}"]))
        self._rows = len(rows)


@contextmanager
def read_bytes(descriptor: int, most: int = LONGEST) -> Iterator[asyncio.Queue[bytes]]:
    """Yield a queue of the bytes that can be read from `descriptor`, `most` at a time; b"" at its end."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def arrived() -> None:
        try:
            data = os.read(descriptor, most)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        queue.put_nowait(data)
        if not data:
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, arrived)
    try:
        yield queue
    finally:
        loop.remove_reader(descriptor)


async def _wait_for_quiet(data: asyncio.Queue[bytes]) -> None:
    """Discard text typed ahead, until no key has come for `QUIET` seconds. An end of input stays in the queue."""
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(QUIET):
                if not await data.get():
                    data.put_nowait(b"")
                    return
