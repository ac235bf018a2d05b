"""Questions outside the REPL, at the terminal that is stdin. prompt-toolkit is loaded with the first question.

The terminal is in single-key mode while a question is open; its former mode is always restored.
"""

from __future__ import annotations

import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.stream import Writable

_PASTE_OFF = "\x1b[?2004l"
"""Ends the marks of pastes."""


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
        from nexus_cli.ui.screen.question_app import QuestionApp  # noqa: PLC0415  (few turns ask)

        if question.text:
            self._stream.write(f"{question.text}\n")
        self._marks_pastes = self._stream.colour and bool(question.keys or question.words)
        with suppress(termios.error):  # the terminal is gone
            self._before = termios.tcgetattr(self._descriptor)
        try:
            return await QuestionApp(self._stream, self._descriptor, question, self._stop, self._cycle_level).run()
        finally:
            self.restore()

    def restore(self) -> None:
        """Restore the terminal's mode. Safe to call at any time, from any thread."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(termios.error, OSError):  # the terminal is gone
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)
            if self._marks_pastes:
                self._stream.write(_PASTE_OFF)
