"""A program in a real pseudo-terminal, and what a person at it sees and does.

Owns the pair of descriptors, the process and its end. What bytes look like is `terminal.emulator`, how a shell stops
and continues a program `terminal.leader`. A thread reads all the time, so that the program never waits for the test.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from terminal.emulator import BLANK, Cell, Emulator

LEADER = str(Path(__file__).with_name("leader.py"))
NEXUS = str(Path(sys.executable).with_name("nexus"))
ENTER, ESCAPE, ALT_ENTER, BACKSPACE, TAB = "\r", "\x1b", "\x1b\r", "\x7f", "\t"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


def ctrl(letter: str) -> str:
    """The character of a control key: `ctrl("c")`."""
    return chr(ord(letter.upper()) & 0x1F)


Wanted = str | Callable[["Terminal"], Any]
Start = Callable[[int], Any]
"""Starts a process with the given descriptor as its three streams: what it returns has `pid`, `wait` and `poll`."""


PATIENCE = 90.0
"""Seconds that may pass until something is seen, on a machine that does other things too."""


class NotSeenError(AssertionError):
    """What was waited for did not come; says what the screen shows."""


class Terminal:
    """A terminal window with one program in it. Close it, or use it in a `with`."""

    def __init__(
        self,
        argv: Sequence[str] | None = None,
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        start: Start | None = None,
        emulate: bool = True,
    ) -> None:
        """Starts `argv` (None: the installed `nexus`) as a shell would, in a new session with this terminal.

        `start` starts something else (`terminal.repl` forks). Without `emulate` there is no screen, only the last
        megabyte of `raw`; what is written in a hurry costs nothing then.
        """
        self.columns, self.rows = columns, rows
        self.raw = bytearray()
        """Everything that was written to the terminal."""
        self.received = 0
        """How many bytes that is, also where they are not kept."""
        self.heard: Callable[[bytes], Any] = lambda data: None
        """Is given every piece as it arrives, in the thread that reads."""
        self._emulator = Emulator(max(1, columns), max(1, rows), self._answer)
        self._emulate = emulate
        self._changed = threading.Condition()
        self._over = False
        self._master, slave = pty.openpty()
        self._size()
        environment = dict(os.environ if env is None else env)
        environment.setdefault("TERM", "xterm-256color")
        try:
            self._process = (
                start(slave)
                if start
                else subprocess.Popen(
                    [sys.executable, "-I", "-S", LEADER, *([NEXUS] if argv is None else argv)],
                    stdin=slave,
                    stdout=slave,
                    stderr=slave,
                    env=environment,
                    cwd=cwd,
                    start_new_session=True,
                )
            )
        finally:
            os.close(slave)
        self._wake, self._woken = os.pipe()
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()
        self.pid = self._started()
        """Of the program; the process that started it is the shell's part."""

    # -- what a person does

    def send(self, text: str | bytes) -> None:
        """Type `text`, as it is: `"\\r"` is Enter. Blocks while the program does not read."""
        data = memoryview(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(self._master, data[:4096]) :]

    def paste(self, text: str | bytes) -> None:
        """Paste `text` as a terminal does that was asked for bracketed pastes."""
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        self.send(b"\x1b[200~" + data + b"\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window; the kernel sends SIGWINCH. The emulator does not reflow."""
        with self._changed:
            self.columns, self.rows = columns, rows
            self._emulator.resize(max(1, rows), max(1, columns))
        self._size()

    def hang_up(self) -> None:
        """Close the window while the program runs: the kernel sends SIGHUP, and there is no terminal any more."""
        self._stop_reading()
        os.close(self._master)
        self._master = -1

    def suspend(self, timeout: float = PATIENCE) -> None:
        """Ctrl+Z; `NotSeenError` when the program does not stop."""
        self.send(ctrl("z"))
        self.stopped(timeout)

    def stopped(self, timeout: float = PATIENCE) -> None:
        """Wait until the program is stopped and the shell's part has the terminal."""

        def rests() -> bool:
            return self.state() == "T" and os.tcgetpgrp(self._master) == self._process.pid

        self._until(rests, timeout, "the program did not stop")

    def resume(self) -> None:
        """`fg`."""
        self._process.send_signal(signal.SIGUSR1)

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    # -- what a person sees

    def lines(self) -> list[str]:
        """The rows of the screen, without blanks at their ends."""
        with self._changed:
            return self._emulator.lines_of_screen()

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines())

    def scrollback(self) -> list[str]:
        """Everything from the first line on: what scrolled off, then the screen."""
        with self._changed:
            return self._emulator.lines_of_all()

    def cells(self) -> list[list[Cell]]:
        """The screen with its colours."""
        with self._changed:
            made = self._emulator
            lines = [made.buffer[row] for row in range(made.lines)]
            blank = [BLANK] * made.columns
            return [[line[place] for place in range(made.columns)] if line else blank for line in lines]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row of the cursor, from 0."""
        with self._changed:
            return self._emulator.cursor.x, self._emulator.cursor.y

    @property
    def told(self) -> list[str]:
        """Operating system commands that the program sent: titles, the clipboard."""
        return self._emulator.told

    def wait_for(self, wanted: Wanted, timeout: float = PATIENCE, *, back: bool = False) -> None:
        """Wait until the screen (with `back` also the scrollback) holds a text, or a condition on this terminal holds.

        `NotSeenError` with the screen after `timeout` seconds, or when the program has ended before.
        """

        def seen() -> bool:
            if callable(wanted):
                return bool(wanted(self))
            return wanted in "\n".join(self.scrollback() if back else self.lines())

        self._until(seen, timeout, f"not seen: {wanted!r}")

    def wait_quiet(self, seconds: float = 0.3, timeout: float = PATIENCE) -> None:
        """Wait until nothing has been written for so long."""
        limit = time.monotonic() + timeout
        before, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            if self.received != before:
                before, since = self.received, time.monotonic()
            if time.monotonic() > limit:
                raise NotSeenError(f"it was never quiet for {seconds} s\n{self.picture()}")
            time.sleep(min(0.02, seconds / 4))

    def picture(self) -> str:
        """The screen in a frame, for messages."""
        edge = "+" + "-" * max(1, self.columns) + "+"
        return "\n".join([edge, *self.lines(), edge])

    # -- the process

    def state(self) -> str:
        """`R`, `S`, `T` (stopped), `Z`, ... of the program; "" when it is gone. Linux."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    @property
    def ended(self) -> bool:
        """The program has ended."""
        return self._process.poll() is not None

    def status(self, timeout: float = PATIENCE) -> int:
        """Wait for its end: the exit status, negative for a signal; `NotSeenError` when it does not end."""
        try:
            status = int(self._process.wait(timeout))
        except subprocess.TimeoutExpired:
            raise NotSeenError(f"the program did not end within {timeout} s\n{self.picture()}") from None
        self._reader.join(timeout)
        return status

    def close(self) -> None:
        """End what still runs, by its pid, and wait until it is gone, with its locks: the shell's part outlives it."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid or self._process.pid, signal.SIGKILL)
                self._process.send_signal(signal.SIGUSR1)  # while it is stopped, nobody waits for its end
            self._process.wait(120)
        self._stop_reading()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
        for end in (self._wake, self._woken):
            with suppress(OSError):
                os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside

    def _until(self, holds: Callable[[], bool], timeout: float, what: str) -> None:
        limit = time.monotonic() + timeout
        while not holds():
            with self._changed:
                self._changed.wait(0.05)
            ended = self._over
            if (time.monotonic() > limit or ended) and not holds():
                how = "the terminal is closed" if ended else f"after {timeout} s"
                raise NotSeenError(f"{what} ({how})\n{self.picture()}")

    def _started(self) -> int:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit and self._process.poll() is None:
            with suppress(OSError):
                foreground = os.tcgetpgrp(self._master)
                if foreground not in (0, self._process.pid):
                    return foreground
            time.sleep(0.002)
        return 0

    def _stop_reading(self) -> None:
        if self._reader.is_alive():
            os.write(self._woken, b"x")
        self._reader.join(5)

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master, self._wake], [], [])
                data = b"" if self._wake in ready else os.read(self._master, 1 << 16)
            except OSError:
                data = b""
            with self._changed:
                if data:
                    self._take(data)
                else:
                    self._over = True
                self._changed.notify_all()
            if not data:
                return

    def _take(self, data: bytes) -> None:
        self.heard(data)
        self.received += len(data)
        self.raw += data
        if self._emulate:
            self._emulator.feed(data)
            return
        if b"\x1b[6n" in data:
            self._answer(b"\x1b[%d;1R" % max(1, self.rows))
        if len(self.raw) > 2_000_000:
            del self.raw[:-1_000_000]

    def _answer(self, data: bytes) -> None:
        with suppress(OSError):
            os.write(self._master, data)

    def _size(self) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
