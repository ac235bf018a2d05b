"""Read a stream in batches of lines, for `nexus ask --watch`: so many, or those before a pause.

A thread reads ahead meanwhile, in order and up to 64 MiB; then the writer of the stream has to wait, so that
nothing is lost.
"""

from __future__ import annotations

import asyncio
import os
import threading

from nexus_cli.core.errors import UsageError
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ui.input.piped import MAX_INPUT, decode

_CHUNK = 64 * 1024


class LineBatches:
    """The batches of one descriptor. Use in one event loop."""

    def __init__(self, descriptor: int, lines: int, pause: float, tell: TakeText, most: int = MAX_INPUT) -> None:
        """Batches have at most `lines` lines and end at `pause` seconds without input; `tell` gets notices."""
        self._descriptor, self._lines, self._pause, self._tell, self._most = descriptor, lines, pause, tell, most
        self._data = bytearray()
        self._complete = 0
        """Number of complete lines in `_data`, which may be large: it is not counted again for each batch."""
        self._ended = self._stopped = False
        self._error: OSError | None = None
        self._arrived = asyncio.Event()
        self._has_room = threading.Event()
        self._has_room.set()
        self._thread: threading.Thread | None = None

    async def next(self) -> str:
        """Return the next batch, "" at the end or after `stop`; raise `NexusError` if it is binary or unreadable."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, args=[asyncio.get_running_loop()], daemon=True)
            self._thread.start()
        while not self._stopped:
            is_full = len(self._data) >= self._most
            if self._complete >= self._lines or self._ended or is_full:
                break
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), self._pause if self._complete else None)
            except TimeoutError:
                break
        if self._stopped:
            return ""
        if self._error is not None:
            why = str(self._error.strerror)
            raise UsageError("stdin cannot be read", why, "Use a file or a pipe") from self._error
        return self._take()

    def stop(self) -> None:
        """End the stream now."""
        self._stopped = True
        self._arrived.set()

    def _take(self) -> str:
        end = -1
        for _ in range(self._lines):
            newline = self._data.find(b"\n", end + 1)
            if newline < 0:
                break
            end = newline
        size = len(self._data) if end < 0 or (self._ended and self._complete < self._lines) else end + 1
        if end < 0 and not self._ended:
            self._tell(f"stdin: split a line with more than {self._most:,} bytes")
        batch = bytes(self._data[:size])
        del self._data[:size]
        self._complete -= batch.count(b"\n")
        self._has_room.set()
        text, notice = decode(batch, "stdin") if batch else ("", "")
        if notice:
            self._tell(notice)
        return text

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read to the end, waiting for room. Runs in a thread of its own."""
        try:
            while piece := os.read(self._descriptor, _CHUNK):
                self._has_room.clear()
                loop.call_soon_threadsafe(self._add, piece)
                self._has_room.wait()
            loop.call_soon_threadsafe(self._end, None)
        except OSError as error:
            loop.call_soon_threadsafe(self._end, error)
        except RuntimeError:
            """The loop has ended, and nobody wants the rest."""

    def _add(self, piece: bytes) -> None:
        self._data += piece
        self._complete += piece.count(b"\n")
        if len(self._data) < self._most:
            self._has_room.set()
        else:
            self._tell(f"stdin: reading is paused while {self._most:,} bytes are waiting")
        self._arrived.set()

    def _end(self, error: OSError | None) -> None:
        self._ended, self._error = True, error
        self._arrived.set()
