"""Note which tasks wait for the provider, for a watchdog outside of their loop.

The transport ends a wait without a byte (litellm's `timeout` is its limit for each read), unless the loop is blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StallError(TimeoutError):
    """The loop was blocked in a wait for the whole allowed time."""


_waits: dict[asyncio.Task[Any] | None, float] = {}


@contextmanager
def note_wait(seconds: float) -> Iterator[None]:
    """Note that the current task waits for the provider, in which `seconds` without progress are a stall."""
    task = asyncio.current_task()
    _waits[task] = seconds
    try:
        yield
    finally:
        del _waits[task]


def stall_limit(task: asyncio.Task[Any] | None) -> float | None:
    """Return the allowed seconds of a wait for the provider that `task` is in, else None. For any thread."""
    return _waits.get(task) if task is not None else None
