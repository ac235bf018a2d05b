"""End work that blocks the event loop beyond a limit: a library that spins, a call that does not return.

A blocked loop fires no timer and reads no key. A thread therefore pings the loop while a turn runs. If the loop is
blocked after a signal, after the turn's time limit or after the provider's, the watchdog first interrupts the wait for
the provider, where no change is half done. If that does not help, or something else blocks, it ends the process;
committed entries are kept, as after any kill. If no thread can run, an alarm does the same, which each answer of the
loop postpones. Code that holds the GIL and never checks for signals cannot be ended from within the process.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType

from nexus_cli.cli import process
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.stall import StallError, stall_limit
from nexus_cli.session.session import Session
from nexus_cli.tools.process_tree import kill_all
from nexus_cli.ui.print.stream import is_writing, write_stderr_line

TICK = 0.5
"""Seconds between two pings. Pings are counted instead of seconds: a stopped process is not a blocked one."""
BLOCKED_AFTER = 4
"""Unanswered pings after which the loop counts as blocked."""
EXIT_AFTER = 9
"""Unanswered pings after which the process is ended."""
OVERDUE = 1.25
"""Factor of a stall limit: a loop that is blocked in a wait for longer did not end it."""
LATE_AFTER = 20
"""Ticks after which a turn that has to end is ended, even if the loop answers."""
WAKE_SIGNAL = signal.SIGURG
"""The signal that wakes the main thread from a system call; without a handler the system ignores it."""


class LoopWatchdog:
    """A context manager around work in the running loop. It is reentrant."""

    def __init__(
        self,
        session: Callable[[], Session],
        resume_line: Callable[[], str] = str,
        before_exit: Callable[[NexusError], None] = lambda error: None,
    ) -> None:
        """Initialize; `resume_line` returns the resume command or "". `before_exit` is called with the cause before the
        process is ended, usually in another thread."""
        self._session = session
        self._resume_line = resume_line
        self._before_exit = before_exit
        self._entered = 0
        self._loop: asyncio.AbstractEventLoop
        self._over = threading.Event()
        self._alive = True
        self._blocked = 0
        """Pings since the last answer of the loop."""
        self._alarms = 0
        """Alarms since the last answer of the loop, which postpones the next alarm."""
        self._signal = 0
        self._signals: _SignalPipe
        self._terminal = _Terminal()
        self._exiting = threading.Lock()
        """Held by the thread or the alarm that ends the process, whichever is first."""

    def note_signal(self, number: int) -> None:
        """Record that a signal requests the end of the turn. Called by its handler."""
        self._signal = number

    def forget_signal(self) -> None:
        """Record that the loop has handled the signal. Called in the loop."""
        if self._entered:
            self._signals.read()
        self._signal = 0

    def __enter__(self) -> LoopWatchdog:
        self._entered += 1
        if self._entered == 1:
            self._loop = asyncio.get_running_loop()
            self._signal, self._alive, self._over = 0, True, threading.Event()
            for number in (WAKE_SIGNAL, signal.SIGALRM):
                signal.signal(number, self._raise_in_loop)
            self._signals = _SignalPipe()
            threading.Thread(target=self._watch, args=(self._over,), name="watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered -= 1
        if not self._entered:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._signals.release()
            self._over.set()
            self._terminal.restore()

    def _watch(self, over: threading.Event) -> None:
        late, signals = 0, self._signals
        self._ping()
        while not over.wait(TICK):
            problem = self._problem()
            late = late + 1 if problem is not None else 0
            if self._alive:
                self._blocked = 0
                self._ping()
            else:
                self._blocked += 1
            if self._blocked >= BLOCKED_AFTER:
                self._terminal.enable_signal_keys()
                signal.pthread_kill(threading.main_thread().ident or 0, WAKE_SIGNAL)
            is_deaf = self._blocked >= EXIT_AFTER and late >= EXIT_AFTER - BLOCKED_AFTER
            if problem is not None and (is_deaf or late >= LATE_AFTER) and not over.is_set():
                self._exit(problem)
        self._terminal.restore()
        signals.close()

    def _exit(self, problem: NexusError) -> None:
        """End the process and its children. Print the error and the resume command if stderr can be written.

        Return at once if another call is already doing so.
        """
        if not self._exiting.acquire(blocking=False):
            return
        self._terminal.restore()
        try:
            self._before_exit(problem)
            kill_all()
            if select.select([], [2], [], 0)[1]:
                for line in filter(None, (problem.line, self._resume_line())):
                    write_stderr_line(line)
        finally:
            os._exit(problem.exit_status)

    def _ping(self) -> None:
        self._alive = False
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._alive, self._alarms = True, 0
        self._terminal.restore()
        if self._entered:
            signal.setitimer(signal.ITIMER_REAL, (BLOCKED_AFTER + 1) * TICK, TICK)

    def _problem(self) -> NexusError | None:
        """Return the reason to end the turn, None if it may continue. A blocked loop alone is no reason."""
        self._signal = self._signal or self._signals.read()
        if self._signal:
            return signal_error(self._signal)
        if is_writing():  # a slow reader is no error
            return None
        if (limit := self._session().passed_limit()) is not None:
            return limit
        seconds = stall_limit(asyncio.current_task(self._loop))
        if seconds is not None and max(self._blocked, self._alarms) * TICK > seconds * OVERDUE:
            return NexusError("network", "request failed", f"no data for {seconds:g} seconds", "Try again")
        return None

    def _raise_in_loop(self, number: int, frame: FrameType | None) -> None:
        """Raise an exception in the code that blocks the loop, if that is the turn's wait for the provider."""
        if self._exiting.locked():  # it would interrupt the last lines on stderr
            return
        if number == signal.SIGALRM:
            self._alarms += 1
            if self._alarms < 2:  # a single one is normal after SIGCONT
                return
            if self._alarms > EXIT_AFTER and (problem := self._problem()) is not None:
                self._exit(problem)
        elif self._alive:
            return
        if stall_limit(asyncio.current_task(self._loop)) is None:
            return
        if self._signal or self._session().passed_limit() is not None:
            self._session().interrupt_from_signal(process.find_stopper(self._signal) if self._signal else "timeout")
        elif self._problem() is not None:
            raise StallError


