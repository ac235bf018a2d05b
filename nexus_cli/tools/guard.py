"""Ends a child's processes when this process ends first, however it ends: also by SIGKILL, where nothing of ours runs.

A shell in a session of its own waits for a line on a pipe whose other end only we hold. Without it, it kills the group
and, where /proc shows environments, who inherited the mark (see `tree`). Their ordinary end is the business of
`process`.
"""

from __future__ import annotations

import subprocess
from types import TracebackType

_SCRIPT = """
read -r _ && exit
kill -s KILL -- "-$1"
for found in $(grep -alsF -e "$2" /proc/[0-9]*/environ); do
    found=${found#/proc/}
    kill -s KILL "${found%/environ}"
done
"""


class Guard:
    """A context manager around the life of one process group. Raises `OSError` when no shell can be started."""

    def __init__(self, group: int, mark: str) -> None:
        self._group, self._mark = group, mark

    def __enter__(self) -> Guard:
        self._shell = subprocess.Popen(
            ("/bin/sh", "-c", _SCRIPT, "guard", str(self._group), self._mark),
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.communicate(b"\n")
