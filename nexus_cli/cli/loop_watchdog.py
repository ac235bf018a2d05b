"""Ends what blocks the event loop beyond a limit: a library that spins, a call that does not return.

Owns the thread that asks the loop for a sign of life while a turn runs. A blocked loop can neither fire a timer nor
read a key, so once a signal has arrived, the turn's time limit has passed or the provider has been silent for too
long, the watchdog first breaks into the wait for the provider, where no state of ours is half done. Where that does
not help, or something else blocks, it ends the process: what was committed by then is kept, as after any kill. An alarm
that the loop puts off again and again does the same where no thread can run. Code that holds the interpreter's lock
and never looks for signals cannot be ended from within the process.
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
from typing import NoReturn

from nexus_cli.cli.interrupt import NUMBERS
from nexus_cli.cli.tell import tell
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.stall import Stalled, is_waiting_here, overdue_wait
from nexus_cli.session.session import Session
from nexus_cli.tools.process import kill_all
from nexus_cli.ui.print.stream import is_writing

TICK = 0.5
"""Seconds between two looks at the loop. Looks are counted, not the clock: a stopped process is not a blocked one."""
PATIENCE = 4
"""Looks without a sign of life after which the loop counts as blocked."""
LAST = 9
"""Looks without a sign of life after which the process is ended."""
LATE = 20
"""Looks after which a turn that was told to end has to have ended, also where the loop is alive."""
WAKE = signal.SIGURG
"""Wakes the main thread out of a system call; ignored by the system where nobody takes it."""


def end_blocked(error: NexusError, resume: str = "") -> NoReturn:
    """End the process at once, with its children: the error and the command that resumes on stderr."""
    kill_all()
    if select.select([], [2], [], 0)[1]:
        for line in filter(None, (error.line, resume)):
            tell(line)
    os._exit(error.exit_status)


class LoopWatchdog:
    """A context manager around work in the running loop; may be entered again while it is entered."""

    def __init__(self, session: Callable[[], Session], end: Callable[[NexusError], None]) -> None:
        """`end` is called in another thread and ends the process, with the error as its cause."""
        self._session = session
        self._end = end
        self._entered = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = threading.Event()
        self._alive = True
        self._alarms = 0
        """Alarms since the last sign of life: the loop winds the clock up again with each of them."""
        self._signal = 0
        self._signals: _SignalPipe
        self._terminal = _Terminal()
        self._finishing = threading.Lock()
        """Held by whoever ends the process: the thread or the alarm, whichever comes first."""

    def arrived(self, number: int) -> None:
        """A signal asks for the end of what runs; called by its handler."""
        self._signal = number

    def __enter__(self) -> LoopWatchdog:
        self._entered += 1
        if self._entered == 1:
            self._loop = asyncio.get_running_loop()
            self._signal, self._alive, self._over = 0, True, threading.Event()
            for number in (WAKE, signal.SIGALRM):
                signal.signal(number, self._break_in)
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
        silent, late, signals = 0, 0, self._signals
        self._ping()
        while not over.wait(TICK):
            problem = self._problem()
            late = late + 1 if problem is not None else 0
            if self._alive:
                silent = 0
                self._ping()
            else:
                silent += 1
            if silent >= PATIENCE:
                self._terminal.let_keys_signal()
                signal.pthread_kill(threading.main_thread().ident or 0, WAKE)
            if problem is not None and (silent >= LAST or late >= LATE) and not over.is_set():
                self._finish(problem)
            if problem is None:
                silent = min(silent, PATIENCE)
        self._terminal.restore()
        signals.close()

    def _finish(self, problem: NexusError) -> None:
        """End the process, whatever of it cannot be written any more; nothing if it is being ended already."""
        if not self._finishing.acquire(blocking=False):
            return
        self._terminal.restore()
        try:
            self._end(problem)
        finally:
            os._exit(problem.exit_status)

    def _ping(self) -> None:
        self._alive = False
        with suppress(RuntimeError):  # the loop is closed
            assert self._loop is not None, "set when the watchdog is entered"
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._alive, self._alarms = True, 0
        self._terminal.restore()
        if self._entered:
            signal.setitimer(signal.ITIMER_REAL, (PATIENCE + 1) * TICK, TICK)

    def _problem(self) -> NexusError | None:
        """Return why what runs has to end; None while it may go on, however long the loop is blocked."""
        self._signal = self._signal or self._signals.read()
        if self._signal:
            name = signal.Signals(self._signal).name
            status = 128 + self._signal
            return NexusError("aborted", "stopped", f"{name} arrived", exit_status=status)
        if is_writing():  # a reader that takes its time is nobody's fault
            return None
        if (limit := self._session().passed_limit()) is not None:
            return limit
        assert self._loop is not None, "set when the watchdog is entered"
        seconds = overdue_wait(asyncio.current_task(self._loop))
        if seconds is not None:
            return NexusError("network", "the model request failed", f"no data for {seconds:g} seconds", "Try again")
        return None

    def _break_in(self, number: int, frame: FrameType | None) -> None:
        """Raise in the code that blocks the loop, if that is the turn's own wait for the provider."""
        if self._finishing.locked():  # what is raised now would be raised in the midst of the last words
            return
        if number == signal.SIGALRM:
            self._alarms += 1
            if self._alarms < 2:  # one alone comes when the whole process was stopped
                return
            if self._alarms > LAST and (problem := self._problem()) is not None:
                self._finish(problem)
        elif self._alive:
            return
        if not is_waiting_here():
            return
        if self._signal or self._session().passed_limit() is not None:
            self._session().break_in("cancel" if self._signal else "timeout")
        elif overdue_wait(asyncio.current_task()) is not None:
            raise Stalled


class _SignalPipe:
    """The signals that arrived, also where no handler of Python's can run because the main thread is in C code."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if self._before != -1:  # asyncio's own, which it reads by itself
            signal.set_wakeup_fd(self._before)

    def read(self) -> int:
        """Return the first signal that asks for an end, or 0. Never blocks."""
        with suppress(OSError):
            return next((number for number in os.read(self._read, 4096) if number in NUMBERS), 0)
        return 0

    def release(self) -> None:
        """Leave signals to whoever had them before. In the main thread."""
        if self._before == -1:
            signal.set_wakeup_fd(-1)

    def close(self) -> None:
        """Close the pipe; for the thread that reads it."""
        os.close(self._read)
        os.close(self._write)


class _Terminal:
    """Lets Ctrl+C be a signal while nobody reads keys: a screen turns that off and reads it as a key."""

    def __init__(self) -> None:
        self._set: list[object] | None = None
        """What was set; None while nothing is changed."""

    def let_keys_signal(self) -> None:
        """Turn it on; nothing where stdin is no terminal, or one in front of which another job stands."""
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
        """Turn it off again, unless somebody has changed the terminal meanwhile."""
        before, self._set = self._set, None
        if before is None:
            return
        with suppress(termios.error, OSError, ValueError):
            now = termios.tcgetattr(0)
            if now == before and os.tcgetpgrp(0) == os.getpgrp():
                now[3] &= ~termios.ISIG
                termios.tcsetattr(0, termios.TCSANOW, now)
