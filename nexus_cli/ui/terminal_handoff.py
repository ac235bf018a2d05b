"""Run programs that take the terminal over from a view: an editor, a pager. They end when their caller is cancelled.

Owns the life of the program and the handling of the keyboard's signals meanwhile. The views suspend and resume their
use of the terminal; the callers choose the program.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from nexus_cli.config.programs import program_environment, start_program_async
from nexus_cli.core.shared_types import T

PATIENCE = 2.0
"""Seconds that a program has to end after SIGTERM."""
_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the whole foreground group; they are meant for the program there."""


async def run_on_terminal(command: Sequence[str], *, text: bytes | None = None) -> int:
    """Run `command` on the terminal, with `text` on its stdin if there is one; return its exit status, negative for a
    signal.

    Where a program reads our stdout, that of `command` is our stderr. If cancelled, ends the program first: with
    SIGTERM, and after `PATIENCE` seconds by force. Raises `OSError` or `ValueError` if it cannot be started.
    """
    with _ignore_signal_keys():
        process = await start_program_async(
            command,
            env=program_environment(os.environ),
            stdin=None if text is None else asyncio.subprocess.PIPE,
            stdout=None if os.isatty(1) else 2,
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
        # A stopped program would not receive it.
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
def _ignore_signal_keys() -> Iterator[None]:
    """Ignore Ctrl+C and Ctrl+backslash while the program runs: the terminal sends their signals to nexus too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A function, because the program would inherit an ignored signal.
    before = {number: signal.signal(number, lambda number, frame: None) for number in _KEYS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class TerminalHandoff:
    """The work that a view suspends itself for. It ends with the view."""

    def __init__(self) -> None:
        self._works: set[asyncio.Task[Any]] = set()
        self._over = False

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`; raise `CancelledError` if the view ends meanwhile, or has ended."""
        if self._over:
            raise asyncio.CancelledError

        async def run_work() -> T:
            return await work()

        task = asyncio.create_task(run_work())
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return await task

    def end(self) -> None:
        """Cancel the running work and refuse any other."""
        self._over = True
        for task in tuple(self._works):
            task.cancel()
