"""Learn how each part of a command's last pipe ended, without a change of what the command does or prints.

Bash reads the file that `BASH_ENV` names before a command: a file in memory, which sets an EXIT trap that appends
`PIPESTATUS` to the same file. Nothing is recorded where the shell is not bash, the system has no such files, the person
uses `BASH_ENV` themselves, or the command sets an EXIT trap of its own.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

LEAST = 100
"""The lowest descriptor of the file: commands use low ones for themselves."""
MOST = 100
"""Parts of a pipe that are recorded."""
_BASH_ENV = "BASH_ENV"
_PIPE = re.compile(r"(?<![|>])\|(?!\|)")
_TRAP = """\
unset BASH_ENV
trap '{{ builtin printf " %s" "${{PIPESTATUS[@]}}" >&{0} || :; }} 2>/dev/null' EXIT
"""


@dataclass(frozen=True, slots=True)
class PipeStatuses:
    """What a command is started with, and what it left."""

    handle: int = -1
    """The file; -1 for none."""
    start: int = 0
    """Where the statuses begin in it."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the command is started with."""
        return {_BASH_ENV: f"/dev/fd/{self.handle}"} if self.handle >= 0 else {}

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """The descriptors that the command inherits."""
        return (self.handle,) if self.handle >= 0 else ()

    def read(self) -> tuple[int, ...]:
        """Return the statuses of the last pipe of the command, in its order; none where it ended in no pipe."""
        if self.handle < 0:
            return ()
        told = os.pread(self.handle, 4 * MOST, self.start).split()
        known = 1 < len(told) <= MOST and all(one.isdigit() and len(one) <= 3 for one in told)
        return tuple(map(int, told)) if known else ()


@contextmanager
def record_pipe_statuses(shell: str, command: str, env: Mapping[str, str]) -> Iterator[PipeStatuses]:
    """Record the statuses for one command; nothing is set up for one without a pipe."""
    handle = -1
    if os.path.basename(shell) == "bash" and _PIPE.search(command) and _BASH_ENV not in env:
        handle = _open_file()
    try:
        text = _TRAP.format(handle).encode()
        if handle >= 0:
            os.write(handle, text)
        yield PipeStatuses(handle, len(text))
    finally:
        if handle >= 0:
            os.close(handle)


def _open_file() -> int:
    """Return the descriptor of a new file in memory, -1 where there is none."""
    if not hasattr(os, "memfd_create"):
        return -1
    try:
        low = os.memfd_create("pipe")
        try:
            return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LEAST)
        finally:
            os.close(low)
    except OSError:
        return -1
