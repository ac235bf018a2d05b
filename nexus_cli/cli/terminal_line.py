"""Read one line from the terminal at stdin, key by key: Esc cancels it, and a hidden line shows a star for each
character.

The terminal is restored after each line, also when a signal ends the process.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from nexus_cli.cli.process import SIGNALS
from nexus_cli.text.cells import cells
from nexus_cli.ui.print.stream import QuietStream, Stream

RECHECK = 0.2
"""Most seconds until a signal is noticed while waiting for a key."""
ESCAPE_SECONDS = 0.05
"""Seconds to wait after an Esc for the rest of another key."""
MOST_STARS = 32
ESCAPE, END, ERASE, CLEAR = "\x1b", "\x04", ("\x7f", "\b"), "\x15"


def read_hidden_line(prompt: str) -> str:
    """Prompt for a line that is not shown, and return it; "" at Esc or the end of input."""
    return read_line(prompt, hidden=True)


def read_line(prompt: str, *, hidden: bool = False) -> str:
    """Prompt for a line and return it with its newline; "" at Esc or the end of input. Without a terminal, read a line
    of stdin."""
    if not os.isatty(0):
        QuietStream(Stream(2)).write(prompt)
        return sys.stdin.readline()
    with _single_keys():
        _show(prompt)
        return _TypedLine(_show, hidden=hidden).read(_read_characters())


class _TypedLine:
    """The line typed so far, and its echo."""

    def __init__(self, write: Callable[[str], object], *, hidden: bool) -> None:
        self._write, self._hidden, self._text = write, hidden, ""

    def read(self, characters: Iterator[str]) -> str:
        """Return the line that `characters` form, "" if it was cancelled."""
        for char in characters:
            if char in ("\n", "\r"):
                told = f" ({len(self._text)} characters)" if self._hidden and self._text else ""
                self._write(f"{told}\n")
                return f"{self._text}\n"
            if char == ESCAPE or (char == END and not self._text):
                break
            if char in ERASE:
                self._erase(1)
            elif char == CLEAR:
                self._erase(len(self._text))
            elif char.isprintable():
                self._text += char
                self._write(self._shown(char) if len(self._text) <= MOST_STARS or not self._hidden else "")
        self._write("\n")
        return ""

    def _shown(self, text: str) -> str:
        return "*" * len(text) if self._hidden else text

    def _erase(self, count: int) -> None:
        rest = self._text[: max(0, len(self._text) - count)]
        kept, now = (text[:MOST_STARS] if self._hidden else text for text in (self._text, rest))
        gone = cells(self._shown(kept[len(now) :]))
        self._text = rest
        self._write("\b" * gone + " " * gone + "\b" * gone)


def _show(text: str) -> None:
    """Write to the terminal at stdin, wherever stdout and stderr go."""
    for descriptor in (0, 2):
        with suppress(OSError):
            os.write(descriptor, text.encode())
            return


def _read_characters() -> Iterator[str]:
    """Yield the typed characters; skip keys that begin with Esc, except Esc itself."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := _read_byte():
        if data == b"\x1b":
            if not select.select([0], [], [], ESCAPE_SECONDS)[0]:
                yield ESCAPE
            elif _read_byte() == b"[":
                while (data := _read_byte()) and not 0x40 <= data[0] <= 0x7E:
                    pass
            continue
        yield from decoder.decode(data)


def _read_byte() -> bytes:
    # A blocking read would delay a signal that arrives just before it.
    while not select.select([0], [], [], RECHECK)[0]:
        pass
    return os.read(0, 1)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Turn echo and canonical mode off for the block. A signal that ends the process turns them on first. After SIGCONT
    they are turned off again, because the shell has turned them on."""
    before = termios.tcgetattr(0)
    flags = before[3] & ~(termios.ECHO | termios.ICANON)
    single = [*before[:3], flags, *before[4:6], [*before[6]]]
    single[6][termios.VMIN], single[6][termios.VTIME] = 1, 0
    handlers = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGCONT)}

    def hide(*_: object) -> None:
        termios.tcsetattr(0, termios.TCSADRAIN, single)

    def restore() -> None:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

    def end(number: int, frame: FrameType | None) -> None:
        restore()
        os.write(2, b"\n")
        handler = handlers[signal.Signals(number)]
        signal.signal(number, handler)
        if callable(handler):
            handler(number, frame)
        else:
            os.kill(os.getpid(), number)

    for number, handler in handlers.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, hide if number == signal.SIGCONT else end)
    try:
        hide()
        yield
    finally:
        signal.signal(signal.SIGCONT, handlers[signal.SIGCONT])
        restore()
        for number, handler in handlers.items():
            signal.signal(number, handler)
