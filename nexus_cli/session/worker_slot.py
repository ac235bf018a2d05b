"""The place of a session's workers. What runs them is above this room, and is made when the first one is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers, WorkerTask

WORKER = "worker"
"""Memo of a session's lane: one of its workers as it is, written before it starts, when it has a session of its own
and when it ends."""
WAITING, RUNNING, ASKING, FINISHED, FAILED, STOPPED, UNKNOWN = (
    "waiting",
    "running",
    "asking",
    "finished",
    "failed",
    "stopped",
    "unknown",
)
"""States of a worker. `unknown`: the process of an earlier run ended while it worked."""
AT_WORK = (WAITING, RUNNING, ASKING)
"""Those of one that has not ended."""


class RunningWorkers(Workers, Protocol):
    """The workers of a session, as the session itself needs them."""

    session: Any
    """The `Session` that they work for."""

    def running(self) -> list[str]:
        """Return the ids of those that have not ended."""
        ...

    def rows(self) -> list[dict[str, Any]]:
        """Return each worker as a value, oldest first: `id`, `session`, `task`, `state`, `doing`, `steps`, `seconds`,
        `tokens`, `cost_usd`, `changed`, `worktree`, `left`, `to_review`, `error`, and the id of
        the `call` that it came from."""
        ...

    def find(self, name: str) -> Any:
        """Return the `Worker` of this id or session, or None."""

    async def steer(self, worker: Any, text: str, *, wait: bool = True, source: str = "agent") -> ToolResult:
        """Say something to a worker that runs; let one go on that has ended, and return its report, or with `wait`
        False that it goes on in the background. `source` is whose words they are: `person` only where they typed
        them."""
        ...

    def set_level(self, level: str) -> None:
        """Let the calls of running workers be decided at `level`."""

    def end_after_step(self) -> list[asyncio.Task[None]]:
        """Let all workers finish their step and begin no other; return the tasks of those that have not ended."""
        ...

    async def next_report(self) -> str:
        """Wait for a worker in the background and return what the model should know of it; "" if none runs."""
        ...

    async def aclose(self) -> None:
        """Stop all workers; what they did is kept."""


class WorkerSlot:
    """Implements `Workers` for one session."""

    def __init__(self, make: Callable[[Any], RunningWorkers]) -> None:
        self._make = make
        self.session: Any = None
        """The `Session`, set when it is made."""
        self.made: RunningWorkers | None = None
        """The workers, once one was wanted."""

    async def start(self, call_id: str, task: WorkerTask, stopped: Callable[[str], None]) -> ToolResult:
        """See `Workers`."""
        return await self.workers().start(call_id, task, stopped)

    async def manage(self, action: str, agent: str, text: str) -> ToolResult:
        """See `Workers`."""
        return await self.workers().manage(action, agent, text)

    def recover(self, call_id: str) -> ToolResult | None:
        """See `Workers`."""
        return self.workers().recover(call_id)

    def workers(self) -> RunningWorkers:
        """Return the workers, made at the first call."""
        if self.made is None:
            assert self.session is not None, "a tool is called in a session"
            self.made = self._make(self.session)
        return self.made

    def take_over(self, earlier: WorkerSlot) -> None:
        """Go on with the workers of `earlier`, of the same session until now."""
        self.made, earlier.made = earlier.made, None
        if self.made is not None and self.session is not None:
            self.made.session = self.session
