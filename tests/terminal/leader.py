"""The shell's part in a terminal: leads a session, puts one program in the foreground, and waits for it.

A program that leads its own session cannot be stopped by Ctrl-Z; one that a shell has started can. So this starts it
in a process group of its own, takes the terminal back when it stops, gives it again on SIGUSR1 (`fg`), passes SIGHUP
on, and ends as it ended. Needs the standard library only: run as a program it is `leader.py PROGRAM ARGUMENTS...`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from contextlib import suppress
from typing import Any

QUIT = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN)
"""What a shell ignores for itself."""
PASSED = (signal.SIGHUP, signal.SIGUSR1)
"""What it does something about."""


def lead() -> None:
    """Fork; the parent waits as a shell does and ends the process, the child returns, in the foreground."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    modes = termios.tcgetattr(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED)
    for number in QUIT:
        signal.signal(number, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        for number in QUIT:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
        return
    _attend(job, modes)


def _attend(job: int, modes: list[Any]) -> None:
    """Wait for `job` to stop and to end; never returns. Signals that are passed on wait until it is their turn."""

    def hang_up(*_: Any) -> None:
        os.killpg(job, signal.SIGHUP)
        os.killpg(job, signal.SIGCONT)

    signal.signal(signal.SIGHUP, hang_up)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        _rest(job, modes, os.WSTOPSIG(status))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _rest(job: int, modes: list[Any], why: int) -> None:
    """Have the terminal while `job` is stopped, until it is to go on.

    A shell sets the terminal as it likes it. Here that is done only for a program that could not see the stop coming
    (SIGSTOP): after Ctrl-Z the modes are what the program has left.
    """
    with suppress(OSError, termios.error):
        before = termios.tcgetattr(0)
        if why == signal.SIGSTOP:
            termios.tcsetattr(0, termios.TCSADRAIN, modes)
        os.tcsetpgrp(0, os.getpgrp())
    number = signal.sigwait(PASSED)
    with suppress(OSError, termios.error):
        if why != signal.SIGSTOP:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.tcsetpgrp(0, job)
    if number == signal.SIGHUP:
        os.killpg(job, signal.SIGHUP)
    os.killpg(job, signal.SIGCONT)


if __name__ == "__main__":
    lead()
    os.execvp(sys.argv[1], sys.argv[1:])
