"""What a session knows of its workers. What runs them is above this room, and is made when the first one is wanted."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers

H_contra = TypeVar("H_contra", contravariant=True)
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


class RunningWorker(Protocol):
    """One worker, as those see it who do not run it."""

    @property
    def report(self) -> str:
        """Its last words; "" before it has ended."""
        ...


class RunningWorkers(Workers, Protocol[H_contra]):
    """The workers of a session, as the session itself needs them; `H_contra` is the session."""

    def work_for(self, session: H_contra) -> None:
        """Go on for `session`, which has taken the place of the one before."""

    def running(self) -> list[str]:
        """Return the ids of those that have not ended."""
        ...

    def rows(self) -> list[dict[str, Any]]:
        """Return each worker as a value, oldest first: `id`, `session`, `task`, `state`, `doing`, `steps`, `seconds`,
        `tokens`, `cost_usd`, `changed`, `worktree`, `left`, `to_review`, `error`, and the id of
        the `call` that it came from."""
        ...

    def find(self, name: str) -> RunningWorker | None:
        """Return the worker of this id or session."""

    async def steer(self, name: str, text: str, *, wait: bool = True, source: str = "agent") -> ToolResult:
        """Say something to the worker of this id: to one that runs; let one go on that has ended, and return its
        report, or with `wait` False that it goes on in the background. `source` is whose words they are: `person` only
        where they typed them."""
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
