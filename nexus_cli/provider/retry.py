"""Retry failed requests with identical bytes, bounded in number and time.

`failures` decides which errors are worth a retry (`ProviderError.transient`). No request is retried here after its
first delta: it is paid for, and the session records it before it sends another one (`engine/requests/model_call`).
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import AsyncIterator
from random import random
from time import monotonic

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Provider, Request, RetryDelta, close_if_closable
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.served_models import served_model_info

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
RATE_WINDOW = 65.0
"""Seconds after the first try in which a rate limit is retried without a limit on the number: most count per minute."""


def backoff_seconds(attempt: int) -> float:
    """Return the delay before try `attempt` + 1: a random value between half and all of a time that doubles from 0.5 to
    30 s."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1)) * (0.5 + random() / 2)


class RetryingProvider:
    """A `Provider` that retries the requests of another one."""

    def __init__(self, inner: Provider, *, tries: int = 5, seconds: float = 120.0) -> None:
        """Allow at most `tries` requests, and none later than `seconds` after the first.

        A rate limit may take more tries within `RATE_WINDOW`, unless `tries` is 1; the last wait ends with the window.
        """
        self.inner = inner
        self._tries = tries
        self._seconds = seconds
        self.asks_again = tries > 1
        """True if a request whose answer was cut may be sent again; the caller, which recorded the first one, sends
        it."""

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
        began, attempt, begun = monotonic(), 0, False
        while True:
            attempt += 1
            deltas = self.inner.stream(request)
            try:
                async for delta in deltas:
                    begun = True
                    yield delta
                return
            except ProviderError as error:
                passed, is_last = monotonic() - began, attempt >= self._tries
                # A rate limit is outlived: its last wait ends with the window.
                remaining = RATE_WINDOW - passed if error.kind == "rate_limit" and self.asks_again else 0.0
                wait = max(error.retry_after or 0.0, backoff_seconds(attempt))
                wait = min(wait, remaining) if is_last else wait
                if begun or error.started or not error.transient or passed + wait > self._seconds:
                    raise
                if is_last and remaining <= 0:
                    raise
                failed = error
            finally:
                await close_if_closable(deltas)
            request.sending.is_sent = False
            yield RetryDelta(attempt, wait, failed.why)
            await sleep(wait)


def make_provider(settings: Settings, *, saves: bool = True) -> Provider:
    """Make the provider for all models that litellm knows, with the retries of the settings. Unless it `saves`, it
    keeps no template of a request."""
    templates = places().cache / "requests" if saves else None
    return RetryingProvider(
        LitellmBackend(info=lambda name: served_model_info(name, settings.models, saves=saves), templates=templates),
        tries=settings.provider.retries + 1,
        seconds=settings.provider.retry_seconds,
    )
