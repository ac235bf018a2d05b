"""A thread with fewer rights than this process, and what of a command still runs inside its walls."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from nexus_cli.sandbox.landlock import keep_signals_inside

_T = TypeVar("_T")
_SECONDS, _PAUSE = 10.0, 0.005
"""Seconds in which what was killed must have ended, and between two looks."""


class WalledThread:
    """A thread that first gives up its rights and then does what it is called for, one thing after the other."""

    def __init__(self, confine: Callable[[], object]) -> None:
        """Start it; raise what `confine` raises."""
        self._wanted: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
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
        """Return what `act` returns there, or raise what it raises."""
        self._wanted.put(act)
        result, error = self._done.get()
        if error is not None:
            raise error
        made: _T = result
        return made

    def end(self) -> None:
        self._wanted.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (act := self._wanted.get()) is not None:
            try:
                self._done.put((act(), None))
            except BaseException as error:  # raised again in the thread of the caller
                self._done.put((None, error))
            del act


_GUARD = "kill -s 0 $PPID 2>/dev/null && exit; echo; read -r _ || kill -s KILL -- -1"
"""Ends all that it may signal when its input ends. It may signal only what is inside the walls: it tries that first,
on us, and says that it has begun."""


class SignalScope:
    """The place where the threads of commands are started, with a process that ends what hides if we are killed.

    From Landlock's version 6 on. The process is inside walls that hold signals alone, and the commands in further ones
    inside: it reaches all of them, and they do not reach it.
    """

    def __init__(self) -> None:
        """Start both. Raises `OSError`."""
        self._thread = WalledThread(keep_signals_inside)
        try:
            self._guard = self._thread.call(self._start_guard)
        except BaseException:
            self._thread.end()
            raise

    @staticmethod
    def _start_guard() -> subprocess.Popen[bytes]:
        guard = subprocess.Popen(
            ("/bin/sh", "-c", _GUARD),
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert guard.stdout is not None
        guard.stdout.read(1)
        guard.stdout.close()
        return guard

    @property
    def outside(self) -> int:
        """Return the number of the process beside the commands, which none of them may signal."""
        return self._guard.pid

    def start_thread(self, confine: Callable[[], object]) -> WalledThread:
        """Return a new thread inside these walls, and in those of `confine`."""
        return self._thread.call(lambda: WalledThread(confine))

    def close(self) -> None:
        """End both."""
        self._thread.end()
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write(b"\n")
        self._guard.stdin.close()
        self._guard.wait()


def end_strays(thread: WalledThread, outside: int) -> None:
    """Kill all processes inside the walls of `thread`, however they left their group, and wait until they are gone.

    From Landlock's version 6 a process may signal only what is inside its own walls: so whatever `thread` may signal
    is of its command. That this holds is tried first, on `outside`, a process of ours that is not, or on our parent if
    that has ended. Raises `OSError` where it does not hold, or where one has not ended.
    """
    try:
        os.kill(outside, 0)
    except ProcessLookupError:  # the scope was closed while the command ran
        outside = os.getppid()
        os.kill(outside, 0)
    thread.call(lambda: _kill_all_within_reach(outside))


def _kill_all_within_reach(outside: int) -> None:
    if _may_signal(outside):
        raise OSError(errno.EPERM, "signals are not kept inside the walls")
    limit = time.monotonic() + _SECONDS
    while True:
        # At one moment for all of them, and whoever is just forking does not get a child: none escapes.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
        near = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _may_signal(pid)]
        if not any(pid != os.getpid() and _is_running(pid) for pid in near):
            return
        if time.monotonic() > limit:
            raise OSError(errno.EBUSY, "a process of the command has not ended")
        time.sleep(_PAUSE)


def _is_running(pid: int) -> bool:
    """True unless a process has ended: one whose first thread alone has is still running."""
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
