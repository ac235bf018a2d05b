"""Run the work of a REPL: one job at a time, and small tasks in the background. A failure becomes a line on the
screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.commands import use_slash_names
from nexus_cli.config.crash_report import report_bug
from nexus_cli.core.errors import NexusError
from nexus_cli.core.progress import follow_progress
from nexus_cli.reports.text.command_names import NameCommands

ShowLine = Callable[[str, str], None]
"""Takes a line for the person and its role."""
USE_SESSION = ("turn", "busy", "command")
"""Kinds of jobs that use the session."""
SHUTDOWN_SECONDS = 10.0
"""Seconds that running work has to settle at the end."""


@dataclass
class Job:
    """The running job."""

    kind: str
    """`turn`, `shell`, `private` (a `!!` line), `command`, `offer`, or `busy`: a command that uses the session."""
    title: str
    task: asyncio.Task[None]
    began: float = field(default_factory=time.monotonic)
    share: float = 0.0
    """Share of the work that is done, from 0 to 1; 0 if it does not report any."""
    stopped: int = 0
    """Number of times that the person tried to stop it."""
    has_failed: bool = False
    """True once it has ended with an error."""

    @property
    def seconds(self) -> float:
        """Return the seconds since its start."""
        return time.monotonic() - self.began


class JobRunner:
    """Runs work in tasks of the loop."""

    def __init__(
        self,
        show_line: ShowLine,
        ended: Callable[[Job], None] = lambda job: None,
        cancel: Callable[[], bool] = lambda: False,
        name: NameCommands = use_slash_names,
    ) -> None:
        """`ended` is called with each finished job; `cancel` stops the session if it is active; `name` names commands
        in the line of an error."""
        self._show_line, self._ended, self._cancel, self._name = show_line, ended, cancel, name
        self._background: set[asyncio.Task[None]] = set()
        self.current: Job | None = None
        self.waits_for_user = False
        """True while the job waits for the person."""
        self._is_quiet = False
        """True once the end of a job is no stop of its work."""
        self.guard: AbstractContextManager[object] = nullcontext()
        """A context entered around all work."""

    @property
    def kind(self) -> str:
        """The kind of the running job, "" if there is none."""
        return self.current.kind if self.current is not None else ""

    def start(self, kind: str, title: str, work: Coroutine[Any, Any, object]) -> None:
        """Run `work` as the current job."""
        self.current = Job(kind, title, self._create_task(work))
        self.current.task.add_done_callback(self._over)

    def start_background(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        """Run `work` beside the current job; return its task."""
        task = self._create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def run_busy(self, title: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` of the session within the current command, so that Ctrl+C stops it; then raise
        `NexusError("aborted", ...)` with its name."""
        now = self.current
        if now is None or now.kind != "command":
            await work
            return
        before = now.kind, now.title
        now.kind, now.title, now.began = "busy", title, time.monotonic()

        def follow(share: float) -> None:
            now.share = share

        try:
            with follow_progress(follow):
                await work
        except NexusError as error:
            if error.kind != "aborted":
                raise
            raise NexusError("aborted", f"{title} stopped", "completed steps are kept") from error
        finally:
            (now.kind, now.title), now.share = before, 0.0

    def stop(self) -> None:
        """Let the current job settle and end; finished steps are kept."""
        works = self.kind in USE_SESSION and self._cancel()  # else the session works in the background
        if self.current is not None and not works:
            # A task that is cancelled before its first step could not return the messages it was given.
            asyncio.get_running_loop().call_soon(self.current.task.cancel)

    @contextmanager
    def wait_for_user(self) -> Iterator[None]:
        """Mark the job as waiting for the person within the block."""
        self.waits_for_user = True
        try:
            yield
        finally:
            self.waits_for_user = False

    async def settle(self, *, is_quiet: bool = False) -> None:
        """End all work and wait for it, within bounds; with `is_quiet` say nothing, as the work goes on elsewhere."""
        self._is_quiet = is_quiet
        background = [*self._background]
        for task in background:
            task.cancel()
        work = self.current
        if work is not None and not work.task.done():
            self.stop()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(work.task), SHUTDOWN_SECONDS)
        if background:  # they may have a message to keep
            await asyncio.wait(background, timeout=SHUTDOWN_SECONDS)

    def _over(self, task: asyncio.Task[None]) -> None:
        work, self.current = self.current, None
        if work is not None:
            self._ended(work)

    def _create_task(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        # If a task is cancelled before its first step, its inner coroutine would never be awaited.
        task.add_done_callback(lambda _: work.close())
        return task

    async def _guarded(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            with self.guard:
                await work
        except NexusError as error:
            self._show_failure(self._name(error.line), "warn" if error.kind == "aborted" else "error")
        except asyncio.CancelledError:
            if asyncio.current_task() not in self._background and not self._is_quiet:
                self._show_line("stopped", "dim")
        except Exception as bug:  # the last seam: a traceback never reaches a person
            self._show_failure(report_bug(bug).line, "error")

    def _show_failure(self, line: str, role: str) -> None:
        """Show the error of the running task, and note it if that is the current job."""
        self._show_line(line, role)
        if self.current is not None and asyncio.current_task() is self.current.task:
            self.current.has_failed = True
