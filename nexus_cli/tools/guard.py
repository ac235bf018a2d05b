"""Ends a process group when this process ends first, however it ends: also by SIGKILL, where nothing of ours runs.

A shell in a session of its own waits for a line on a pipe whose other end only we hold. What is in the group, and its
ordinary end, is the business of `process`.
"""

from __future__ import annotations

import subprocess
from types import TracebackType

_SCRIPT = 'read -r _ || kill -s KILL -- "-$1"'


class Guard:
    """A context manager around the life of one process group. Raises `OSError` when no shell can be started."""

    def __init__(self, group: int) -> None:
        self._group = group

    def __enter__(self) -> Guard:
        self._shell = subprocess.Popen(
            ("/bin/sh", "-c", _SCRIPT, "guard", str(self._group)),
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
