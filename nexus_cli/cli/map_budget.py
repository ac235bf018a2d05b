"""The dollar limit of a `nexus map` run: each running item has a part of it reserved, which its turn cannot exceed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Outcome

LEAST = 1e-9
"""Reserved in dollars if nothing is left: its turn is refused before its first request."""


class MapBudget:
    """Dollars spent and reserved; without a limit it reserves nothing."""

    def __init__(self, limit: float | None, jobs: int) -> None:
        self.error: NexusError | None = None
        """The error of every further item once the limit is reached."""
        self._limit, self._jobs = limit, jobs
        self._spent = self._dearest = 0.0
        self._reserved: list[float] = []
        self._turnstile = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def reserve(self, *, alone: bool) -> AsyncIterator[float | None]:
        """Reserve dollars for an item and yield them, None without a limit.

        It gets an equal part of what is left; if `alone` or if that may be too little, all that is left once no other
        item runs.
        """
        if self._limit is None:
            yield None
            return
        async with self._turnstile:
            share = self._left(self._limit) / max(1, self._jobs - len(self._reserved))
            if alone or share <= 2 * self._dearest:
                await self._idle.wait()
                share = self._left(self._limit)
            share = max(share, LEAST)
            self._reserved.append(share)
            self._idle.clear()
        try:
            yield share
        finally:
            self._reserved.remove(share)
            if not self._reserved:
                self._idle.set()

    def _left(self, limit: float) -> float:
        return limit - self._spent - sum(self._reserved)

    def spend(self, cost: float | None) -> None:
        """Add the cost of an item, within its reservation."""
        self._spent += cost or 0.0
        self._dearest = max(self._dearest, cost or 0.0)

    def refused(self, outcome: Outcome) -> bool:
        """Return True if the reservation was too small for the first request of a turn, so that nothing was sent."""
        error = outcome.error or {"kind": "", "message": ""}
        is_limit = error["kind"] == "limit" and "max_cost" in error["message"]
        return self._limit is not None and is_limit and not outcome.steps

    def end(self) -> None:
        """Let every further item fail: what is left does not pay for one."""
        rest = max(0.0, (self._limit or 0.0) - self._spent)
        why = f"${rest:.4f} is left and the next item needs more"
        self.error = NexusError(
            "limit", "not started: limit max_cost reached", why, "Continue with a higher --max-cost"
        )
