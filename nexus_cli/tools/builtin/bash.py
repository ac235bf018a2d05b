"""`bash`: run one shell command to its end, through `tools/process.py`, or begin one in the background.

The command runs in the sandbox and with the environment that permission decided on (`ToolContext.sandbox`).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from nexus_cli.config.command_records import UncheckedError
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Jobs
from nexus_cli.core.tool import CommandSandbox, ToolContext
from nexus_cli.tools.background_process import WITHOUT_TERMINAL, AdoptedProcess, OutputRing
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import NUL, decode_output
from nexus_cli.tools.output_text import LATIN, STYLE, decode_text
from nexus_cli.tools.pipe_statuses import describe_failed_part, record_pipe_statuses
from nexus_cli.tools.process import ProcessResult, find_shell
from nexus_cli.tools.process import run_process as run_process

DEFAULT_SECONDS = 120
MAX_SECONDS = 3600
_SHOW_EVERY = 0.1
_SHOW_MOST = 4096
_MAX_RESTORED = 20
"""Most changed protected places listed in a result."""
_MAX_SHOWN = 5
"""Most changed protected places shown to the person."""
_PASSES_ERRORS = re.compile(r"2>&1|\|&")
"""The signs that pass a program's errors into its pipe."""
_OPEN_STYLE = re.compile("\x1b(?:\\[[0-9;:]*)?\\Z")


@dataclass(frozen=True, slots=True)
class BashArguments:
    """The arguments of `bash`. Permission reads `write`, `network` and `outside`."""

    command: str
    timeout: Annotated[int | None, {"minimum": 1}] = None
    write: bool = False
    network: bool = False
    outside: str = ""
    background: bool = False


async def run(arguments: BashArguments, context: ToolContext) -> ToolResult:
    """Return the output and a last line with the exit status, or all of its last pipe if an earlier part failed.

    Only a command that could not be started is an error.
    """
    if not arguments.command.strip():
        return ToolResult(error="`command` must not be empty", ran=False)
    if arguments.background:
        jobs = context.services.get(Jobs)
        if jobs is None:
            return ToolResult(error="background commands are not available in this session", ran=False)
        started: ToolResult = await jobs.start(arguments.command, context, arguments.timeout)
        return started
    seconds = min(arguments.timeout or DEFAULT_SECONDS, MAX_SECONDS)
    loop = asyncio.get_running_loop()
    shell, command = find_shell(context.cwd), arguments.command
    ended: list[ProcessResult] = []
    sandbox, pipe, stop = CommandSandbox(None, os.environ), tuple[int, ...](), StopFlag()
    live = _Live(lambda text: loop.call_soon_threadsafe(context.emit, text), stop)

    def work(stop: StopFlag) -> ProcessResult:
        nonlocal sandbox, pipe
        sandbox = context.sandbox() if context.sandbox else sandbox
        with record_pipe_statuses(shell, command, sandbox.env) as statuses:
            result = run_process(
                [shell, "-c", command],
                cwd=context.cwd,
                env={**sandbox.env, **WITHOUT_TERMINAL, **statuses.variables},
                stop=stop,
                seconds=seconds,
                show=live.feed,
                confinement=sandbox.confinement,
                pass_fds=statuses.pass_fds,
            )
            pipe = statuses.read()
        return result

    began = time.monotonic()
    try:
        task = await _wait_for_end(run_in_thread(work, ended.append, stop=stop), context)
        if not task.done():
            process = AdoptedProcess(live.output, stop, task, ended, began)
            return await _adopt(command, context, process, sandbox)
        outcome = task.result()
    except asyncio.CancelledError:
        if ended:
            _show_restored(ended[0].restored, context)
        if ended and ended[0].output:
            context.stopped(STYLE.sub("", await asyncio.to_thread(decode_text, ended[0].output)))
        raise
    except UncheckedError as error:
        context.tell(str(error.strerror))
        return ToolResult(error=f"the command was not started: {error.strerror}", ran=False)
    except (OSError, ValueError) as error:
        if not os.path.isdir(context.cwd):
            return ToolResult(error=f"the working folder {context.cwd} no longer exists", ran=False)
        why = error.strerror if isinstance(error, OSError) else str(error)
        return ToolResult(error=f"the command could not be started: {why}", ran=False)
    live.flush()
    _show_restored(outcome.restored, context)
    hidden = "" if outcome.status or not pipe else describe_failed_part(command, pipe, passes_answers=True)
    text = await asyncio.to_thread(_format_result, command, outcome, seconds, sandbox, pipe, hidden)
    pipe_statuses = pipe if any(pipe[:-1]) else ()
    return ToolResult(text, uncounted=outcome.uncounted, status=outcome.status, pipe=pipe_statuses, warning=hidden)


