"""A view of a space without a terminal: each line of stdin is a message, and messages are written to stdout."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import chain

from nexus_cli.core.run import LONGEST_MESSAGE
from nexus_cli.core.shared_types import T
from nexus_cli.text.cells import without_codes
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.stream import ReaderClosed, Stream
from nexus_cli.ui.repl.view import ReplController, ReplView

LONGEST_LINE = 4 * LONGEST_MESSAGE + 4
"""Bytes of a line that are kept: more than a message may have."""
ENDLESS = 1 << 30
_READ = 65_536


async def _nothing() -> None:
    """Wait for nothing."""


class PipeView(ReplView):
    """Each line is submitted once the one before is settled. Nobody can be asked."""

    echoes = False
    height = 24

    def __init__(self) -> None:
        self._stream = Stream(1)
        self._done = asyncio.Event()
        self.settle: Callable[[], Awaitable[None]] = _nothing
        """Waits until the controller has processed the submitted line."""

    @property
    def width(self) -> int:
        """Columns: unlimited, since a reader wants whole lines, unless `COLUMNS` sets a limit."""
        return self._stream.width if os.environ.get("COLUMNS") else ENDLESS

    def put(self, text: str) -> None:
        """Write `text`; end the view if the reader has left."""
        try:
            self._stream.write(without_codes(text))
        except ReaderClosed:
            self._done.set()

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`: there is no terminal to suspend."""
        return await work()

    async def run(self, controller: ReplController) -> None:
        """Post line by line until stdin ends."""
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        taken = threading.Semaphore(1)

        def read() -> None:
            for line in chain(_lines(0), [None]):
                taken.acquire()
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(lines.put_nowait, line)

        threading.Thread(target=read, name="nexus-stdin", daemon=True).start()
        ended = asyncio.create_task(self._done.wait())
        while not ended.done():
            line = asyncio.create_task(lines.get())
            await asyncio.wait((line, ended), return_when=asyncio.FIRST_COMPLETED)
            if not line.done() or (text := line.result()) is None:
                line.cancel()
                break
            if text.strip():
                controller.submit(TypedMessage(text, text))
                await self.settle()
            taken.release()
        ended.cancel()

    def interrupt(self) -> None:
        """Ctrl+C: leave."""
        self._done.set()

    def leave(self) -> None:
        self._done.set()


def _lines(descriptor: int) -> Iterator[str]:
    """Yield the lines of a descriptor; of one that is too long only its beginning."""
    line, rest = bytearray(), b""
    while piece := rest or os.read(descriptor, _READ):
        end = piece.find(b"\n")
        line += piece[: end if end >= 0 else None][: LONGEST_LINE - len(line)]
        rest = piece[end + 1 :] if end >= 0 else b""
        if end >= 0:
            yield line.decode("utf-8", "replace")
            line.clear()
    if line:
        yield line.decode("utf-8", "replace")
