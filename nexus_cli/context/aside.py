"""Work of others in daemon threads, bounded in time: what hangs there keeps neither a turn nor the end of the process.

Each piece has a thread, and for coroutines an event loop, to itself as long as it runs: one that blocks takes nobody
else's time, and keeps its thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TICK = 0.1
"""Seconds from one look at the clock to the next. Where the waiting loop itself was held up for longer, that counts as
a tick: nobody pays for time in which nobody could run."""

MOST_IDLE = 16
"""Threads, and loops, that are kept for later."""


class Aside(Generic[T]):
    """One piece of work that has begun."""

    def __init__(self, work: Callable[[Aside[T]], T]) -> None:
        """`work` is called at once, in a thread of its own; a coroutine it gives to `drive`."""
        self._result: Future[T] = Future()
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._stopped = False
        try:
            _begin(lambda: self._run(work))
        except RuntimeError as error:  # no more threads
            self._result.set_exception(error)

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._result.done()

    @property
    def error(self) -> BaseException | None:
        """What it raised, None while it runs and where it ended well."""
        return self._result.exception() if self.done else None

    @property
    def value(self) -> T:
        """What it gave, once it has ended well."""
        return self._result.result(0)

    def stop(self) -> None:
        """Cancel the coroutine that it drives; what blocks its thread goes on unheard."""
        with self._lock:
            self._stopped = True
            if self._stop is not None:
                self._stop()

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What `work` gives, run in this thread; what it hands to threads is done here, too."""
        loop = _loop()
        try:
            task = loop.create_task(work)
            with self._lock:
                self._stop = lambda: _tell(loop, task.cancel)
                if self._stopped:
                    task.cancel()
            return loop.run_until_complete(task)
        finally:
            with self._lock:
                self._stop = None
            _give_back(loop)

    def then(self, call: Callable[[], None]) -> None:
        """Call this, in whatever thread, when the work has ended."""
        self._result.add_done_callback(lambda _: call())

    def _run(self, work: Callable[[Aside[T]], T]) -> None:
        try:
            self._result.set_result(work(self))
        except BaseException as error:  # a seam: also a cancellation or an exit ends only the thread that it came in
            self._result.set_exception(error)


async def within(seconds: Mapping[Aside[Any], float]) -> None:
    """Wait until each of these has ended or had its time."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    for one in seconds:
        one.then(lambda: _tell(loop, woken.set))
    spent = 0.0
    while left := [bound - spent for one, bound in seconds.items() if not one.done and spent < bound]:
        began = loop.time()
        try:
            async with asyncio.timeout(min(TICK, *left)):
                await woken.wait()
        except TimeoutError:
            pass
        woken.clear()
        spent += min(loop.time() - began, 2 * TICK)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        pass  # the loop has ended: nobody waits any more


class _Worker:
    """A daemon thread that does one thing after another, and waits between them."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="nexus-aside", daemon=True).start()

    def _work(self) -> None:
        while True:
            self.jobs.get()()
            if len(_free) >= MOST_IDLE:
                return
            _free.append(self)


_free: list[_Worker] = []
"""Threads that wait for work: starting one, like making a loop, costs more than most reads."""
_idle: list[asyncio.AbstractEventLoop] = []
"""Loops that nobody runs."""
_parents: list[asyncio.AbstractEventLoop] = []


def _alone() -> None:
    """A forked process has neither the threads of its parent nor the right to its loops: closing one here would take
    it from the parent too."""
    _free.clear()
    _parents.extend(_idle)
    _idle.clear()


os.register_at_fork(after_in_child=_alone)


def _begin(job: Callable[[], None]) -> None:
    try:
        worker = _free.pop()
    except IndexError:
        worker = _Worker()
    worker.jobs.put(job)


def _loop() -> asyncio.AbstractEventLoop:
    try:
        return _idle.pop()
    except IndexError:
        loop = asyncio.new_event_loop()
        loop.set_default_executor(_Here())
        return loop


def _give_back(loop: asyncio.AbstractEventLoop) -> None:
    """Keep a loop for the next; one that something still waits in is closed."""
    if asyncio.all_tasks(loop) or len(_idle) >= MOST_IDLE:
        loop.close()
    else:
        _idle.append(loop)


class _Here(ThreadPoolExecutor):
    """Does at once, in the thread of the caller, what it is given."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # as in an executor: for who waits for the result
            future.set_exception(error)
        return future
