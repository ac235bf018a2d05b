"""The panel of one question outside the REPL, as an app of its own on a stream.

Where nothing can be redrawn, the question is text, and what is typed is echoed.
"""

from __future__ import annotations

import asyncio
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.input.vt100 import raw_mode
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window

from nexus_cli.text.cells import cells
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import CONFIRM, AskedQuestion, is_only_answer, write_question
from nexus_cli.ui.print.stream import Writable
from nexus_cli.ui.screen.fitted_renderer import FittedRenderer
from nexus_cli.ui.screen.question import (
    EARLY_ANSWER_SECONDS,
    QUIET,
    EarlyKeys,
    QuestionPanel,
    field_bindings,
    loop_time,
)
from nexus_cli.ui.screen.terminal import (
    ESCAPE_SECONDS,
    TerminalInput,
    TerminalOutput,
    disable_escape_delay,
    on_continue,
    size_of,
)

_PASTE_ON = "\x1b[?2004h"
"""Lets the terminal mark pastes."""
MAX_ROWS, MAX_STARS = 8, 32
"""Most rows of a question, and most stars of a hidden line."""


class QuestionApp:
    """One question on a stream."""

    def __init__(
        self,
        stream: Writable,
        descriptor: int,
        question: AskedQuestion,
        stop: Callable[[], object] | None,
        cycle_level: Callable[[], object],
    ) -> None:
        """`descriptor` is that of the terminal; the others as in `TerminalQuestions`."""
        self._stream, self._question, self._stop = stream, question, stop
        self._is_drawn = stream.colour and bool(question.keys)
        self._panel = panel = QuestionPanel(stream.colour, lambda: False, str)
        self._keys = _SingleKeys(descriptor)
        self._is_line = question.is_expected and not question.keys
        """True if text typed ahead belongs to it."""
        self._shown = ""
        """What is shown of the answer, unless it is drawn."""
        if self._is_line:
            self._keys.stdin_reader = _ByteReader(descriptor)
        rows = FormattedTextControl(lambda: ANSI("\n".join(panel.prompt(stream.width - 1, self._most_rows))))
        output = _StreamOutput(stream, descriptor, is_drawn=self._is_drawn)
        self._app: Application[str | None] = Application(
            Layout(HSplit([Window(rows, dont_extend_height=True), panel.container]), panel.buffer),
            key_bindings=field_bindings(
                panel,
                enter=panel.enter if self._is_drawn else lambda: panel.submit(panel.buffer.text),
                stop=self._leave,
                cycle_level=cycle_level,
            ),
            input=self._keys,
            output=output,
            erase_when_done=True,
        )
        self._app.renderer = FittedRenderer(self._app._merged_style, output, lambda row: None)
        self._app.ttimeoutlen = ESCAPE_SECONDS
        disable_escape_delay(self._app.key_processor)
        self._app.after_render += lambda _: panel.note_drawn()
        self._app.key_processor.before_key_press += lambda _: panel.note_key()

    @property
    def _most_rows(self) -> int:
        return max(1, min(MAX_ROWS, size_of(self._keys.fileno()).rows - 1))

    async def run(self) -> str | None:
        """Ask once nobody types, and return the answer; None at the end of input."""
        early = ""
        with on_continue(self._continued), suppress(EOFError):
            self._take_terminal()
            if not self._is_line:
                early = await self._wait_for_quiet()
            if early and not self._is_drawn:
                self._stream.write(f"{early}: {CONFIRM}\n")
            begin = partial(self._open, early)
            try:
                with nullcontext() if self._is_drawn else self._echoed():
                    return await self._app.run_async(begin, handle_sigint=False, set_exception_handler=False)
            finally:
                self._panel.end()
        return None

    def _leave(self, *, gently: bool) -> None:
        """Stop the turn that asks, once, since a second signal would end the process; else give no answer."""
        if self._stop is None:
            self._panel.submit(None)
        else:
            stop, self._stop = self._stop, lambda: None
            stop()

    def _open(self, early: str) -> None:
        assert self._app.future is not None, "the app runs"
        self._panel.begin(self._question, self._app.future)
        self._panel.take_keys(early)

    def _take_terminal(self) -> None:
        """Set the mode, and draw everything again."""
        self._keys.mode(self._keys.fileno()).__enter__()
        if self._stream.colour and not self._is_line:
            self._stream.write(_PASTE_ON)
        self._app.renderer.reset()
        self._app.invalidate()

    def _continued(self) -> None:
        """Show the question again: after Ctrl+Z, it is above what the shell has printed."""
        self._take_terminal()
        if self._app.is_running and not self._is_drawn:
            self._write_line()

    def _write_line(self) -> None:
        self._stream.write(f"{write_question(self._question, self._stream.width - 1)} {self._shown}")

    async def _wait_for_quiet(self) -> str:
        """Take keys until none has come for `QUIET` seconds. Return them if they are an answer and no text was typed
        ahead of what is shown of the question; else discard them and return ""."""
        quiet_at = loop_time() + QUIET
        clear_typeahead(self._keys)
        was_typed_ahead = bool(self._keys.read_keys())
        early = EarlyKeys(can_answer=bool(self._question.text) and not was_typed_ahead)

        def note() -> None:
            nonlocal quiet_at
            early.add(self._keys.read_keys())
            quiet_at = loop_time() + (EARLY_ANSWER_SECONDS if early.text else QUIET)

        with self._keys.attach(note):
            while not self._keys.closed and (wait := quiet_at - loop_time()) > 0:  # noqa: ASYNC110  (each key moves the end)
                await asyncio.sleep(wait)
        self._keys.flush_keys()
        return early.text if is_only_answer(early.text, self._question) else ""

    @contextmanager
    def _echoed(self) -> Iterator[None]:
        """Write the question and what is typed in the block, then end the line; say how long a hidden line is."""
        buffer, is_hidden = self._panel.buffer, self._question.is_hidden
        text = ""

        def echo(buffer: Buffer) -> None:
            nonlocal text
            buffer.cursor_position = len(buffer.text)
            before, added = self._shown, buffer.text.removeprefix(text)
            kept_text = before if buffer.text.startswith(text) else ""
            text = buffer.text
            self._shown = shown = "*" * min(len(text), MAX_STARS) if is_hidden else kept_text + sanitize(added)
            kept = shown if before.startswith(shown) else before if shown.startswith(before) else ""
            erased = cells(before[len(kept) :])
            self._stream.write("\b" * erased + " " * erased + "\b" * erased + shown[len(kept) :])

        self._write_line()
        buffer.on_text_changed += echo
        buffer.on_cursor_position_changed += echo
        try:
            yield
        finally:
            self._stream.write(f" ({len(buffer.text)} characters)\n" if is_hidden and buffer.text else "\n")


class _SignallingMode(raw_mode):
    """Single keys, but for those that send a signal. Enter is a newline, as for a shell that is in front meanwhile."""

    @classmethod
    def _patch_iflag(cls, attrs: int) -> int:
        return attrs

    @classmethod
    def _patch_lflag(cls, attrs: int) -> int:
        return super()._patch_lflag(attrs) | attrs & termios.ISIG


class _SingleKeys(TerminalInput):
    """The keys of a terminal in that mode."""

    mode = _SignallingMode


class _ByteReader(PosixStdinReader):
    """Reads one byte at once: what follows a line that was asked for is for the next reader."""

    def read(self, count: int = 1) -> str:
        return super().read(1)


class _StreamOutput(TerminalOutput):
    """The output of an app on a stream of ours; unless `is_drawn`, it is dropped."""

    def __init__(self, stream: Writable, descriptor: int, *, is_drawn: bool) -> None:
        super().__init__(descriptor, lambda: Size(size_of(descriptor).rows, stream.width), colour=True, codes=True)
        self._stream, self._is_drawn = stream, is_drawn

    def _send(self, text: str) -> None:
        if self._is_drawn:
            self._stream.write(text)
