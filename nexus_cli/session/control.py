"""Control a running turn from outside: steer it, stop it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Control:
    """The handle between a session and its running turn."""

    steering: deque[str] = field(default_factory=deque)
    """Words that wait for the end of the current batch."""
    task: asyncio.Task[None] | None = None
    deadline: float | None = None
    """When the turn's time limit passes, by the monotonic clock; None without a limit."""
    stopped: str = ""
    """Why the turn was stopped: `cancel`, `timeout`, or "" while it runs."""

    @property
    def running(self) -> bool:
        """True if there is something to stop."""
        return self.task is not None and not self.task.done()

    def stop(self, why: str) -> None:
        """Stop the running turn; the first reason counts."""
        if self.task is not None and self.running and not self.stopped:
            self.stopped = why
            self.task.cancel()

    def break_in(self, why: str) -> None:
        """Raise `CancelledError` in the turn from a signal handler; nothing where other code runs."""
        if self.running and asyncio.current_task() is self.task:
            self.stopped = self.stopped or why
            raise asyncio.CancelledError