def signal_error(number: int) -> NexusError:
    """Return the error of a run that the signal `number` ends."""
    return NexusError("aborted", "stopped", f"received {signal.Signals(number).name}", exit_status=128 + number)


class _SignalPipe:
    """Receives signals even while the main thread is in C code, where no Python handler can run."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if self._before != -1:  # asyncio's descriptor, which it reads itself
            signal.set_wakeup_fd(self._before)

    def read(self) -> int:
        """Return the first pending signal that ends a run, or 0. Never blocks."""
        with suppress(OSError):
            return next((number for number in os.read(self._read, 4096) if number in process.SIGNALS), 0)
        return 0

    def release(self) -> None:
        """Restore the wakeup descriptor. Call it in the main thread."""
        if self._before == -1:
            signal.set_wakeup_fd(-1)

    def close(self) -> None:
        """Close the pipe. Call it in the thread that reads it."""
        os.close(self._read)
        os.close(self._write)


class _Terminal:
    """Makes Ctrl+C send SIGINT while the loop is blocked: a screen turns ISIG off and reads it as a key."""

    def __init__(self) -> None:
        self._set: list[object] | None = None
        """The attributes as set here; None if nothing was changed."""

    def enable_signal_keys(self) -> None:
        """Turn ISIG on, unless it is on, stdin is no terminal, or another job is in the foreground."""
        if self._set is not None:
            return
        with suppress(termios.error, OSError, ValueError):
            changed = termios.tcgetattr(0)
            if changed[3] & termios.ISIG or os.tcgetpgrp(0) != os.getpgrp():
                return
            changed[3] |= termios.ISIG
            termios.tcsetattr(0, termios.TCSANOW, changed)
            self._set = termios.tcgetattr(0)

    def restore(self) -> None:
        """Turn ISIG off again, unless the terminal was changed meanwhile."""
        before, self._set = self._set, None
        if before is None:
            return
        with suppress(termios.error, OSError, ValueError):
            now = termios.tcgetattr(0)
            if now == before and os.tcgetpgrp(0) == os.getpgrp():
                now[3] &= ~termios.ISIG
                termios.tcsetattr(0, termios.TCSANOW, now)
