"""Files that say how a project was before the commands that run in it: one for each, taken away when it was checked.

The command's process holds a lock on its file. One that nobody holds was left by a process that was killed, or could
not be checked: until it is, nothing may obey what is in that project.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.core.real_files import read_beginning

RECORD = ".state"
"""Suffix of such a file. Its first line is a JSON list of the folders that are compared."""


class UncheckedError(OSError):
    """The state of a project could not be kept or compared: `strerror` says it to the person."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


def records_folder(data: Path) -> Path:
    """Return the folder of these files in nexus's data folder."""
    return data / "guarded"


def find_records(folder: Path, roots: Collection[str]) -> Iterator[tuple[Path, bool]]:
    """Yield the records of commands in one of the real paths `roots`, above or below it, the oldest first.

    The second value is True while the command runs. Raises `OSError`, `ValueError`.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        if not name.endswith(RECORD):
            continue
        with suppress(FileNotFoundError), open(folder / name, "rb") as file:
            compared = _read_roots(name, file.readline())
            if any(_overlap(one, other) for one in compared for other in roots):
                yield folder / name, _is_locked(file.fileno())


def _read_roots(name: str, line: bytes) -> list[str]:
    try:
        roots = json.loads(line)
    except ValueError:
        roots = None
    if not isinstance(roots, list) or not all(isinstance(one, str) for one in roots):
        raise ValueError(f"{name} is damaged")
    return roots


def is_unchecked(project: Path, data: Path) -> bool:
    """Return True if what a command did in `project` was not compared yet: then no program of ours may obey what is
    there, git before all. True too if that cannot be told."""
    root, git = os.path.realpath(project), ""
    try:
        with suppress(OSError):  # a worktree: the folder that it names is that of a repository elsewhere
            _, _, git = os.fsdecode(read_beginning(f"{root}/.git", 1 << 12)).strip().partition(": ")
        found = list(find_records(records_folder(data), [root, os.path.realpath(os.path.join(root, git))]))
    except (OSError, ValueError):
        return True
    return any(not runs for _, runs in found)


def why_no_git(project: Path) -> str:
    """Return why git must not be started in `project` now, "" if it may."""
    return "what a command did there is not checked yet" if is_unchecked(project, places().data) else ""


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")
