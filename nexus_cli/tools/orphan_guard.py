"""Ends a child's processes when this process ends first, however it ends: also by SIGKILL, where nothing of ours runs.

A shell in a session of its own waits for a line on a pipe whose other end only we hold. Without it, it kills the group
and, where /proc shows environments, who inherited the mark (see `tree`): it starts before the child does, so that there
is no moment without it. The ordinary end is the business of `process`.
"""

from __future__ import annotations

import contextlib
import subprocess
from types import TracebackType

_SCRIPT = """
read -r group
read -r _ && exit
test -z "$group" || kill -s KILL -- "-$group"
for found in $(grep -alsF -e "$1" /proc/[0-9]*/environ); do
    found=${found#/proc/}
    kill -s KILL "${found%/environ}"
done
"""


class OrphanGuard:
    """A context manager around the life of the processes with one mark. Raises `OSError` when no shell starts."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._end = b"\n\n"

    def __enter__(self) -> OrphanGuard:
        self._shell = subprocess.Popen(
            ("/bin/sh", "-c", _SCRIPT, "guard", self._mark),
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        return self

    def watch(self, group: int) -> None:
        """Once: the process group that the child leads."""
        assert self._shell.stdin is not None
        self._end = b"\n"
        # Should somebody have ended the shell, the child goes on without it.
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write(b"%d\n" % group)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.communicate(self._end)
