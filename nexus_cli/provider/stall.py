"""Detect a connection without progress.

Bytes count, not chunks: a server that sends comments to keep the connection open makes progress.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

LOOKS = 8
"""Checks per stall time: a stall is detected at most an eighth too late."""
LONGEST_PAUSE = 5.0
"""Most seconds between two checks."""


OVERDUE = 1.25
"""Factor of the allowed idle time: a wait that lasts longer was not ended, so its loop is blocked."""


class StallError(Exception):
    """No byte arrived for the whole allowed time."""


_watches: set[StallWatch] = set()
"""Every wait of this process. Another thread reads it, so it is only ever copied."""


def overdue_wait(task: asyncio.Task[Any] | None) -> float | None:
    """Return the allowed seconds of a wait of `task` that is far overdue, else None. For any thread."""
    now = time.monotonic()
    mine = (watch for watch in tuple(_watches) if watch.task is task)
    return next((watch.seconds for watch in mine if watch.idle_seconds(now) > watch.seconds * OVERDUE), None)


def is_waiting_here() -> bool:
    """True if the code that this thread's loop runs is, or is called by, a wait for the provider."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and any(watch.task is task for watch in tuple(_watches))


class StallWatch:
    """A watch on one stream: entered once, `waiting()` around each wait for the server.

    The whole stream has one timer, which checks periodically, rather than one per chunk. The time that the consumer
    takes between two chunks does not count.
    """

    def __init__(self, seconds: float, received: Callable[[], int]) -> None:
        """Initialize; `seconds` without progress are a stall, and `received` returns the number of bytes so far."""
        self.seconds = seconds
        self.task: asyncio.Task[Any] | None = None
        """The task that is waiting, None while none is."""
        self._received = received
        self._bytes = 0
        self._since = 0.0
        self._current: asyncio.Timeout | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> StallWatch:
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Wrap one wait. Raises `StallError` if it lasts too long; any other `TimeoutError` passes."""
        self._since, self._bytes = time.monotonic(), self._received()
        timer = asyncio.timeout(None)
        try:
            async with timer:
                self._current, self.task = timer, asyncio.current_task()
                _watches.add(self)
                yield
        except TimeoutError as error:
            if timer.expired():
                raise StallError from error
            raise
        finally:
            self._current = self.task = None
            _watches.discard(self)

    def idle_seconds(self, now: float) -> float:
        """Return the seconds without progress at `now`, a time of the monotonic clock."""
        return now - self._since

    def _arm(self) -> None:
        pause = min(self.seconds / LOOKS, LONGEST_PAUSE)
        self._handle = asyncio.get_running_loop().call_later(pause, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        received = self._received()
        if self._current is None or received > self._bytes:
            self._since, self._bytes = now, received
        if now - self._since < self.seconds:
            self._arm()
        elif self._current is not None:
            self._current.reschedule(asyncio.get_running_loop().time())
