"""Read large pastes from a terminal in big pieces, in time linear in their size.

Owns the reading of pastes, with bracketed paste and without; prompt-toolkit reads all other keys. `box` handles the
pasted text.
"""

from __future__ import annotations

import re
import select

from prompt_toolkit.input import Input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from nexus_cli.ui.input.piped import MAX_INPUT

BURST = 256
"""Characters in one read that cannot be typed: without control characters they are a paste."""
LINES = 48
"""The same limit for text with an Enter; fewer may be typed ahead of a slow program."""
_READ = 64 * 1024
_MAX = 1024 * 1024
"""Characters that are read before other events are handled."""
_BURST_END_SECONDS = 0.002
"""Seconds without input that end a burst."""
_END = "\x1b[201~"
MODIFIED_ENTER: dict[str, Keys | tuple[Keys, ...]] = {
    "\x1b[13;2u": Keys.ControlJ,
    "\x1b[27;2;13~": Keys.ControlJ,
    "\x1b[13;3u": (Keys.Escape, Keys.ControlM),
    "\x1b[27;3;13~": (Keys.Escape, Keys.ControlM),
}
"""Shift+Enter and Alt+Enter as terminals encode them: kitty's protocol, xterm's modifyOtherKeys."""
ANSI_SEQUENCES |= MODIFIED_ENTER
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class BurstReader(PosixStdinReader):
    """Keeps reading as long as much input arrives at once."""

    def read(self, count: int = _READ) -> str:
        """Return the input that has arrived, at most about a million characters."""
        data = super().read(count)
        if len(data) < BURST:
            return data
        pieces, size = [data], len(data)
        while size < _MAX and not self.closed and select.select([self.stdin_fd], [], [], _BURST_END_SECONDS)[0]:
            pieces.append(super().read(count))
            size += len(pieces[-1])
        return "".join(pieces)


class PasteParser(Vt100Parser):
    """Collects a paste in pieces; prompt-toolkit's own parser copies the whole paste with each piece."""

    _pieces: list[str]
    _size: int
    _tail: str

    def reset(self, request: bool = False) -> None:
        """Discard partial input."""
        self._pieces, self._size, self._tail = [], 0, ""
        super().reset(request)

    def feed(self, data: str) -> None:
        """Parse `data`. A paste becomes one key, of which little more than `MAX_INPUT` characters are kept."""
        if self._in_bracketed_paste:
            self._paste(data)
            return
        text, enter = (data[:-1], data[-1]) if data.endswith(("\r", "\n")) else (data, "")
        lines = "\r" in text or "\n" in text
        if len(data) < (LINES if lines else BURST) or _CONTROL.search(data):
            super().feed(data)
        elif lines:
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, data))
        else:
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, text))
            super().feed(enter)

    def _paste(self, data: str) -> None:
        text, end, after = (self._tail + data).partition(_END)
        if end:
            self._pieces.append(text)
            pasted, self._pieces, self._size, self._tail = "".join(self._pieces), [], 0, ""
            self._in_bracketed_paste = False
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, pasted))
            self.feed(after)
            return
        overlap = len(_END) - 1  # perhaps the beginning of the end
        self._tail = text[-overlap:]
        if self._size <= MAX_INPUT:
            self._pieces.append(text[:-overlap])
            self._size += len(self._pieces[-1])


def read_in_bursts(source: Input) -> None:
    """Make a terminal's input read pastes in big pieces; other inputs stay unchanged."""
    if isinstance(source, Vt100Input) and not isinstance(source.vt100_parser, PasteParser):
        source.vt100_parser = PasteParser(source.vt100_parser.feed_key_callback)
        reader = source.stdin_reader
        source.stdin_reader = BurstReader(reader.stdin_fd, reader.errors)