async def _wait_for_end(work: Coroutine[Any, Any, ProcessResult], context: ToolContext) -> asyncio.Task[ProcessResult]:
    """Start a command and return its task at its end, or when the person wants it to go on in the background. A
    cancellation stops the command."""
    task = asyncio.create_task(work)
    releases: set[asyncio.Future[Any]] = set()
    try:
        while not task.done():
            releases = (
                {asyncio.ensure_future(context.released())} if context.released and Jobs in context.services else set()
            )
            await asyncio.wait({task, *releases}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() or not (why := context.service(Jobs).refuse_more()):
                break
            context.tell(why)
    except BaseException:
        while not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        raise
    finally:
        for release in releases:
            release.cancel()
    return task


async def _adopt(command: str, context: ToolContext, process: AdoptedProcess, sandbox: CommandSandbox) -> ToolResult:
    """Make a job of a command that the person sent to the background."""
    lines = [f"[sandbox: {note}]" for note in sandbox.notes]
    lines += filter(None, [sandbox.describe_missing(command, "")])
    if sandbox.confinement is not None and not sandbox.confinement.profile.network:
        lines += ["[sandbox: other commands cannot reach servers of this job]"] * (sandbox.confinement.network is None)
    return await context.service(Jobs).adopt(command, context, process, "".join(f"{line}\n" for line in lines))


def _show_restored(restored: Sequence[str], context: ToolContext) -> None:
    """Show the person the protected places that the command had changed."""
    for line in restored[:_MAX_SHOWN]:
        context.tell(f"sandbox: {line}")
    if len(restored) > _MAX_SHOWN:
        context.tell(f"sandbox: further paths restored or removed: {len(restored) - _MAX_SHOWN:,}")


def _format_result(
    command: str, outcome: ProcessResult, seconds: int, sandbox: CommandSandbox, pipe: Sequence[int], hidden: str
) -> str:
    """Return the output with its notes; `hidden` is the failed part of a pipe whose last part did not fail, or ""."""
    text, styles = STYLE.subn("", decode_text(outcome.output, outcome.uncounted))
    notes, lines = [], [f"[sandbox: {note}]" for note in (*sandbox.notes, *outcome.restored[:_MAX_RESTORED])]
    if len(outcome.restored) > _MAX_RESTORED:
        lines.append(f"[sandbox: further paths restored or removed: {len(outcome.restored) - _MAX_RESTORED:,}]")
    # In `curl -s ADDRESS | jq .` only the status of the pipe tells of a failure, and the output is another program's;
    # with `2>&1` it has the failed part's errors.
    is_own = not pipe or outcome.status or (hidden and _PASSES_ERRORS.search(command))
    status = outcome.status or (max(pipe) if hidden else 0)
    denial = sandbox.describe_denial(command, text if is_own else "", status)
    if denial := denial or (sandbox.describe_denial(command, text, None) if hidden else ""):
        lines.append(denial)
    if missing := sandbox.describe_missing(command, text):
        lines.append(missing)
    if outcome.timed_out:
        notes.append(f"ended after {seconds} s: time limit")
    notes.append(f"exit status {outcome.status}")
    if any(pipe[:-1]):
        notes.append(f"pipe: {' '.join(map(str, pipe))}")
    if styles:
        notes.append("colour codes left out")
    if outcome.killed:
        notes.append(f"{outcome.killed} background process{'es' * (outcome.killed > 1)} ended with the command")
    return text + "\n".join([*lines, f"[{'; '.join(notes)}]"])


class _Live:
    """Keeps the newest output for a job that the command may become, and until then shows it a few times a second, from
    the reading thread."""

    def __init__(self, show: Callable[[str], object], stop: StopFlag) -> None:
        self.output = OutputRing()
        self._show, self._stop = show, stop
        self._decoder = codecs.getincrementaldecoder("utf-8")(LATIN)
        self._binary = False
        self._pending = ""
        self._last = 0.0

    def feed(self, data: bytes) -> None:
        self.output.add(data)
        if b"\0" in data and not self._binary:
            self._binary = decode_output(data[:_SHOW_MOST], cut=True) is None
        if self._binary or self._stop.is_unlimited:
            return
        # Decode only as many bytes as can be shown.
        self._pending = (self._pending + self._decoder.decode(data[-5 * _SHOW_MOST :]).replace("\0", NUL))[-_SHOW_MOST:]
        if time.monotonic() - self._last >= _SHOW_EVERY:
            self.flush()

    def flush(self) -> None:
        begun = _OPEN_STYLE.search(self._pending)
        end = begun.start() if begun else len(self._pending)
        if end:
            self._show(STYLE.sub("", self._pending[:end]))
            self._pending = self._pending[end:]
            self._last = time.monotonic()
