"""Notices a connection that has gone silent.

Owns the clock of one stream. Leaves telling the person to `litellm_backend`. Bytes count, not chunks: a server that
sends comments to keep the line open is not silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

LOOKS = 8
"""How often a stall is looked for in the time that makes one: it is noticed at most an eighth too late."""
LONGEST_PAUSE = 5.0
"""Seconds between two looks at most."""


class Stalled(Exception):
    """Nothing came for the whole time allowed."""


class Watch:
    """Watches one stream: entered once, `waiting()` around each wait for the server.

    One timer for the whole stream, which looks now and then, rather than one per chunk. The time that the consumer
    takes between two chunks does not count.
    """

    def __init__(self, seconds: float, received: Callable[[], int]) -> None:
        """`seconds` without progress are a stall; `received` tells how many bytes have come so far."""
        self._seconds = seconds
        self._received = received
        self._bytes = 0
        self._since = 0.0
        self._current: asyncio.Timeout | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watch:
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Around one wait. Raises `Stalled` when it lasts too long; any other `TimeoutError` passes."""
        self._since, self._bytes = asyncio.get_running_loop().time(), self._received()
        timer = asyncio.timeout(None)
        try:
            async with timer:
                self._current = timer
                yield
        except TimeoutError as error:
            if timer.expired():
                raise Stalled from error
            raise
        finally:
            self._current = None

    def _arm(self) -> None:
        pause = min(self._seconds / LOOKS, LONGEST_PAUSE)
        self._handle = asyncio.get_running_loop().call_later(pause, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        received = self._received()
        if self._current is None or received > self._bytes:
            self._since, self._bytes = now, received
        if now - self._since < self._seconds:
            self._arm()
        elif self._current is not None:
            self._current.reschedule(now)
