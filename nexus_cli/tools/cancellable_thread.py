"""Run blocking work in a thread; a cancellation waits until the work has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from nexus_cli.core.shared_types import T


class ThreadStopped(Exception):
    """Raised in the thread by `StopFlag.raise_if_pressed` after its caller was cancelled."""


class StopFlag:
    """Tells a thread that its caller was cancelled; pressed again if the caller is in a hurry."""

    def __init__(self) -> None:
        self._presses = 0
        self._changed = threading.Event()
        self.is_unlimited = False
        """True if the work may take longer than its time limit: it goes on in the background."""
        self.child: tuple[int, str] | None = None
        """Pid and mark of the child that the work runs, see `process_tree.find_tree`."""

    def press(self) -> None:
        """Request a stop, or an urgent one if already requested."""
        self._presses += 1
        self._changed.set()

    @property
    def is_pressed(self) -> bool:
        """True if uncommitted work should be abandoned."""
        return self._presses > 0

    @property
    def is_urgent(self) -> bool:
        """True if pressed more than once: skip every grace period."""
        return self._presses > 1

    def raise_if_pressed(self) -> None:
        """Raise `ThreadStopped` if pressed."""
        if self.is_pressed:
            raise ThreadStopped


async def run_in_thread(
    work: Callable[[StopFlag], T], after: Callable[[T], object] = lambda result: None, *, stop: StopFlag | None = None
) -> T:
    """Run `work(stop)` in a thread, then `after(result)` on the event loop, even if cancelled meanwhile.

    With a `stop` of the caller's the thread is its own: work that goes on takes no place in the pool.

    A cancellation presses `stop` and waits for the thread, so that no thread writes or runs a child after its call has
    ended. Raises what `work` raises.
    """
    creates_stop = stop is not None
    stop = stop or StopFlag()
    pool = ThreadPoolExecutor(1) if creates_stop else None
    future = asyncio.get_running_loop().run_in_executor(pool, work, stop)
    if pool is not None:
        pool.shutdown(wait=False)
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
