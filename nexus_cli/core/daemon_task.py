"""Blocking calls in daemon threads, each with a time limit: one that hangs delays neither a turn nor the exit.

Calls run one after another in one thread. While one of them is slow, the others go on in a second thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

GRACE = 0.25
"""Seconds after which a running call no longer holds up the next one."""
TICK = 0.1
"""Seconds between two looks at the clock. A longer pause counts as two ticks: the process itself was held up."""


@dataclass(eq=False)
class DaemonTask(Generic[T]):
    """One blocking call and its result."""

    call: Callable[[], T]
    limit: float
    """Seconds from its start that `run_tasks` waits for it."""
    spent: float = 0.0
    """Seconds that `run_tasks` has waited for it."""
    started: float | None = None
    """When it started, by the monotonic clock."""
    ended: bool = False
    error: BaseException | None = None
    """Its exception."""
    _value: T | None = None

    @property
    def succeeded(self) -> bool:
        """True if it has ended and returned a value."""
        return self.ended and self.error is None

    @property
    def value(self) -> T:
        """Its result; valid once it has succeeded."""
        return cast(T, self._value)

    def start(self) -> None:
        """Run it in a daemon thread of its own without waiting for it."""
        self.started = time.monotonic()
        _start_thread(self.run, [self])

    def run(self) -> None:
        """Run it in this thread and keep what it returns or raises."""
        self.started = time.monotonic()
        try:
            self._value = self.call()
        except BaseException as error:  # a seam: also an exit or a cancellation ends only this call
            self.error = error
        self.ended = True


async def run_tasks(tasks: Iterable[DaemonTask[Any]]) -> None:
    """Run the tasks in order; return as soon as each has ended or exceeded its limit.

    One that runs already is waited for. A call that exceeds its limit continues in its thread. A cancellation ends the
    wait at once, and what has not started by then never runs.
    """
    tasks = list(tasks)
    loop, all_ended = asyncio.get_running_loop(), asyncio.Event()
    waiting = deque(task for task in tasks if task.started is None)

    def work() -> None:
        while waiting:
            try:
                waiting.popleft().run()
            except IndexError:  # the other thread took the last one
                return
        if all(task.ended for task in tasks):
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(all_ended.set)

    if waiting:
        _start_thread(work, waiting)
    try:
        while left := [task.limit - task.spent for task in tasks if not task.ended and task.spent < task.limit]:
            began = time.monotonic()
            try:
                async with asyncio.timeout(min(TICK, *left)):
                    await all_ended.wait()
            except TimeoutError:
                pass
            running = [task for task in tasks if task.started is not None and not task.ended]
            for task in running:
                task.spent += min(time.monotonic() - max(began, task.started or began), 2 * TICK)
            if waiting and all(task.spent >= min(GRACE, task.limit) for task in running):
                _start_thread(work, waiting)
    finally:
        waiting.clear()


def _start_thread(work: Callable[[], None], tasks: Iterable[DaemonTask[Any]]) -> None:
    try:
        threading.Thread(target=work, name="nexus-daemon-task", daemon=True).start()
    except RuntimeError as error:  # no more threads
        for task in list(tasks):
            task.error, task.ended = error, True
