"""Looks at what runs wait for that nobody signals: files, processes, answers of servers, time.

Times are by the clock of the database. Each condition is looked at ever less often, up to a bound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.run import Run, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.tools.wait_conditions import POLLED, look

GROWTH = 1.2
"""Factor by which the time between two looks grows."""


@dataclass
class _Pace:
    """When a condition is looked at next, by the monotonic clock, and how long after that again."""

    next: float
    seconds: float


@dataclass
class WaitWatch:
    """The looks of one process at the waits of one ledger."""

    monotonic: Callable[[], float] = time.monotonic
    _paces: dict[tuple[int, str], _Pace] = field(default_factory=dict)
    """By run, and what it waits for."""

    async def look(self, ledger: Ledger, only: int | None = None) -> float | None:
        """Signal every run whose wait is over, or one of them; return the seconds after which to look again, None: at
        a change."""
        waiting = [run for run in await asyncio.to_thread(ledger.runs.waiting) if only in (None, run.key)]
        keys = {_key(run) for run in waiting}
        self._paces = {key: pace for key, pace in self._paces.items() if key in keys}
        if not waiting:
            return None
        present = ledger.runs.now()
        await asyncio.gather(*(self._look_at(ledger, run, present) for run in waiting))
        times = [run.waits.until - present for run in waiting if run.waits and run.waits.until is not None]
        times += [pace.next - self.monotonic() for pace in self._paces.values()]
        return max(0.0, min(times)) if times else None

    async def _look_at(self, ledger: Ledger, run: Run, present: float) -> None:
        wait = run.waits
        if wait is None:
            return
        if self._is_due(run, wait) and (came := await asyncio.to_thread(look, wait.kind, wait.value)) is not None:
            ledger.runs.signal_wait(run, wait.kind, came, _now())
        elif wait.until is not None and wait.until <= present:
            kind = "time" if wait.kind == "time" else "timeout"
            ledger.runs.signal_wait(run, kind, {"at": wait.until}, _now())

    def _is_due(self, run: Run, wait: Wait) -> bool:
        """True if a condition is to be looked at now: at once, then at its pace."""
        if wait.kind not in POLLED:
            return False
        first, most = POLLED[wait.kind]
        pace = self._paces.setdefault(_key(run), _Pace(self.monotonic(), first))
        if self.monotonic() < pace.next:
            return False
        pace.next, pace.seconds = self.monotonic() + pace.seconds, min(most, pace.seconds * GROWTH)
        return True


def _key(run: Run) -> tuple[int, str]:
    return run.key, repr(run.waits)


def _now() -> str:
    return format_utc(local_now())
