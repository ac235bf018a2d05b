"""The two descriptors of the terminal for prompt-toolkit: keys in, bytes out.

Handles the loss of the terminal, its size, and the characters that it may be sent. Other modules decide on the content.
The terminal is never queried, so that no answer has to be waited for.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import select
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.key_processor import KeyProcessor, _Flush
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Attrs

from nexus_cli.ui.print.stream import write_all
from nexus_cli.ui.rows import strip_ambiguous

ESCAPE_SECONDS = 0.05
"""Seconds in which an Esc may be the beginning of another key."""
FALLBACK = Size(rows=24, columns=80)
"""Size to use if a terminal reports 0."""


def size_of(descriptor: int) -> Size:
    """Return rows and columns of a terminal; `FALLBACK` if it reports 0 or is not a terminal."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return FALLBACK
    return Size(rows=size.lines or FALLBACK.rows, columns=size.columns or FALLBACK.columns)


@contextmanager
def on_continue(redraw: Callable[[], None]) -> Iterator[None]:
    """Call `redraw` within the block when a shell continues the process: the shell has written below what is shown."""
    loop = asyncio.get_running_loop()
    with suppress(ValueError, RuntimeError):  # not in the main thread
        loop.add_signal_handler(signal.SIGCONT, redraw)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCONT)


def colour_depth() -> ColorDepth | None:
    """Return the colour depth from `COLORTERM`, else None, so that prompt-toolkit derives it from `TERM`."""
    return ColorDepth.DEPTH_24_BIT if os.environ.get("COLORTERM", "") in ("truecolor", "24bit") else None


class TerminalOutput(Vt100_Output):
    """Writes bytes to a terminal. A failed write is reported once to `lost`; later writes are dropped."""

    def __init__(self, descriptor: int, get_size: Callable[[], Size], *, colour: bool, codes: bool) -> None:
        """Without `colour`, attributes such as bold are still written; without `codes`, they are not."""
        super().__init__(
            StringIO(),
            get_size,
            term=os.environ.get("TERM"),
            default_color_depth=colour_depth() if colour else ColorDepth.DEPTH_1_BIT,
            enable_bell=False,
            enable_cpr=False,
        )
        self.lost: Callable[[OSError], None] = lambda error: None
        self._descriptor = descriptor
        self._codes = codes
        self._is_lost = False
        self._holds = 0

    @contextmanager
    def hold_output(self) -> Iterator[None]:
        """Send everything written in the block in one piece, so that no half-drawn screen is visible."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.flush()

    def discard(self) -> None:
        """Discard what was written in a block of `hold_output`."""
        self._buffer.clear()

    def write(self, data: str) -> None:
        """Write text of the app, without characters that terminals count differently."""
        super().write(data if data.isascii() else strip_ambiguous(data))

    def set_attributes(self, attrs: Attrs, color_depth: ColorDepth) -> None:
        """Write colours and attributes if they are wanted."""
        if self._codes:
            super().set_attributes(attrs, color_depth)

    def reset_attributes(self) -> None:
        """Reset colours and attributes if they are wanted."""
        if self._codes:
            super().reset_attributes()

    def erase_down(self) -> None:
        """Erase from the cursor, at the beginning of a row, to the end of the screen.

        tmux treats `ESC [ J` in the first row as the end of a screenful and copies all of it into its scrollback. The
        first row is therefore erased alone, then the rest from the second row on.
        """
        below = "\x1b[B\r\x1b[J" if self.get_size().rows > 1 else ""
        self.write_raw(f"\x1b7\x1b[K{below}\x1b8")

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        """Write the collected output."""
        if self._holds or not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer.clear()
        if self._is_lost:
            return
        try:
            self._send(text)
        except OSError as error:
            self._is_lost = True
            self.lost(error)

    def _send(self, text: str) -> None:
        write_all(self._descriptor, text.encode("utf-8", "replace"))


class TerminalInput(Vt100Input):
    """Keys from a terminal. A lost terminal is the end of input, not an endless stream of nothing."""

    mode = raw_mode
    """The terminal's mode while keys are read."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(open(descriptor, encoding="utf-8", closefd=False))  # noqa: SIM115
        self._ahead = 0
        """Number of bytes typed before raw mode that are not read yet."""

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        """Switch to raw mode. Until now the terminal has converted each typed Enter to a newline."""
        with self.mode(self.fileno()):
            self._ahead = _count_available(self.fileno())
            yield

    def read_keys(self) -> list[KeyPress]:
        """Return the typed keys; `closed` is set once the terminal is gone."""
        if self._ahead:
            self.vt100_parser.feed(self.stdin_reader.read(self._ahead).replace("\n", "\r"))
            self._ahead = 0
            keys, self._buffer = self._buffer, []
            return keys
        keys = super().read_keys()
        if not keys and not self.closed and _hung_up(self.fileno()):
            self.stdin_reader.closed = True
        return keys


def disable_escape_delay(processor: KeyProcessor) -> None:
    """Let a lone Esc act at once, instead of waiting for a key that would make it Alt.

    The parser distinguishes Esc from Alt by `ESCAPE_SECONDS`; the processor would then wait again, long enough to type
    Ctrl+X Ctrl+E.
    """

    def pressed(sender: KeyProcessor) -> None:
        if [press.key for press in sender.key_buffer] == [Keys.Escape] and not sender.input_queue:
            sender.feed(_Flush)

    processor.after_key_press += pressed


def _count_available(descriptor: int) -> int:
    """Return the number of bytes that can be read at once."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]


def _hung_up(descriptor: int) -> bool:
    """True if the terminal's other end is closed, so that every read fails at once."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
