"""An event loop whose clock is put forward instead of waited for: a second of waiting costs no second.

For what happens in one loop alone. Threads and other processes live by the real clock: what waits for them with a
timeout gives up at once here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class PutClockLoop(asyncio.SelectorEventLoop):
    """A loop in which no time passes but that which somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 1000.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def at_once(timeout: float | None) -> Any:
            events = select(timeout if timeout is None else 0)
            if not events:
                self.clock += timeout or 0.0
            return events

        selector.select = at_once

    def time(self) -> float:
        return self.clock


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what `asyncio.run` would return, without the waiting."""
    with asyncio.Runner(loop_factory=PutClockLoop) as runner:
        return runner.run(work)
