"""Run functions in a thread with fewer rights than this process, and kill processes that a command left in there."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from nexus_cli.config.programs import start_helper
from nexus_cli.sandbox.landlock import restrict_signals

_T = TypeVar("_T")
_Answer = SimpleQueue[tuple[Any, BaseException | None]]
_SECONDS, _PAUSE = 10.0, 0.005
"""Seconds to wait for killed processes to end, and between two checks."""


class RestrictedThread:
    """A thread that restricts itself and then executes calls one after the other."""

    def __init__(self, confine: Callable[[], object]) -> None:
        """Start the thread, which calls `confine` first; raise what `confine` raises."""
        self._queue: SimpleQueue[tuple[Callable[[], Any], _Answer] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sandbox", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        try:
            self.call(confine)
        except BaseException:
            self.end()
            raise

    def call(self, act: Callable[[], _T]) -> _T:
        """Call `act` in the thread; return its result or raise its exception. A call that a signal ends, as Ctrl+C
        does, leaves nothing to the next one."""
        answer: _Answer = SimpleQueue()
        self._queue.put((act, answer))
        result, error = answer.get()
        if error is not None:
            raise error
        returned: _T = result
        return returned

    def end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            act, answer = job
            try:
                answer.put((act(), None))
            except BaseException as error:  # raised again in the caller's thread
                answer.put((None, error))
            del job, act, answer


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, so that no finalizer of an unrelated object runs in a restricted thread."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


_GUARD = "kill -s 0 $PPID 2>/dev/null && exit; echo; read -r _ || kill -s KILL -- -1"
"""Kills all processes that it may signal when its input ends. It first tests that it cannot signal us, so that only
sandboxed processes are in reach, and then prints a line."""


class SignalScope:
    """Starts the threads of commands in a common signal scope, with a process that kills strays if we are killed.

    Needs Landlock ABI version 6. The process is restricted for signals alone, the commands in nested layers: it can
    signal all of them, and they cannot signal it.
    """

    def __init__(self) -> None:
        """Start the thread and the process. Raises `OSError`."""
        self._thread = RestrictedThread(restrict_signals)
        try:
            self._guard = self._thread.call(self._start_guard)
        except BaseException:
            self._thread.end()
            raise

    @staticmethod
    def _start_guard() -> subprocess.Popen[bytes]:
        guard = start_helper(("/bin/sh", "-c", _GUARD), stdout=subprocess.PIPE)
        assert guard.stdout is not None
        guard.stdout.read(1)
        guard.stdout.close()
        return guard

    @property
    def outside(self) -> int:
        """Return the pid of the process, which no command can signal."""
        return self._guard.pid

    def start_thread(self, confine: Callable[[], object]) -> RestrictedThread:
        """Start a thread that is restricted by this scope and by `confine`."""
        return self._thread.call(lambda: RestrictedThread(confine))

    def close(self) -> None:
        """End the thread and the process."""
        self._thread.end()
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write(b"\n")
        self._guard.stdin.close()
        self._guard.wait()


def end_strays(thread: RestrictedThread, outside: int) -> None:
    """Kill all processes in the sandbox of `thread`, including those that left its process group, and wait for them.

    From Landlock ABI version 6 on a process can only signal processes in its own sandbox, so that all processes in
    reach of `thread` belong to its command. This is tested first on the pid `outside`, which must not be in reach; on
    our parent if that has ended. Raises `OSError` if the test fails, or if a process does not end.
    """
    try:
        os.kill(outside, 0)
    except ProcessLookupError:  # the scope was closed while the command ran
        outside = os.getppid()
        os.kill(outside, 0)
    thread.call(lambda: _kill_all_within_reach(outside))


def _kill_all_within_reach(outside: int) -> None:
    if _may_signal(outside):
        raise OSError(errno.EPERM, "the sandbox does not block signals")
    limit = time.monotonic() + _SECONDS
    while True:
        # Atomic: a process that is just forking gets no child, so that none escapes.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
        near = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _may_signal(pid)]
        if not any(pid != os.getpid() and _is_running(pid) for pid in near):
            return
        if time.monotonic() > limit:
            raise OSError(errno.EBUSY, "a process of the command is still running")
        time.sleep(_PAUSE)


def _is_running(pid: int) -> bool:
    """Return True unless a process has ended; if only its main thread has, it is still running."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") or int(fields[17]) > 1


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
