"""The background commands of one session (`bash` with `background`): start, read, write, wait, stop, report.

They end with the session. Their starts and ends are memos, from which a resumed session reports how they ended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from nexus_cli.core.duration import format_duration
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.entry import MemoSource
from nexus_cli.core.errors import NexusError, UsageError, reason_of
from nexus_cli.core.event import Notice
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, to_json_value
from nexus_cli.core.memo_kinds import JOB
from nexus_cli.core.message import ToolResult
from nexus_cli.core.running_workers import CLOSED, ENDED, RUNNING, STOPPED
from nexus_cli.core.services import Jobs
from nexus_cli.core.tool import CommandSandbox, ToolContext
from nexus_cli.session.job_ports import JobPorts
from nexus_cli.tools.background_process import AdoptedProcess, BackgroundProcess
from nexus_cli.tools.listeners import is_own_address

if TYPE_CHECKING:
    from nexus_cli.engine.calls.call_changes import CallChanges
    from nexus_cli.engine.requests.engine import Engine
    from nexus_cli.session.base_session import BaseSession
    from nexus_cli.tools.process import ProcessResult

MOST = 16
"""Most jobs that run at the same time."""
_GRACE = 0.5
"""Seconds that a start waits for an early end, such as a misspelt command or a port in use."""
_PATIENCE = 1.0
"""Seconds that a read waits for output."""
_PORT_POLL_SECONDS = 1.0
"""Seconds between two looks at the ports of jobs."""
_LINES, _CHARACTERS = 5, 400
"""Most last lines of output in the report of an end, and their characters."""
_MAX_LINES = 100
"""Most lines of output that the person is shown."""
_KEPT = 2_000
"""Most characters of output that are kept when a job ends."""
_NAME = 60
"""Most characters of a command in a list or a report."""


@dataclass(eq=False)
class BackgroundJob:
    """A background command."""

    json_fields: ClassVar = "id command state status seconds"
    id: str
    command: str
    unconfined: bool = False
    network: bool = False
    """True if it uses the person's network."""
    state: str = RUNNING
    """`running`, `ended`, `stopped`, or `closed` with the session."""
    recorded: bool = False
    """True once a memo has it; False for a command that could not be started."""
    untold: str = ""
    """The report of its end for the model, until it is withdrawn."""
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    """Time that it ran; 0.0 while it runs."""
    process: BackgroundProcess | None = None
    waiting: int = 0
    """Number of calls that wait for its end, and will report it."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return _describe_command(self.command)

    @property
    def status(self) -> int | None:
        """Its exit status."""
        return self._result.status if self._result else None

    @property
    def restored(self) -> Sequence[str]:
        """Lines about the protected files that the guard restored behind it."""
        return self._result.restored if self._result else ()

    @property
    def _result(self) -> ProcessResult | None:
        return self.process.result if self.process else None

    def describe(self) -> str:
        """Return its state in a few words: `running for 2 min`, `ended after 3 s, exit status 1`."""
        if self.state == RUNNING:
            return f"running for {format_duration(max(1.0, time.monotonic() - self.began))}"
        error = self.process.error if self.process is not None else ""
        if error:
            return f"could not be started: {error}"
        late = ", time limit" if self._result and self._result.timed_out else ""
        return f"{_describe_end(self.state, self.seconds, self.status)}{late}"

    def to_json(self) -> JsonDict:
        """Return its row, see `Jobs.rows`."""
        seconds = self.seconds if self.state != RUNNING else time.monotonic() - self.began
        return {**to_json_value(self), "seconds": round(seconds, 1)}


class JobObject(JsonOf[BackgroundJob]):
    """A background command of a session."""

    name: str
    """The command on one line, shortened."""
    seconds: float
    """How long it has run."""
    how: str
    """Its state in words."""


class SessionJobs(Jobs):
    """Implements `Jobs` for one session; made for the first job."""

    def __init__(self, session: BaseSession) -> None:
        self._session = session
        self._jobs: dict[str, BackgroundJob] = {}
        self._earlier: dict[str, JobObject] = {}
        """Jobs of earlier processes by their ids."""
        self._looks: set[asyncio.Task[None]] = set()
        """Looks after the last job that still run."""
        self._ports = JobPorts(self._session)
        self._watch: asyncio.Task[None] | None = None
        """Looks at the ports of running jobs."""
        self._changes.jobs = self._followed
        self._restore()

    def work_for(self, session: BaseSession) -> None:
        """Continue for a session that has replaced the previous one."""
        self._session = self._ports.session = session
        self._changes.jobs = self._followed

    @property
    def _engine(self) -> Engine:
        return self._session.engine

    @property
    def _changes(self) -> CallChanges:
        return self._session.dispatcher.call_changes

    @property
    def _next_id(self) -> str:
        return f"j{len(self._jobs) + len(self._earlier) + 1}"

    def _followed(self) -> tuple[str, Path] | None:
        job_list = ", ".join(f"{job_id} {self._jobs[job_id].name}" for job_id in self.running())
        return (f"job {job_list}", self._session.dispatcher.project_root) if job_list else None

    def running(self) -> list[str]:
        """Return the ids of the jobs that run."""
        return [job.id for job in list(self._jobs.values()) if job.state == RUNNING]  # a thread asks too

    def names(self) -> dict[str, str]:
        every = list(self._jobs.values())  # a thread asks too
        return {job.id: job.name for job in every if job.process is not None and not job.over.is_set()}

    def addresses(self) -> list[str]:
        return [f"{job} {' '.join(urls)}" for job in self._jobs if (urls := self._ports.urls(job))]

    # Calls

    def refuse_more(self) -> str:
        running = len(self.running())
        return f"{running} jobs are running (the maximum): stop a job" if running >= MOST else ""

    async def start(self, command: str, context: ToolContext, seconds: int | None) -> ToolResult:
        if why := self.refuse_more():
            return ToolResult(error=why, ran=False)
        job = BackgroundJob(self._next_id, command)
        self._jobs[job.id] = job
        loop = asyncio.get_running_loop()

        def ended() -> None:
            with suppress(RuntimeError):  # the loop has ended before the job
                loop.call_soon_threadsafe(self._end, job)

        try:
            sandbox = CommandSandbox(None, os.environ)
            if context.sandbox:
                sandbox = await asyncio.to_thread(context.sandbox)
            job.unconfined = sandbox.confinement is None
            job.network = not job.unconfined and sandbox.confinement.profile.network
            await asyncio.shield(self._changes.begin_jobs(f"job {job.id} {job.name}", context.project))
            job.process = BackgroundProcess(
                command,
                context.cwd,
                sandbox,
                seconds=seconds,
                ended=ended,
            )
        except (OSError, NexusError, asyncio.CancelledError) as error:
            del self._jobs[job.id]
            if isinstance(error, asyncio.CancelledError):
                raise
            why = reason_of(error)
            return ToolResult(error=f"the command could not be started: {why}", ran=False)
        notes = "".join(f"[sandbox: {note}]\n" for note in sandbox.notes)
        notes += f"{missing}\n" if (missing := sandbox.describe_missing(command, "")) else ""
        job.waiting += 1
        try:
            await _wait_for(job.over, _GRACE)
        finally:
            job.waiting -= 1
            if not job.over.is_set():
                self._record(job)
        if job.over.is_set() and job.process.error:
            del self._jobs[job.id]
            return ToolResult(error=f"the command could not be started: {job.process.error}", ran=False)
        if job.over.is_set():
            return ToolResult(f"{notes}{await self._report(job)}", status=job.status)
        self._watch_ports()
        await self._look(asks=True)
        line = f"job {job.id} runs in the background; you will be told when it ends."
        if not self._session.has_more_turns:
            line += " It is stopped when this turn ends; to wait for it, call `wait_for`."
        lines = [line, *self._ports.pop_new_ports(job.id)]
        return ToolResult(notes + "\n".join(f"[{line}]" for line in lines), job=job.id)

    async def adopt(self, command: str, context: ToolContext, process: AdoptedProcess, note: str) -> ToolResult:
        job = BackgroundJob(self._next_id, command, began=process.began, process=process)
        self._jobs[job.id] = job
        process.watch(lambda: self._end(job))
        self._record(job)
        begins = self._changes.begin_jobs(f"job {job.id} {job.name}", context.project)
        self._engine.control.emit_from_background(
            Notice(f"moved {job.id} to the background; /jobs lists it", warning=False)
        )
        self._watch_ports()
        await asyncio.shield(begins)
        text = await asyncio.to_thread(process.read_text)
        why = f"job {job.id} runs in the background, where the person sent it; you will be told when it ends"
        return ToolResult(f"{text}{note}[{why}]", job=job.id)

    async def manage(self, action: str, job: str, text: str) -> ToolResult:
        if action == "list":
            lines = ["  ".join((row["id"], row["how"], row["name"])) for row in self.describe_all()]
            return ToolResult("\n".join(lines) or "no jobs")
        found_job = self._find(job, reads=action == "read")
        if isinstance(found_job, ToolResult):
            return found_job
        if action == "write":
            return self._write(found_job, text)
        if action == "stop":
            await self._stop(found_job)
        elif found_job.state == RUNNING and found_job.process and not found_job.process.output.has_new:
            limit = time.monotonic() + _PATIENCE
            while time.monotonic() < limit and not (found_job.over.is_set() or found_job.process.output.has_new):
                await _wait_for(found_job.over, 0.05)
        return ToolResult(await self._report(found_job))

    async def wait(self, job: str, seconds: float | None) -> ToolResult:
        found_job = self._find(job, reads=True)
        if isinstance(found_job, ToolResult):
            return found_job
        found_job.waiting += 1
        try:
            await _wait_for(found_job.over, seconds)
        finally:
            found_job.waiting -= 1
        if not found_job.over.is_set():
            return ToolResult(f"[job {found_job.id} {found_job.describe()}]")
        return ToolResult(await self._report(found_job), status=found_job.status)

    def owns(self, address: str) -> bool:
        return bool(self.running()) and is_own_address(urlsplit(address).hostname or "")

    async def connect_to(self, address: str) -> Callable[[], socket.socket] | None:
        if not self.running():
            ends = "; ".join(f"job {job.id} {job.describe()}" for job in self._jobs.values())
            raise UsageError("no job is running", f"nothing listens at this address ({ends})")
        await self._look()
        parts = urlsplit(address)
        return self._ports.find(parts.port or (443 if parts.scheme == "https" else 80))

    async def end_step(self) -> None:
        if self.running():
            await self._look(asks=True)
            self._notify_ports()

    async def _look(self, *, asks: bool = False) -> None:
        """Look at the ports of running jobs; `asks`: the person may be asked to forward one."""
        running = {job_id: process for job_id in self.running() if (process := self._jobs[job_id].process)}
        await self._ports.look(running, asks=asks)

    def _notify_ports(self) -> None:
        self._engine.notices.tell(*self._ports.pop_new_ports())

    def _watch_ports(self) -> None:
        """Look at the ports of jobs as long as one runs."""

        async def watch() -> None:
            while self.running():
                await asyncio.sleep(_PORT_POLL_SECONDS)
                await self._look()
                if not self._engine.control.running:
                    self._notify_ports()

        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(watch())

    async def open_port(self, job: str) -> ToolResult:
        """Forward the ports of a job to the loopback of the person, who asks for it."""
        found_job = self._find(job)
        if isinstance(found_job, ToolResult):
            return found_job
        await self._look()
        await self._ports.open(found_job.id)
        lines = (
            line.replace("the person", "you") for line in self._ports.describe(found_job.id)
        )  # written for the model
        return ToolResult("\n".join(lines) or f"{found_job.id} is not listening on any port")

    def describe_all(self) -> list[JobObject]:
        """Return a row for each job, those of earlier processes first."""
        rows = [*self._earlier.values()]
        for job in list(self._jobs.values()):  # a thread asks
            how = " ".join((job.describe(), *self._ports.addresses(job.id)))
            rows.append(_job_row(job.to_json(), how))
        return rows

    async def show(self, job: str) -> ToolResult:
        """Return the last lines of a job and its state, for the person: the model still reads them as new."""
        found_job = self._find(job, reads=True)
        if isinstance(found_job, ToolResult) or found_job.process is None:
            return found_job if isinstance(found_job, ToolResult) else ToolResult("")
        lines = await asyncio.to_thread(found_job.process.last_lines, _MAX_LINES, _MAX_LINES * 200)
        return ToolResult("\n".join([*lines, f"[job {found_job.id} {found_job.describe()}]"]))

    async def stop(self, job: str) -> ToolResult:
        """Stop a job for the person, and tell the model."""
        found_job = self._find(job)
        if isinstance(found_job, ToolResult):
            return found_job
        was_running = found_job.state == RUNNING
        await self._stop(found_job)
        if was_running:
            self._engine.notices.keep("", f"the person stopped job {found_job.id} ({found_job.name})")
        return ToolResult(f"job {found_job.id} {found_job.describe()}")

    def _find(self, name: str, *, reads: bool = False) -> BackgroundJob | ToolResult:
        """Return a job by its id, without one the only one; else the error, or for who `reads` the output of a job of
        an earlier process."""
        running = self.running()
        if not name and len(running) == 1:
            return self._jobs[running[0]]
        if name in self._earlier:
            row = self._earlier[name]
            ended = f"job {name} ({row['name']}) {row['how']}"
            output = _newest_records(self._engine.conversation).get(name, {}).get("output")
            if output and reads:
                return ToolResult(f"{output}\n[{ended}]")
            return ToolResult(error=ended if output else f"{ended}; its output is not kept", ran=False)
        if job := self._jobs.get(name):
            return job
        ids = ", ".join(self._jobs) or "none"
        why = f"there is no job {name[:40]!r}. Jobs: {ids}" if name else f"the job id is missing. Jobs: {ids}"
        return ToolResult(error=why, ran=False)

    def find_command(self, action: str, job: str = "", text: str = "") -> JsonObject | None:
        """See `Jobs`. Input is a command in all but name: the job may be a shell."""
        background_job = self._find(job) if action == "write" else None
        if (
            not isinstance(background_job, BackgroundJob)
            or background_job.state != RUNNING
            or isinstance(background_job.process, AdoptedProcess)
        ):
            return None
        outside = {"outside": f"job {background_job.id} runs outside the sandbox"} if background_job.unconfined else {}
        return {
            "command": text,
            "background": True,
            "job": background_job.id,
            "network": background_job.network,
            **outside,
        }

    def _write(self, job: BackgroundJob, text: str) -> ToolResult:
        if job.state != RUNNING or job.process is None:
            return ToolResult(error=f"job {job.id} {job.describe()}", ran=False)
        why = job.process.write(text if text.endswith("\n") else f"{text}\n")
        return ToolResult(error=f"job {job.id}: {why}", ran=False) if why else ToolResult(f"[written to {job.id}]")

    async def _report(self, job: BackgroundJob) -> str:
        """Return the new output of a job and its state; a report of its end that waits is withdrawn."""
        text = await asyncio.to_thread(job.process.read_text) if job.process is not None else ""
        if job.untold:
            if job.untold in (waiting := self._engine.notices.waiting):
                waiting.remove(job.untold)
            job.untold = ""
            self._record(job)
        lines = [f"[sandbox: {line}]" for line in job.restored]
        return text + "\n".join([*lines, f"[job {job.id} {' '.join((job.describe(), *self._ports.urls(job.id)))}]"])

    # Ends

    def _end(self, job: BackgroundJob) -> None:
        """Note the end of a job, and report it to the model and the person."""
        job.seconds = time.monotonic() - job.began
        if job.state == RUNNING:
            job.state = ENDED
        job.over.set()
        self._ports.close(job.id)
        failed = job.process is not None and bool(job.process.error) and not job.recorded
        if not self.running():
            if self._watch is not None:
                self._watch.cancel()
            look = asyncio.get_running_loop().create_task(self._note_changes())
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)
        control = self._engine.control
        for line in job.restored[:_LINES]:
            control.emit_from_background(Notice(f"sandbox: {line}"))
        if job.state == ENDED and not failed:
            line = f"job {job.id} ({job.name}) {job.describe()}"
            if not job.waiting:
                control.emit_from_background(Notice(line, warning=bool(job.status)))
                last = job.process.last_lines(_LINES, _CHARACTERS) if job.process is not None else []
                for output_line in last if job.status else ():
                    control.emit_from_background(Notice(f"| {output_line}"))
                job.untold = f"{line}; last lines: {' / '.join(last)}" if last else line
                self._engine.notices.tell(job.untold)
        if not failed:
            self._record(job)

    async def _stop(self, job: BackgroundJob, state: str = STOPPED) -> None:
        if job.state == RUNNING and job.process is not None:
            job.state = state
            job.process.stop()
        if job.process is not None:
            await job.over.wait()

    async def _note_changes(self) -> None:
        """Count the files that jobs changed as changes of the turn."""
        names = await self._changes.end_jobs()
        self._session.dispatcher.changed.update(dict.fromkeys(names))

    async def end_turn(self) -> None:
        """Record the files that jobs changed in the turn. If no turn follows, stop all jobs, and say so."""
        if not self._session.has_more_turns:
            for line in await self.end_all():
                self._engine.control.emit_notice(line)
        await asyncio.gather(self._note_changes(), *self._looks)

    async def end_all(self) -> list[str]:
        """Stop all jobs; return a line for each that still ran."""
        still = [job for job in self._jobs.values() if job.state == RUNNING]
        await asyncio.gather(*(self._stop(job, CLOSED) for job in still))
        await asyncio.gather(*self._looks)
        return [f"job {job.id} ended with the session: {job.name}" for job in still]

    # Across processes

    def _record(self, job: BackgroundJob) -> None:
        job.recorded = True
        output = "\n".join(job.process.last_lines(_MAX_LINES, _KEPT)) if job.process and job.over.is_set() else ""
        value = {"session": self._session.id, **job.to_json(), "seconds": round(job.seconds, 1), "output": output}
        try:
            self._engine.conversation.memo(JOB, {**value, "untold": job.untold})
        except NexusError as error:  # the session was deleted meanwhile
            self._engine.control.emit_from_background(Notice(error.message))

    def _restore(self) -> None:
        """Load the jobs of earlier processes, and report those that ended with them."""
        conversation = self._engine.conversation
        self._earlier = {row["id"]: row for row in recorded_jobs(conversation)}
        for job_id, value in _newest_records(conversation).items():
            if value["state"] in (RUNNING, CLOSED) and not (value.get("untold") or value.get("told")):
                earlier = self._earlier[job_id]
                line = f"job {job_id} ({earlier['name']}) {earlier['how']} and is no longer running"
                self._engine.notices.tell(line)
                conversation.memo(JOB, {**value, "state": CLOSED, "untold": line})
                if value.get("killed"):  # nexus could not say so
                    self._engine.control.emit_from_background(Notice(line, warning=False))


def recorded_jobs(source: MemoSource, running: Container[str] = ()) -> list[JobObject]:
    """Return the jobs that a session has recorded. Those of an earlier process are closed, unless their session is one
    of `running`."""
    jobs = []
    for value in _newest_records(source).values():
        is_lost = value["state"] == RUNNING and value["session"] not in running
        jobs.append(_job_row({**value, "state": CLOSED} if is_lost else value))
    return jobs


def _newest_records(source: MemoSource) -> dict[str, JsonObject]:
    return {str(memo.value["id"]): memo.value for memo in source.memos(JOB)}


def _job_row(value: JsonObject, how: str = "") -> JobObject:
    row = {key: value.get(key) for key in BackgroundJob.json_fields.split()}
    row["seconds"] = row["seconds"] or 0.0
    return JobObject(row, name=_describe_command(str(value["command"])), how=how or _describe_earlier(value))


def _describe_end(state: str, seconds: float, status: int | None) -> str:
    """Return `ended after 3 s, exit status 1`."""
    return f"{state} after {format_duration(seconds)}{f', exit status {status}' if status is not None else ''}"


def _describe_earlier(value: JsonObject) -> str:
    """Return the state of a job of another process, from its newest memo. Older ones have no seconds."""
    state, seconds = value["state"], value.get("seconds")
    if state == ENDED:
        return _describe_end(ENDED, seconds, value["status"]) if seconds else f"ended, exit status {value['status']}"
    if state == STOPPED and seconds:
        return _describe_end(STOPPED, seconds, None)
    return RUNNING if state == RUNNING else "ended with the session"


def _describe_command(command: str) -> str:
    """Return a command on one line of at most `_NAME` characters, with escapes for those that cannot be seen."""
    printable = (char if char.isprintable() or char.isspace() else ascii(char)[1:-1] for char in command[: 2 * _NAME])
    return cut_at_word(one_line("".join(printable)), _NAME)


async def _wait_for(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, at most `seconds` if given."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
