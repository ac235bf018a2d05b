"""Run a child in its own session, bounded in time and memory, and kill its whole process tree.

`process_tree` finds the processes of a tree, and kills them if this process is killed.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from nexus_cli.config.host_environment import CHILD_MARK, host_environment
from nexus_cli.config.programs import find_program
from nexus_cli.core.elide import describe_discarded
from nexus_cli.core.shared_types import Environ
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import HARD_LIMIT
from nexus_cli.tools.process_tree import RUNNING, OrphanGuard, find_remaining, find_tree, send_signal, still_running

if TYPE_CHECKING:
    from nexus_cli.sandbox.own_git import Git


class BoundedOutput:
    """Collects output: all of it up to a limit, then the first and the last half of the limit."""

    def __init__(self, limit: int = HARD_LIMIT) -> None:
        self._half = limit // 2
        self._most = self._half + self._half // 8
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    @property
    def uncounted(self) -> int:
        """Return the number of bytes that were not kept."""
        return self._dropped + max(0, len(self._tail) - self._half)

    def add(self, data: bytes) -> None:
        """Append a piece, in amortized linear time even for small pieces."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._most:
            self._trim()

    def join(self) -> bytes:
        """Return the kept bytes, with a line in place of the others."""
        self._trim()
        hole = f"{describe_discarded(self.uncounted, 'output')}\n" if self.uncounted else ""
        return b"".join((self._head, hole.encode(), self._tail))

    def _trim(self) -> None:
        surplus = max(0, len(self._tail) - self._half)
        del self._tail[:surplus]
        self._dropped += surplus


_LOOK = 0.05
"""Seconds between two checks of a child without output."""
_GRACE = 0.3
"""Seconds for processes that a finished command left running to end too (such as a `tee`)."""
_TERM = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_DRAIN = 1.0
"""Most seconds for reading the rest of the pipe, in case a process keeps writing."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a child."""

    output: bytes
    """Its output; beyond the hard limit only beginning and end, with a line between."""
    status: int
    """Exit status as in a shell: 128 + N after signal N."""
    uncounted: int
    """Bytes of output that were counted but not kept."""
    timed_out: bool
    killed: int
    """Number of processes that were still running after the child and were killed."""
    restored: tuple[str, ...] = ()
    """A line for each protected place that the child had changed, with the outcome."""


