"""Run blocking calls in daemon threads with a time limit each: one that hangs delays neither a turn nor the exit.

Calls run one after another in one thread. While one of them is slow, the others continue in another thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, cast

from nexus_cli.core.shared_types import T

GRACE = 0.25
"""Seconds after which a running call no longer delays the next one."""
TICK = 0.1
"""Seconds between two checks of the limits. A longer pause counts as two ticks: the process itself was suspended."""


@dataclass(eq=False)
class DaemonTask(Generic[T]):
    """One blocking call and its result."""

    call: Callable[[], T]
    limit: float
    """Seconds from its start for which `run_tasks` waits for it."""
    spent: float = 0.0
    """Seconds that `run_tasks` has waited for it."""
    started: float | None = None
    """Start time, monotonic seconds; None before the start."""
    ended: bool = False
    error: BaseException | None = None
    """The exception that the call raised."""
    _value: T | None = None

    @property
    def succeeded(self) -> bool:
        """True if the call has returned a value."""
        return self.ended and self.error is None

    @property
    def value(self) -> T:
        """The result of the call; valid once it has succeeded."""
        return cast(T, self._value)

    def start(self) -> None:
        """Start the call in its own daemon thread."""
        self.started = time.monotonic()
        _start_thread(self.run, [self])

    def run(self) -> None:
        """Run the call in this thread and store its result or exception."""
        self.started = time.monotonic()
        try:
            self._value = self.call()
        except BaseException as error:  # even SystemExit or a cancellation ends this call only
            self.error = error
        self.ended = True


async def run_tasks(tasks: Iterable[DaemonTask[Any]]) -> None:
    """Run the tasks in order, and return when each has ended or exceeded its limit.

    Tasks that already run are waited for. A call that exceeds its limit continues in its thread. A cancellation ends
    the wait at once, and tasks that have not started never run.
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
            with suppress(RuntimeError):  # the loop is closed: nobody is waiting
                loop.call_soon_threadsafe(all_ended.set)

    if waiting:
        _start_thread(work, waiting)
    try:
        while remaining := [task.limit - task.spent for task in tasks if not task.ended and task.spent < task.limit]:
            began = time.monotonic()
            try:
                async with asyncio.timeout(min(TICK, *remaining)):
                    await all_ended.wait()
            except TimeoutError:
                pass
            running = [task for task in tasks if task.started is not None and not task.ended]
            for task in running:
                task.spent += min(time.monotonic() - max(began, task.started or began), 2 * TICK)
            if waiting and running and all(task.spent >= min(GRACE, task.limit) for task in running):
                _start_thread(work, waiting)
    finally:
        waiting.clear()


def _start_thread(work: Callable[[], None], tasks: Iterable[DaemonTask[Any]]) -> None:
    try:
        threading.Thread(target=work, name="nexus-daemon-task", daemon=True).start()
    except RuntimeError as error:  # no more threads
        for task in list(tasks):
            task.error, task.ended = error, True
