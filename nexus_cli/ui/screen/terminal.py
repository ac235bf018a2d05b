"""The two descriptors of the terminal as prompt-toolkit wants them: keys that come in, bytes that go out.

Knows what happens when the terminal goes away, how large it is, and which characters it may be given. What is drawn is
decided elsewhere. Nothing is asked of the terminal: no answer of it ever has to be waited for.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Attrs

from nexus_cli.ui.print.stream import write_all
from nexus_cli.ui.rows import strip_ambiguous

FALLBACK = Size(rows=24, columns=80)
"""Size of a terminal that reports 0."""


def size_of(descriptor: int) -> Size:
    """Return rows and columns of a terminal; those of `FALLBACK` where it says 0 or is none."""
    try:
        said = os.get_terminal_size(descriptor)
    except OSError:
        return FALLBACK
    return Size(rows=said.lines or FALLBACK.rows, columns=said.columns or FALLBACK.columns)


def colour_depth(environ: Mapping[str, str]) -> ColorDepth | None:
    """Return how many colours: by `COLORTERM`, else None for what prompt-toolkit knows of `TERM`."""
    return ColorDepth.DEPTH_24_BIT if environ.get("COLORTERM", "") in ("truecolor", "24bit") else None


class TerminalOutput(Vt100_Output):
    """Bytes to a terminal. A failed write is reported once to `lost`; later writes are dropped."""

    def __init__(
        self, descriptor: int, get_size: Callable[[], Size], environ: Mapping[str, str], *, colour: bool, codes: bool
    ) -> None:
        """Without `colour` attributes such as bold are written, without `codes` not even these."""
        super().__init__(
            StringIO(),
            get_size,
            term=environ.get("TERM"),
            default_color_depth=colour_depth(environ) if colour else ColorDepth.DEPTH_1_BIT,
            enable_bell=False,
            enable_cpr=False,
        )
        self.lost: Callable[[OSError], None] = lambda error: None
        self._descriptor = descriptor
        self._codes = codes
        self._gone = False
        self._holds = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Everything that is written meanwhile goes out in one piece: nobody sees a half-drawn screen."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.flush()

    @contextmanager
    def kept_back(self) -> Iterator[None]:
        """Discard writes meanwhile: what prompt-toolkit sends to a terminal before it draws."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._buffer.clear()

    def write(self, data: str) -> None:
        """Text of the app, without characters that terminals count differently."""
        super().write(data if data.isascii() else strip_ambiguous(data))

    def set_attributes(self, attrs: Attrs, color_depth: ColorDepth) -> None:
        """Write colours and the like, where they are wanted."""
        if self._codes:
            super().set_attributes(attrs, color_depth)

    def reset_attributes(self) -> None:
        """Back to the terminal's own, where they are wanted."""
        if self._codes:
            super().reset_attributes()

    def erase_down(self) -> None:
        """Erase from the cursor, at the beginning of a row, to the end of the screen.

        tmux takes `ESC [ J` in the first row for the end of a screenful and copies all of it into its scrollback: that
        row is erased alone, the rest from the second one on.
        """
        below = "\x1b[B\r\x1b[J" if self.get_size().rows > 1 else ""
        self.write_raw(f"\x1b7\x1b[K{below}\x1b8")

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def flush(self) -> None:
        """Write what has been collected."""
        if self._holds or not self._buffer:
            return
        data = "".join(self._buffer).encode("utf-8", "replace")
        self._buffer.clear()
        if self._gone:
            return
        try:
            write_all(self._descriptor, data)
        except OSError as error:
            self._gone = True
            self.lost(error)


class TerminalInput(Vt100Input):
    """Keys from a terminal; a terminal that is gone is the end of input, not an endless stream of nothing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(open(descriptor, encoding="utf-8", closefd=False))  # noqa: SIM115
        self._ahead = 0
        """Bytes that were typed before the mode was raw, and are not read yet."""

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        """The terminal has made a newline of each Enter that was typed until now."""
        with super().raw_mode():
            self._ahead = _there(self.fileno())
            yield

    def read_keys(self) -> list[KeyPress]:
        """Return what was typed; `closed` afterwards when there is no terminal any more."""
        if self._ahead:
            self.vt100_parser.feed(self.stdin_reader.read(self._ahead).replace("\n", "\r"))
            self._ahead = 0
            keys, self._buffer = self._buffer, []
            return keys
        keys = super().read_keys()
        if not keys and not self.closed and _hung_up(self.fileno()):
            self.stdin_reader.closed = True
        return keys


def _there(descriptor: int) -> int:
    """Return bytes that can be read at once."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]


def _hung_up(descriptor: int) -> bool:
    """True if nobody is at the other end of a terminal: then each read of it fails at once."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
