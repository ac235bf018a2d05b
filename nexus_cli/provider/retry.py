"""Retry failed requests with identical bytes, bounded in number and time.

`failures` decides what is worth a retry (`ProviderError.transient`). Nothing is retried here after the first delta:
that request is paid for, and the session records it before it sends another one (`session.model_call`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Provider, Request, RetryDelta

T = TypeVar("T")


@asynccontextmanager
async def closing(iterator: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Yield `iterator` and close it on the way out, if it can be closed."""
    try:
        yield iterator
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
RATE_WINDOW = 65.0
"""Seconds after the first try until which a rate limit is tried again, however often: most count by the minute."""


class RandomSource(Protocol):
    """The source of the jitter."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        ...


def backoff_seconds(attempt: int, chance: float) -> float:
    """Return the seconds before try `attempt` + 1: doubling from 0.5 to 30, of which between half and all."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1)) * (0.5 + chance / 2)


class RetryingProvider:
    """A `Provider` that retries the requests of another one."""

    def __init__(
        self,
        inner: Provider,
        *,
        tries: int = 5,
        seconds: float = 120.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: RandomSource = random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow at most `tries` requests, and none later than `seconds` after the first.

        A rate limit may take more tries within `RATE_WINDOW`, unless `tries` allows no second one; the last wait ends
        with the window.
        """
        self.inner = inner
        self._tries = tries
        self._seconds = seconds
        self._sleep = sleep
        self._rng = rng
        self._now = now

    @property
    def asks_again(self) -> bool:
        """True if a request whose answer was cut may be sent once more; who recorded the first one does that."""
        return self._tries > 1

    def prepare(self) -> None:
        """Load what the first request needs, if the other one has something to load."""
        prepare = getattr(self.inner, "prepare", None)
        if prepare is not None:
            prepare()

    async def aclose(self) -> None:
        """Close the other one, if it can be closed."""
        close = getattr(self.inner, "aclose", None)
        if close is not None:
            await close()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of the first try that begins to answer; a `RetryDelta` before each wait.

        A wait is what the provider asked for, at least our own back-off. If that exceeds the time that is left, the
        failure is raised at once. Raises the last `ProviderError`, with its kind.
        """
        began = self._now()
        attempt = 0
        while True:
            attempt += 1
            begun = False
            try:
                async with closing(self.inner.stream(request)) as deltas:
                    async for delta in deltas:
                        begun = True
                        yield delta
                return
            except ProviderError as error:
                if begun or error.started or not error.transient or not self._may_retry(error, attempt, began):
                    raise
                wait = max(error.retry_after or 0.0, backoff_seconds(attempt, self._rng.random()))
                if attempt >= self._tries:
                    wait = min(wait, began + RATE_WINDOW - self._now())
                if self._now() - began + wait > self._seconds:
                    raise
                failed = error
            yield RetryDelta(attempt, wait, failed.why)
            await self._sleep(wait)

    def _may_retry(self, error: ProviderError, attempt: int, began: float) -> bool:
        """True if the number of tries, or a rate limit that has not lasted its minute, allows another one."""
        is_counting = error.kind == "rate_limit" and self._tries > 1 and self._now() - began < RATE_WINDOW
        return attempt < self._tries or is_counting
