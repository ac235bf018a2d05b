"""Record the exit statuses of all parts of a command's last pipe, without changing the command's behavior or output.

Bash executes the file in `BASH_ENV` before a command: a file in memory, which sets an EXIT trap that appends
`PIPESTATUS` to the same file. Nothing is recorded if the shell is not bash, the system has no files in memory, the
person uses `BASH_ENV`, or the command sets its own EXIT trap.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from nexus_cli.core.shared_types import Environ
from nexus_cli.core.tool import SIGPIPE

LEAST = 100
"""Lowest descriptor of the file, out of the range that commands use themselves."""
MOST = 100
"""Most parts of a recorded pipe."""
_BASH_ENV = "BASH_ENV"
_PIPE = re.compile(r"(?<![|>])\|(?!\|)")
_ASSIGNED = re.compile(r"\w+=")
_PROGRAM = re.compile(r"(?!(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|time|\d+)\Z)[\w.+-]+\Z")
"""The name of a program, other than a word of the shell."""
_FINDERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp"})
"""Programs whose status 1 is an answer: there is no match, or a difference."""
_TRAP = """\
unset BASH_ENV
trap '{{ builtin printf " %s" "${{PIPESTATUS[@]}}" >&{0} || :; }} 2>/dev/null' EXIT
"""


@dataclass(frozen=True, slots=True)
class PipeStatuses:
    """The file in memory for one command."""

    handle: int
    """Its descriptor; -1 for none."""
    start: int
    """Offset of the statuses in it."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables to start the command with."""
        return {_BASH_ENV: f"/dev/fd/{self.handle}"} if self.handle >= 0 else {}

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """The descriptors that the command must inherit."""
        return (self.handle,) if self.handle >= 0 else ()

    def read(self) -> tuple[int, ...]:
        """Return the exit statuses of the command's last pipe, in order; () if it did not end in a pipe."""
        if self.handle < 0:
            return ()
        statuses = os.pread(self.handle, 4 * MOST, self.start).split()
        is_valid = 1 < len(statuses) <= MOST and all(status.isdigit() and len(status) <= 3 for status in statuses)
        return tuple(map(int, statuses)) if is_valid else ()


@contextmanager
def record_pipe_statuses(shell: str, command: str, env: Environ) -> Iterator[PipeStatuses]:
    """Set up recording for one command, unless it has no pipe."""
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


def describe_failed_part(command: str, pipe: Sequence[int], *, passes_answers: bool = False) -> str:
    """Describe the first part before the last of a command's last pipe that failed, as `pytest exited 1`; "" if none
    did. A part that wrote to an ended one (`yes | head`) did not fail, nor, if it `passes_answers`, one whose status is
    an answer (`grep x f | head`)."""
    programs = _name_parts(command.strip().replace("\\\n", " "))
    for place, status in enumerate(pipe[:-1]):
        is_known = len(programs) == len(pipe) and _PROGRAM.match(programs[place])
        is_answer = passes_answers and is_known and status == 1 and programs[place] in _FINDERS
        if status not in (0, SIGPIPE) and not is_answer:
            return f"{programs[place] if is_known else f'part {place + 1} of its pipe'} exited {status}"
    return ""


def _name_parts(command: str) -> list[str]:
    """Return the program of each part of the command's last pipe, "" for a part that is no simple command; [] if words
    alone do not tell which pipe ran last."""
    reader = shlex.shlex(command, posix=True, punctuation_chars="|&;()<>\n")
    reader.whitespace, reader.whitespace_split = " \t", True
    parts = [list[str]()]
    with suppress(ValueError):  # an open quote
        for word in reader:
            sign = word.strip("\n")
            if sign in ("|", "|&"):
                parts.append([])
            elif sign == "||":
                return []
            elif word.strip("|&;()\n"):
                parts[-1].append(word)
            elif word:
                parts = [[]]
    return [
        next((os.path.basename(argument) for argument in part if not _ASSIGNED.match(argument)), "") for part in parts
    ]


def _open_file() -> int:
    """Return the descriptor of a new file in memory, -1 if the system has none."""
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
