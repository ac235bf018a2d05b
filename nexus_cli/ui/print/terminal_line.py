"""One line from a terminal that edits its lines itself."""

from __future__ import annotations

import asyncio
import os

LONGEST = 4096
"""Bytes of a line that are kept: as many as a terminal takes."""


async def read_terminal_line(descriptor: int = 0) -> str:
    """The next line with its newline, "" at the end of input; reads only what belongs to the line. Cancellable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bytes] = loop.create_future()
    collected = bytearray()

    def arrived() -> None:
        try:
            # A terminal in line mode gives at most one line per read.
            data = os.read(descriptor, LONGEST)
        except BlockingIOError:
            return
        except OSError:
            collected.clear()
            data = b""
        collected.extend(data[: LONGEST - len(collected)])
        if not ready.done() and (not data or data.endswith(b"\n")):
            ready.set_result(bytes(collected))

    loop.add_reader(descriptor, arrived)
    try:
        return (await ready).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)
