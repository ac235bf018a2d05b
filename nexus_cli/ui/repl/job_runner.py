"""What runs in a REPL: one piece of work at a time, and small things beside it. What it is for is the REPL's business.

Whatever fails in it becomes a line for the person.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.session.faults import internal
from nexus_cli.ui.render.slash_names import typed_here

Told = Callable[[str, str], None]
"""Takes a line for the person and its role."""
WIND_UP = 10.0
"""Seconds that the running work has to settle at the end."""


@dataclass
class Work:
    """What runs now."""

    kind: str
    """`turn`, `shell`, `command`, or `busy`: a command that lets the session work."""
    what: str
    began: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None
    stopped: int = 0
    """How often the person wanted it to end."""

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began


class Worker:
    """Runs work in tasks of the loop."""

    def __init__(self, told: Told, ended: Callable[[Work], None], cancel: Callable[[], bool]) -> None:
        """`ended` is called with the piece of work that is over; `cancel` stops the session, if it is at work."""
        self._told = told
        self._ended = ended
        self._cancel = cancel
        self._beside: set[asyncio.Task[None]] = set()
        self.now: Work | None = None
        self.waits = False
        """What runs waits for the person."""
        self.guard: AbstractContextManager[object] = nullcontext()
        """Entered around everything that runs."""

    @property
    def kind(self) -> str:
        """The kind of what runs, "" when nothing does."""
        return self.now.kind if self.now is not None else ""

    def begin(self, kind: str, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` run as the one thing that runs now."""
        made = self.now = Work(kind, what)
        made.task = asyncio.create_task(self._guarded(work))
        made.task.add_done_callback(self._over)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` run beside what runs now."""
        task = asyncio.create_task(self._guarded(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """Let `work` of the session run within the present command, as something that Ctrl+C stops; then it raises
        `NexusError("aborted", ...)` that names it."""
        now = self.now
        if now is None or now.kind != "command":
            await work
            return
        before = now.kind, now.what
        now.kind, now.what, now.began = "busy", what, time.monotonic()
        try:
            await work
        except NexusError as error:
            if error.kind != "aborted":
                raise
            raise NexusError("aborted", f"{what} was stopped", "what was done by then is kept") from error
        finally:
            now.kind, now.what = before

    def stop(self) -> None:
        """Let what runs settle and end; what is done is kept."""
        if self.now is not None and self.now.task is not None and not self._cancel():
            # A task that is cancelled before its first step would never know what it had to give back.
            asyncio.get_running_loop().call_soon(self.now.task.cancel)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What runs waits for the person meanwhile."""
        self.waits = True
        try:
            yield
        finally:
            self.waits = False

    async def settle(self) -> None:
        """End everything and wait for it, within bounds."""
        for task in self._beside:
            task.cancel()
        work = self.now
        if work is not None and work.task is not None and not work.task.done():
            self.stop()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(work.task), WIND_UP)

    def _over(self, task: asyncio.Task[None]) -> None:
        work, self.now = self.now, None
        if work is not None:
            self._ended(work)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            with self.guard:
                await work
        except NexusError as error:
            self._told(typed_here(error.line), "warn" if error.kind == "aborted" else "error")
        except asyncio.CancelledError:
            self._told("stopped", "dim")
        except Exception as bug:  # the last seam: a traceback never reaches a person
            self._told(internal(bug).line, "error")
