"""An unbuffered output stream on a descriptor, so that nothing is lost at the end.

Detects a terminal, its width, and the use of colours. The caller decides on the text.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_GETFL, fcntl
from typing import Protocol

from nexus_cli.core.errors import NexusError
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.text.terminal_sanitizer import sanitize


class ReaderClosed(Exception):
    """The reader has closed its end. Not reported to anybody."""


_writing = 0


def is_writing() -> bool:
    """True while the program waits for a reader to take its output. For any thread."""
    return _writing > 0


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, waiting for the reader if needed; raise `OSError` if that fails."""
    unwritten = memoryview(data)
    while unwritten:
        try:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


ERASE_LINE = "\r\x1b[2K"
_erase = ""
"""What goes before each line on stderr: it removes a progress bar, which is drawn again below."""


@contextmanager
def replace_bar() -> Iterator[None]:
    """Within the block, let lines on stderr replace the progress bar that is drawn there."""
    global _erase
    _erase = ERASE_LINE
    try:
        yield
    finally:
        _erase = ""


def write_stderr_line(line: str) -> None:
    """Write `line` to stderr as one sanitized line; a closed stderr is not an error."""
    text = _erase + sanitize(" ".join(line.split())) + "\n"
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass


class Writable(Protocol):
    """The stream to write to."""

    terminal: bool
    colour: bool

    @property
    def width(self) -> int:
        """Columns."""

    def write(self, text: str) -> None:
        """Write all of `text`."""


class Stream:
    """One of stdout and stderr."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.terminal = os.isatty(descriptor)
        """True if progress and rendering are wanted."""
        self.colour = (
            self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")
        )
        """True if control codes are wanted."""

    @property
    def width(self) -> int:
        """Columns, at least 10: from `COLUMNS`, else from the terminal, else 80."""
        columns = os.environ.get("COLUMNS", "")
        if columns.isascii() and columns.isdigit() and int(columns):
            return max(10, int(columns))
        try:
            return max(10, os.get_terminal_size(self._descriptor).columns or 80)
        except OSError:
            return 80

    def refuse_closed(self) -> None:
        """Raise `NexusError("internal", ...)` if it was closed when nexus started (`reopen_descriptors`)."""
        if fcntl(self._descriptor, F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise self._unwritable(OSError(errno.EBADF, os.strerror(errno.EBADF)))

    def _unwritable(self, error: OSError) -> NexusError:
        name = {1: "stdout", 2: "stderr"}.get(self._descriptor, "the output")
        why, hint = str(error.strerror), "Check the destination of the output"
        return NexusError("internal", f"{name} cannot be written", why, hint)

    def write(self, text: str) -> None:
        """Write all of `text` as UTF-8; raises as `write_bytes` does."""
        self.write_bytes(replace_surrogates(text).encode())

    def write_bytes(self, data: bytes) -> None:
        """Write all of `data`; raise `ReaderClosed` if the reader has left, else `NexusError("internal", ...)`."""
        global _writing
        _writing += 1
        try:
            write_all(self._descriptor, data)
        except BrokenPipeError:
            raise ReaderClosed from None
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            _writing -= 1


class QuietStream(Stream):
    """A stream that ignores failures: stderr, since they cannot be reported anywhere else."""

    def write(self, text: str) -> None:
        """Write `text` if that is possible."""
        try:
            super().write(text)
        except (ReaderClosed, NexusError):
            pass
