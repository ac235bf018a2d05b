"""Run blocking work in a thread, so that a cancelled call has really ended when the cancellation continues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ThreadStopped(Exception):
    """The exception raised in the thread by `StopFlag.check` after its caller was cancelled."""


class StopFlag:
    """A flag that tells a thread that its caller was cancelled; set again when the caller cannot wait."""

    def __init__(self) -> None:
        self._presses = 0
        self._changed = threading.Event()

    def press(self) -> None:
        """Request a stop (once more)."""
        self._presses += 1
        self._changed.set()

    @property
    def is_pressed(self) -> bool:
        """True if work that is not yet committed should be given up."""
        return self._presses > 0

    @property
    def is_urgent(self) -> bool:
        """True if pressed more than once: skip every grace period."""
        return self._presses > 1

    def raise_if_pressed(self) -> None:
        """Raise `ThreadStopped` when pressed."""
        if self.is_pressed:
            raise ThreadStopped


def _ignore(_: object) -> None:
    return


async def run_in_thread(work: Callable[[StopFlag], T], after: Callable[[T], object] = _ignore) -> T:
    """Run `work(stop)` in a thread, then `after(result)` here on the loop, even if cancelled meanwhile.

    A cancellation presses `stop`, waits until the thread is done, and only then continues; so no thread writes or runs
    a child after its call has ended. Raises what `work` raises.
    """
    stop = StopFlag()
    future = asyncio.get_running_loop().run_in_executor(None, work, stop)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
            stop.press()
    if cancelled is not None:
        if not future.cancelled() and future.exception() is None:
            after(future.result())
        raise cancelled
    result = future.result()
    after(result)
    return result
