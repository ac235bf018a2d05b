"""Retry failed requests with identical bytes, bounded in number and time.

`failures` decides which errors are worth a retry (`ProviderError.transient`). No request is retried here after its
first delta: it is paid for, and the session records it before it sends another one (`engine/requests/model_call`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Provider, Request, RetryDelta, close_if_closable

T = TypeVar("T")


@asynccontextmanager
async def closing(iterator: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Yield `iterator` and close it on the way out, if it can be closed."""
    try:
        yield iterator
    finally:
        await close_if_closable(iterator)


FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
RATE_WINDOW = 65.0
"""Seconds after the first try in which a rate limit is retried without a limit on the number: most count per minute."""


def backoff_seconds(attempt: int, chance: float) -> float:
    """Return the delay before try `attempt` + 1: a random value between half and all of a time that doubles from 0.5 to
    30 s."""
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
        chance: Callable[[], float] = random.random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow at most `tries` requests, and none later than `seconds` after the first.

        A rate limit may take more tries within `RATE_WINDOW`, unless `tries` is 1; the last wait ends with the window.
        """
        self.inner = inner
        self._tries = tries
        self._seconds = seconds
        self._sleep = sleep
        self._chance = chance
        self._now = now

    @property
    def asks_again(self) -> bool:
        """True if a request whose answer was cut may be sent again; the caller, which recorded the first one, sends
        it."""
        return self._tries > 1

    def prepare(self) -> None:
        """Prepare the wrapped provider, if it needs that."""
        prepare = getattr(self.inner, "prepare", None)
        if prepare is not None:
            prepare()

    async def aclose(self) -> None:
        """Close the wrapped provider, if it can be closed."""
        await close_if_closable(self.inner)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of the first try that begins to answer; a `RetryDelta` before each wait.

        A wait is the time that the provider asked for, but at least our own back-off. If it exceeds the remaining time,
        the failure is raised at once. Raises the last `ProviderError`.
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
                wait = max(error.retry_after or 0.0, backoff_seconds(attempt, self._chance()))
                if attempt >= self._tries:
                    wait = min(wait, began + RATE_WINDOW - self._now())
                if self._now() - began + wait > self._seconds:
                    raise
                failed = error
            yield RetryDelta(attempt, wait, failed.why)
            await self._sleep(wait)

    def _may_retry(self, error: ProviderError, attempt: int, began: float) -> bool:
        """True if the number of tries allows another one, or the minute of a rate limit has not passed."""
        is_counting = error.kind == "rate_limit" and self._tries > 1 and self._now() - began < RATE_WINDOW
        return attempt < self._tries or is_counting
