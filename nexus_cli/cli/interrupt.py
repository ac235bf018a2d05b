"""Run work in an event loop and handle SIGINT, SIGTERM and SIGHUP: the first cancels the work, a second ends the
process at once.

The handlers are Python's, not the loop's: they run even while a write to a slow reader blocks the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

from nexus_cli.cli import process
from nexus_cli.core.shared_types import T
from nexus_cli.tools.process_tree import kill_all

CLOSE_SECONDS = 2.0
"""Seconds to wait for unfinished tasks and generators after the work has ended."""


class Interrupt:
    """Handles the three signals between `install` and `uninstall`."""

    def __init__(self) -> None:
        self.signal = 0
        """Number of the first signal that arrived, or 0."""
        self._cancel: Callable[[], object] | None = None
        self._stop: Callable[[], object] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._before_exit: Callable[[], object]
        self._on_arrival: Callable[[int], None]

    @property
    def status(self) -> int:
        """The exit status for the signal that arrived: 130, 143 or 129; 0 if none did."""
        return 128 + self.signal if self.signal else 0

    def install(
        self,
        cancel: Callable[[], object],
        *,
        on_arrival: Callable[[int], None] = lambda number: None,
        before_exit: Callable[[], object] = lambda: None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Call `cancel` in the running loop at the first signal; call `before_exit` and exit at the second.

        `on_arrival` gets each signal's number at once, even while the loop is blocked. With `stop`, SIGINT never
        cancels: each one calls `stop` in the loop.
        """
        self._loop = asyncio.get_running_loop()
        self._cancel, self._stop = cancel, stop
        self._on_arrival, self._before_exit = on_arrival, before_exit
        process.handle_signals(self._handle)

    def uninstall(self) -> None:
        """Restore the handlers that end the process at a signal. A second signal ends it with the status of the first,
        which the result may state."""
        self._cancel = self._stop = None
        process.exit_on_signals()
        if self.signal:
            process.handle_signals(lambda number, frame: process.exit_process(self.status))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._on_arrival(number)
        if self._stop is not None and number == process.SIGINT:
            self._loop.call_soon_threadsafe(self._stop)
            return
        if self.signal or self._cancel is None:
            kill_all()
            self._before_exit()
            process.exit_process(128 + (self.signal or number))
        self.signal = number
        self._loop.call_soon_threadsafe(self._cancel)


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result, like `asyncio.run`, but without its SIGINT handler and error reports."""
    process.freeze_gc()
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_SECONDS))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), CLOSE_SECONDS))
    except TimeoutError:
        pass
    finally:
        loop.close()
