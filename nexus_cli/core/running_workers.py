"""The protocol of a session's workers, which the session and the rooms above it use; states of workers and jobs."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypedDict, TypeVar

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers

H_contra = TypeVar("H_contra", contravariant=True)
WAITING, RUNNING, ASKING, FINISHED, FAILED, STOPPED, UNKNOWN = (
    "waiting",
    "running",
    "asking",
    "finished",
    "failed",
    "stopped",
    "unknown",
)
"""States of a worker. `unknown`: its process ended before it did."""
ACTIVE_STATES = (WAITING, RUNNING, ASKING)
"""States of a worker that runs or waits."""
_STATE_TEXTS = {UNKNOWN: "interrupted: nexus exited"}
"""The states that people and models are told in other words."""
ENDED, CLOSED = "ended", "closed"
"""States of a job, besides `running` and `stopped`. `closed`: it ended with its session, and the model was not told."""

REPORTS = "[nexus: worker "
"""Beginning of a message that nexus sends with the reports of workers."""


def describe_state(state: str) -> str:
    """Return the state of a worker for people and models."""
    return _STATE_TEXTS.get(state, state)


class WorkerObject(TypedDict):
    """A worker of a session."""

    id: str
    """`w1`; `w1.1` for a worker of `w1`."""
    session: str
    """Empty before the run has a session."""
    task: str
    recipe: str
    state: str
    """`waiting`, `running`, `asking`, `finished`, `failed`, `stopped`; `unknown` if its process was killed."""
    doing: str
    """Its current activity."""
    steps: int
    seconds: float
    tokens: int
    cost_usd: float | None
    changed: list[str]
    worktree: str
    left: str
    """The changes in its worktree."""
    to_review: bool
    """True if its worktree has changes."""
    error: str


class RunningWorker(Protocol):
    """A worker."""

    @property
    def report(self) -> str:
        """The text of its last reply; "" before it has ended."""


class RunningWorkers(Workers, Protocol[H_contra]):
    """The workers of a session; `H_contra` is the type of the session."""

    def work_for(self, session: H_contra) -> None:
        """Continue for `session`, which has replaced the previous one."""

    def running(self) -> list[str]:
        """Return the ids of workers that have not ended."""

    def have_jobs(self) -> bool:
        """Return True if a background job of a worker runs."""

    def rows(self) -> list[JsonObject]:
        """Return each worker as JSON, oldest first: `id`, `session`, `task`, `state`, `doing`, `steps`, `seconds`,
        `tokens`, `cost_usd`, `changed`, `worktree`, `left`, `to_review`, `error`, and the id of its `call`."""

    def release(self) -> list[str]:
        """Let the workers that calls wait for work in the background; return their ids. The calls return at once, and
        the reports arrive like those of background workers."""

    def find(self, name: str) -> RunningWorker | None:
        """Return the worker with this id or session, None if there is none."""

    def close_review(self, name: str, outcome: str) -> None:
        """Record that a worker's worktree was removed, and the outcome for its changes: `applied` or `discarded`."""

    async def steer(self, name: str, text: str, *, wait: bool = True, source: str = "agent") -> ToolResult:
        """Send a message to a running worker, or continue one that has ended with it.

        Returns the report of a continued worker, or with `wait=False` a note that it runs in the background. `source`
        is the author: `person` only if they typed the text.
        """

    def set_level(self, level: str) -> None:
        """Set the permission level of running workers."""

    def end_after_step(self) -> list[asyncio.Task[None]]:
        """Let all workers end after their current step; return the tasks of those still running."""

    async def next_report(self) -> str:
        """Wait for a background worker to end and return its report for the model; "" if none runs."""

    def take_reports(self) -> str:
        """Return the unread reports of workers that `release` let go on and that have ended; "" if there are none."""

    async def aclose(self) -> None:
        """Stop all workers; their completed work is kept."""
