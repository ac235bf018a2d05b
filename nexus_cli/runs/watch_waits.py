"""Watch the conditions that no process signals: files, processes, answers of servers, time.

Times are by the clock of the database. Each condition is checked at growing intervals, up to a bound.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nexus_cli.core.clock import utc_now
from nexus_cli.core.run import PROVIDER, Run, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.tools.wait_conditions import POLLED, look, this_machine

GROWTH = 1.2
"""Factor by which the time between two checks grows."""
PATIENCE = 0.5
"""Seconds after which a check continues in the background, for example if a server does not answer."""
AT_ONCE = 32
"""Checks at the same time."""


@dataclass
class _PollSchedule:
    """The next check of a condition by the monotonic clock, and the interval after it."""

    next: float
    seconds: float


@dataclass
class WaitWatch:
    """The checks of one process for the waits of one ledger."""

    _paces: dict[tuple[int, str], _PollSchedule] = field(default_factory=dict)
    """By run and condition."""
    open: dict[tuple[int, str], asyncio.Task[None]] = field(default_factory=dict)
    """Unfinished checks, by the keys of `_paces`."""
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE))

    async def look(self, ledger: Ledger, only: int | None = None) -> float | None:
        """Signal runs whose wait is over. Return the seconds until the next check, None: at a change. Slow checks
        continue in `open`."""
        waiting = [run for run in await asyncio.to_thread(ledger.runs.waiting) if only in (None, run.key)]
        keys = {_key(run) for run in waiting}
        self._paces = {key: pace for key, pace in self._paces.items() if key in keys}
        present = ledger.runs.now()
        for run in waiting:
            self._look_at(ledger, run, present)
        if self.open:
            finished, _ = await asyncio.wait(self.open.values(), timeout=PATIENCE)
            self.open = {key: task for key, task in self.open.items() if task not in finished}
            for task in finished:
                task.result()
        times = [run.waits.until - present for run in waiting if run.waits and run.waits.until is not None]
        times += [pace.next - time.monotonic() for key, pace in self._paces.items() if key not in self.open]
        return max(0.0, min(times)) if times else None

    def close(self) -> None:
        """Abandon the unfinished checks."""
        for task in self.open.values():
            task.cancel()
        self.open.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look_at(self, ledger: Ledger, run: Run, present: float) -> None:
        wait, key = run.waits, _key(run)
        if wait is None:
            return
        is_over = wait.until is not None and wait.until <= present
        if key not in self.open and not is_on_other_machine(ledger, run) and self._is_due(run, wait):
            self.open[key] = asyncio.create_task(self._check_in_thread(ledger, run, wait, is_over))
        elif is_over:
            self._end_wait(ledger, run, wait)

    async def _check_in_thread(self, ledger: Ledger, run: Run, wait: Wait, is_over: bool) -> None:
        came = await asyncio.get_running_loop().run_in_executor(self._threads, look, wait.kind, wait.value)
        if came is not None:
            ledger.runs.signal_wait(run, wait.kind, came, utc_now())
        elif is_over:
            self._end_wait(ledger, run, wait)

    def _end_wait(self, ledger: Ledger, run: Run, wait: Wait) -> None:
        """Signal that the time of a wait has come, or its time-out has passed."""
        has_come = wait.kind == "time" and wait.until == wait.value.get("at", wait.until)
        kind = wait.kind if has_come or wait.kind == PROVIDER else "timeout"
        ledger.runs.signal_wait(run, kind, {"at": wait.until}, utc_now())

    def _is_due(self, run: Run, wait: Wait) -> bool:
        """True if a condition is due for a check: at once, then at its pace."""
        if wait.kind not in POLLED:
            return False
        first, most = POLLED[wait.kind]
        pace = self._paces.setdefault(_key(run), _PollSchedule(time.monotonic(), first))
        if time.monotonic() < pace.next:
            return False
        pace.next, pace.seconds = time.monotonic() + pace.seconds, min(most, pace.seconds * GROWTH)
        return True


def is_on_other_machine(ledger: Ledger, run: Run) -> bool:
    """True if a run is another role's, or its folder or condition is at another machine that shares the ledger."""
    if not ledger.db.is_shared:
        return False
    machine, folder = run.waits.value.get("machine") if run.waits else None, run.options.get("folder")
    is_far = machine not in (None, this_machine()) or bool(folder and not os.path.isdir(folder))
    return is_far or not ledger.runs.is_own(run)


def _key(run: Run) -> tuple[int, str]:
    return run.key, repr(run.waits)
