"""Programs that have the terminal instead of a view: an editor, a pager. They end when nobody waits for them any more.

Owns the program's life and who hears the keyboard's signals meanwhile. Giving the terminal away and taking it back is
the views' business, what the program is for its callers'.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from nexus_cli.config.programs import program_environment, start_program_async

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds that a program has to end when it is told to."""
_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to everybody in the foreground; they are meant for the program there."""


async def run_on_terminal(
    command: Sequence[str], *, text: bytes | None = None, environ: Mapping[str, str] | None = None
) -> int:
    """Run `command` on the terminal, with `text` on its stdin if there is one: its exit status, negative for a signal.

    Cancelled, it ends the program first: politely, and after `PATIENCE` seconds by force. Raises `OSError` or
    `ValueError` when it cannot be started.
    """
    with _deaf():
        process = await start_program_async(
            command,
            env=program_environment(os.environ if environ is None else environ),
            stdin=None if text is None else asyncio.subprocess.PIPE,
        )
        try:
            if text is not None:
                await process.communicate(text)
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        # One that is stopped would not hear of it.
        process.send_signal(signal.SIGCONT)
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
    await process.wait()


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl+C and Ctrl+backslash are the program's while it runs; the terminal sends them to us as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A function, for the program would go on ignoring what we ignore.
    before = {number: signal.signal(number, lambda number, frame: None) for number in _KEYS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class TerminalHandoff:
    """The work that a view gives its terminal to. It ends with the view."""

    def __init__(self) -> None:
        self._works: set[asyncio.Task[Any]] = set()
        self._over = False

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` gives; `CancelledError` when the view ends meanwhile, or has ended."""
        if self._over:
            raise asyncio.CancelledError

        async def whole() -> T:
            return await work()

        task = asyncio.create_task(whole())
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return await task

    def end(self) -> None:
        """Cancel what runs; nothing more begins."""
        self._over = True
        for task in tuple(self._works):
            task.cancel()
