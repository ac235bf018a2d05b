"""A view of a space without a terminal: each line of stdin is a message, and messages are written to stdout."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cache

from nexus_cli.core.shared_types import T
from nexus_cli.text.cells import without_codes
from nexus_cli.ui.input.line_batches import LineBatches
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.stream import ReaderClosed, Stream, write_stderr_line
from nexus_cli.ui.repl.view import ReplController, ReplView

ENDLESS = 1 << 30


@cache
def _warn(notice: str) -> None:
    """Write a notice to stderr, once."""
    write_stderr_line(f"nexus: {notice}")


async def _nothing() -> None:
    """Wait for nothing."""


class PipeView(ReplView):
    """Each line is submitted once the one before is settled. Nobody can be asked."""

    echoes = False
    height = 24

    def __init__(self) -> None:
        self._stream = Stream(1)
        self._lines = LineBatches(0, 1, 0.0, _warn)
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
            self.leave()

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`: there is no terminal to suspend."""
        return await work()

    async def run(self, controller: ReplController) -> None:
        """Post line by line until stdin ends; raise `NexusError` if it is binary or unreadable."""
        while line := await self._lines.next():
            if line.strip():
                text = line.rstrip("\r\n")
                controller.submit(TypedMessage(text, text))
                await self.settle()

    def interrupt(self) -> None:
        """Ctrl+C: leave."""
        self.leave()

    def leave(self) -> None:
        self._lines.stop()
