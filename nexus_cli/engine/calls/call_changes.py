"""Follow the files that the calls of one session change: their names for the turn, their bytes for undo (`undo/`)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.config.paths import places
from nexus_cli.core.message import ToolResult
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.core.tool import Effect, ToolContext
from nexus_cli.permission.call_decision import CallDecision
from nexus_cli.permission.run_limits import CHANGES

if TYPE_CHECKING:
    from nexus_cli.context.manager import ContextManager
    from nexus_cli.engine.calls.edit_checks import EditChecks
    from nexus_cli.engine.requests.control import Control
    from nexus_cli.engine.requests.notices import Notices
    from nexus_cli.undo.follow_changes import BegunStep, ChangeJournal, StepOwner

UNSAVED = "this session is not saved, so undo cannot restore its changes"
SECONDS_STOPPED = 0.3
"""Seconds that a stopped turn waits for the names of the files that its command changed; they are recorded later."""
EARLY_SECONDS = 0.3
"""Seconds after the start of the first turn at which the project is looked at: the request has gone out by then."""


@dataclass
class CallChanges:
    """The changes of the calls of one session."""

    session: str = ""
    """The session whose undo takes the changes back; "" to find their names only."""
    turn: Callable[[], int] = lambda: 1
    """Returns the number of the person's newest message in that session."""
    prefix: str = ""
    """The worker that made the changes, for people: `w1: `."""
    jobs: Callable[[], tuple[str, Path] | None] = lambda: None
    """Returns what the running jobs are called, and their project; None if none runs."""
    added: Callable[[], Sequence[Path]] = tuple
    """Returns the added folders, which are followed as the project is."""
    max_mb: int = 2000
    """Setting `undo.max_mb`."""
    max_file_mb: int = 200
    """Setting `undo.max_file_mb`."""
    requires: bool = False
    """Setting `undo.require`."""
    tell: TakeText = lambda line: None
    """Shows a line to the person."""
    make_checks: Callable[[], EditChecks | None] = lambda: None
    """Makes the checks of edits at the first one; None without checks."""
    not_covered: dict[str, str] = field(default_factory=dict)
    """What undo does not cover of the commands of this turn, each path with the reason."""
    _checks: EditChecks | None = None
    _number: int = 0
    """Number of the turn, 0 until its first change: a server is asked once a turn."""
    _journal: ChangeJournal | None = None
    _warned: set[str] = field(default_factory=set)
    """What the person was told that undo will not cover."""
    _interrupted_files: set[str] = field(default_factory=set)
    """Files that a stopped command, or a tool that failed, changed."""
    _unfinished_looks: set[asyncio.Future[list[str]]] = field(default_factory=set)
    """Looks after stopped commands that still run."""
    _job_look: asyncio.Future[BegunStep] | None = None
    """The look before what jobs change in this turn."""
    _early_look: asyncio.TimerHandle | None = None
    """The look that is begun while the model answers."""
    _making: threading.Lock = field(default_factory=threading.Lock)

    def begin_turn(self) -> None:
        """Count the turns anew at the next change, and follow the jobs that run."""
        self._number = 0
        if jobs := self.jobs():
            self.begin_jobs(*jobs)

    def look_early(self, project: Path) -> None:
        """Look at the project in a moment, once, in a thread that no turn and no exit waits for: the look before the
        first command then finds little new."""
        if self.session and not self.prefix and self._early_look is None:
            self._early_look = asyncio.get_running_loop().call_later(EARLY_SECONDS, self._start_early, project)

    def _start_early(self, project: Path) -> None:
        roots = [project, *self.added()]
        with suppress(RuntimeError):  # no more threads
            threading.Thread(target=lambda: self.journal.look_early(roots), name="early look", daemon=True).start()

    def begin_jobs(self, label: str, project: Path) -> asyncio.Future[BegunStep]:
        """Look at the project, if no job ran before: changes until `end_jobs` that no call made are those of the jobs
        or the person.

        Between two turns nothing is followed: changes then are more likely the person's own.
        """
        if self._job_look is None:
            begin = asyncio.to_thread(self.journal.begin, self._owner(), label, "", project, self.added(), beside=True)
            self._job_look = asyncio.ensure_future(begin)
        return self._job_look

    async def end_jobs(self) -> list[str]:
        """Look again; return the names of the files that jobs changed since `begin_jobs`."""
        begins, self._job_look = self._job_look, None
        return [] if begins is None else await asyncio.to_thread(self.journal.end, await begins)

    def turn_number(self) -> int:
        """Return the number of the turn that undo names, 0 without a session."""
        if self.session and not self._number:
            self._number = self.turn()
        return self._number

    def report_to(self, parent: CallChanges, worker: str) -> None:
        """Let the undo of the parent's session take back what this session, a worker of it, changes."""
        self.session, self.turn, self.prefix = parent.session, parent.turn_number, f"{worker}: "

    def pop_interrupted_files(self) -> tuple[str, ...]:
        """Remove and return the files that stopped commands and failed tools changed."""
        names, self._interrupted_files = tuple(sorted(self._interrupted_files)), set()
        return names

    async def run(
        self, decision: CallDecision, context: ToolContext, work: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run a call with `work`; add the changed files to the result of a command that may write."""
        tool, profile, subject = decision.checked.tool, decision.profile, decision.checked.subject
        label = f"{tool.name} {subject}".rstrip()
        command = str(decision.checked.arguments.get(tool.subject, "")) or subject
        if not self.session and tool.effect in CHANGES and not tool.server and profile != "read":
            self._notify_once(UNSAVED)
        if tool.effect is Effect.EDIT and self.session:
            return await self._run_edit(label, context, work)
        if tool.effect is not Effect.RUN or tool.server or profile == "read":
            return await work()
        if not profile:
            self._notify_outside(command, context.project)
        result, names = await self.follow(label, context.call_id, context.project, work, command)
        return replace(result, changed=(*result.changed, *names))

    async def follow(
        self, label: str, call: str, project: Path, work: Callable[[], Awaitable[T]], command: str = ""
    ) -> tuple[T, list[str]]:
        """Run `work` between two looks at a project; return its result and the names of the changed files.

        If it is a `command`, changes that neither it nor its output explains are noted as perhaps the person's.
        """
        journal, owner = self.journal, self._owner()
        if self._unfinished_looks:
            await asyncio.wait(self._unfinished_looks)
        begins = asyncio.ensure_future(asyncio.to_thread(journal.begin, owner, label, call, project, self.added()))
        try:
            begun = await asyncio.shield(begins)
        except asyncio.CancelledError:
            self._collect_late_look(asyncio.ensure_future(_abandon(journal, begins)))
            raise
        for begun_step in (begun, *begun.beside):
            base = "" if begun_step is begun else f"{begun_step.step.root}/"
            self._notify_uncovered({f"{base}{path}": why for path, why in begun_step.not_covered.items()})
        try:
            result = await work()
        except Exception:  # a bug in a tool
            self._interrupted_files.update(await self._finish(asyncio.to_thread(journal.end, begun, command)))
            raise
        except BaseException:
            await self._finish_stopped_command(journal, begun, command)
            raise
        output = result.full or result.text if isinstance(result, ToolResult) else ""
        return result, await self._finish(asyncio.to_thread(journal.end, begun, command, output))

    async def _finish(self, recording: Coroutine[Any, Any, list[str]]) -> list[str]:
        """Record a change, for which `aclose` waits if the call is stopped meanwhile."""
        task = asyncio.ensure_future(recording)
        self._collect_late_look(task)
        return await asyncio.shield(task)

    def _notify_uncovered(self, not_covered: Mapping[str, str]) -> None:
        """Record what undo will not cover, and notify the person of each path once."""
        from nexus_cli.undo.coverage import REBUILT, describe_uncovered  # noqa: PLC0415  (the first change)

        self.not_covered |= {path: why for path, why in not_covered.items() if self.session and why != REBUILT}
        new = {path: why for path, why in not_covered.items() if path not in self._warned}
        self._warned.update(new)
        if self.session and (line := describe_uncovered(new)):
            self.tell(line)

    def _notify_outside(self, command: str, project: Path) -> None:
        """Tell the person that undo covers nothing outside of the project and added folders."""
        from nexus_cli.undo.coverage import OUTSIDE, names_outside  # noqa: PLC0415  (the first change)

        roots = [str(path) for path in (project, *self.added())]
        if self.session and names_outside(command, str(project), roots):
            self._notify_once(OUTSIDE)

    def _notify_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            self.tell(line)

    async def find_uncovered(self, decision: CallDecision, project: Path) -> str:
        """Return the part of a command's changes that undo will not cover, "" if it covers all."""
        tool = decision.checked.tool
        if not self.session or tool.effect is not Effect.RUN or tool.server or decision.profile == "read":
            return ""
        from nexus_cli.undo.coverage import describe_uncovered  # noqa: PLC0415  (the first change)

        return describe_uncovered(await asyncio.to_thread(self.journal.find_uncovered, project))

    async def _finish_stopped_command(self, journal: ChangeJournal, begun: BegunStep, command: str) -> None:
        """Look again after a command that was stopped, without waiting for it longer than `SECONDS_STOPPED`."""
        task = asyncio.get_running_loop().run_in_executor(None, journal.end, begun, command)
        self._collect_late_look(task)
        waits = asyncio.ensure_future(asyncio.wait([task], timeout=SECONDS_STOPPED))
        while not waits.done():
            try:
                await asyncio.shield(waits)
            except asyncio.CancelledError:
                continue
        if task.done():
            self._interrupted_files.update(task.result())

    def _collect_late_look(self, task: asyncio.Future[list[str]]) -> None:
        self._unfinished_looks.add(task)
        task.add_done_callback(self._unfinished_looks.discard)

    async def _run_edit(
        self, label: str, context: ToolContext, work: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        journal, owner, targets = self.journal, self._owner(), list(context.targets.values())
        self._checks = self._checks or self.make_checks()
        if self._checks is not None:
            await self._checks.look_before(targets)
        before = await asyncio.to_thread(journal.read_targets, targets)
        if why := await asyncio.to_thread(journal.find_unkept, before):
            return ToolResult(error=why, ran=False)
        begin = asyncio.to_thread(journal.begin_edit, owner, label, context.call_id, context.project, before)
        begun = asyncio.ensure_future(begin)
        has_failed = False
        try:
            await asyncio.shield(begun)  # what was noted has to be ended
            return await work()
        except Exception:  # a bug in a tool
            has_failed = True
            raise
        finally:
            recording = asyncio.to_thread(journal.record_edit, context.project, await asyncio.shield(begun))
            names = await self._finish(recording)
            self._interrupted_files.update(names if has_failed else ())

    async def report_findings(self, context: ContextManager, notices: Notices, control: Control) -> None:
        """Run the checks of what a step has edited, and tell the model new findings."""
        if self._checks is not None:
            await self._checks.report(context, notices, control)

    async def aclose(self) -> None:
        """Wait until the changes of stopped commands and jobs are recorded, and `close`."""
        if self._checks is not None:
            await self._checks.aclose()
        await self.end_jobs()
        if self._unfinished_looks:
            await asyncio.wait(self._unfinished_looks)
        self.close()

    def close(self) -> None:
        """Remove the records that are kept in case the process is killed."""
        if self._early_look is not None:
            self._early_look.cancel()
        if self._journal is not None and not self._unfinished_looks:
            self._journal.close()
            self._journal = None

    @property
    def journal(self) -> ChangeJournal:
        """The journal, made at its first use."""
        with self._making:
            if self._journal is None:
                from nexus_cli.undo.follow_changes import ChangeJournal  # noqa: PLC0415  (the first change)

                most, most_file = (megabytes * 1_000_000 for megabytes in (self.max_mb, self.max_file_mb))
                self._journal = ChangeJournal(places().data, bool(self.session), most, most_file)
            return self._journal

    def _owner(self) -> StepOwner:
        from nexus_cli.undo.follow_changes import StepOwner  # noqa: PLC0415  (the first change)

        return StepOwner(self.session, self.turn_number(), self.prefix)


async def _abandon(journal: ChangeJournal, begins: asyncio.Future[BegunStep]) -> list[str]:
    """End a step whose command was stopped before it began."""
    return await asyncio.to_thread(journal.end, await begins)