class ChildSandbox(Protocol):
    """Starts a child in a sandbox: `sandbox/confinement.Confinement`."""

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` as `Popen(argv, **options)` in the sandbox; raise `OSError` if that cannot be set up."""

    def watch_command(self) -> AbstractContextManager[Sequence[str]]:
        """Kill what a child left running and restore protected places; the lines are complete when the context
        ends."""


def find_shell(cwd: Path) -> str:
    """Return the path of the shell for command lines."""
    return "/bin/bash" if os.path.exists("/bin/bash") else find_program("bash", cwd) or "/bin/sh"


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Environ,
    stop: StopFlag,
    seconds: float,
    stdin: bytes | int = b"",
    merge: bool = True,
    show: Callable[[bytes], None] | None = None,
    keep: int = HARD_LIMIT,
    confinement: ChildSandbox | None = None,
    pass_fds: Sequence[int] = (),
) -> ProcessResult:
    """Run `argv` to its end. Blocks: call it through `run_in_thread`.

    The child has no terminal, its environment no trace of nexus's own Python (`host_environment`); stdin is `stdin`
    (bytes or a descriptor), stderr joins stdout or (`merge=False`) is dropped. At most `keep` bytes of output are kept.
    `show` gets each piece of the output, and b"" several times a second while there is none.
    After `seconds`, or when `stop` is pressed, its process tree gets SIGTERM and two seconds later SIGKILL. A
    descendant that keeps the pipe open does not delay the result. The child is started in the sandbox of `confinement`,
    and inherits `pass_fds`.
    Raises `OSError` or `ValueError` if it cannot be started.
    """
    stop.raise_if_pressed()
    mark, environment = secrets.token_hex(16), host_environment(env, cwd)
    environment[CHILD_MARK] = " ".join((*environment.get(CHILD_MARK, "").split(), mark))
    start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    watched: AbstractContextManager[Sequence[str]] = contextlib.nullcontext(())
    if confinement is not None:
        start, watched = confinement.start, confinement.watch_command()
    with watched as restored, OrphanGuard(mark) as guard, tempfile.TemporaryFile() as source:
        child_input: IO[bytes] | int = subprocess.DEVNULL
        if isinstance(stdin, int):
            child_input = stdin
        elif stdin:
            source.write(stdin)
            source.seek(0)
            child_input = source
        child = start(
            argv,
            cwd=cwd,
            env=environment,
            stdin=child_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
            pass_fds=pass_fds,
        )
        RUNNING[child.pid, mark] = stop
        assert child.stdout is not None
        output = BoundedOutput(keep)
        try:
            guard.watch(child.pid)
            with _Pipe(child.stdout, output, show) as pipe:
                stop.child = child.pid, mark
                result = _await_child(child, mark, pipe, output, stop, seconds)
        finally:
            stop.child = None
            if child.poll() is None:
                send_signal(child.pid, find_tree(child.pid, mark), signal.SIGKILL)
                child.wait()
            RUNNING.pop((child.pid, mark))
    return replace(result, restored=tuple(restored))


def run_git(git: Git, *arguments: str, stop: StopFlag, seconds: float) -> ProcessResult:
    """Run git of our own, as `run_process` with stderr dropped."""
    argv, env, walls = git.prepare(*arguments)
    return run_process(argv, cwd=git.cwd, env=env, stop=stop, seconds=seconds, merge=False, confinement=walls)


class _Pipe:
    """The read end of a child's output."""

    def __init__(self, file: IO[bytes], output: BoundedOutput, show: Callable[[bytes], None] | None) -> None:
        self._file, self._output, self._show = file, output, show
        self._selector = selectors.DefaultSelector()
        self.is_open = True

    def __enter__(self) -> _Pipe:
        os.set_blocking(self._file.fileno(), False)
        self._selector.register(self._file, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._file.close()

    def pump(self, seconds: float) -> bool:
        """Wait at most `seconds` for output and collect it; return False if there was none."""
        if not self.is_open:
            time.sleep(seconds)
            return False
        if not self._selector.select(seconds):
            if self._show is not None:
                self._show(b"")
            return False
        try:
            data = os.read(self._file.fileno(), 1 << 18)
        except BlockingIOError:
            return False
        if not data:
            self.is_open = False
            self._selector.unregister(self._file)
            return False
        self._output.add(data)
        if self._show is not None:
            self._show(data)
        return True


def _await_child(
    child: subprocess.Popen[bytes], mark: str, pipe: _Pipe, output: BoundedOutput, stop: StopFlag, seconds: float
) -> ProcessResult:
    began, timed_out = time.monotonic(), False
    deadline = began + seconds
    while child.poll() is None:
        deadline = math.inf if stop.is_unlimited else deadline
        if stop.is_pressed or time.monotonic() >= deadline:
            timed_out = not stop.is_pressed
            break
        patience = min(_LOOK, max(0.0, deadline - time.monotonic()))
        if pipe.is_open:
            pipe.pump(patience)
        else:
            # The pipe is closed, so the child is about to end: wait for that.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(patience)
    remaining = 0
    if child.poll() is None:
        _end_tree(child, mark, pipe, stop)
    else:
        grace = time.monotonic() + _GRACE
        while pipe.is_open and time.monotonic() < grace and not stop.is_pressed:
            pipe.pump(_LOOK)
        while remaining := len(find_remaining(child.pid, mark, time.monotonic() - began)):
            if time.monotonic() >= grace or stop.is_pressed:
                break
            pipe.pump(_LOOK)
        if remaining:
            _end_tree(child, mark, pipe, stop)
    drained = time.monotonic() + _DRAIN
    while pipe.pump(0) and time.monotonic() < drained:
        continue
    code = child.wait()
    return ProcessResult(output.join(), 128 - code if code < 0 else code, output.uncounted, timed_out, remaining)


def _end_tree(child: subprocess.Popen[bytes], mark: str, pipe: _Pipe, stop: StopFlag) -> None:
    """Send SIGTERM to the tree, SIGKILL to the remaining processes after two seconds, and wait for the child."""
    processes = find_tree(child.pid, mark)
    send_signal(child.pid, processes, signal.SIGTERM)
    limit = time.monotonic() + _TERM
    while time.monotonic() < limit and not stop.is_urgent:
        child.poll()
        if not still_running(processes) and not find_remaining(child.pid, mark):
            break
        pipe.pump(_LOOK)
    send_signal(child.pid, still_running(processes) | find_tree(child.pid, mark), signal.SIGKILL)
    child.wait()
