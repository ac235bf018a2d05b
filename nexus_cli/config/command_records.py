"""Find the records of commands: one file per command with the snapshot of its project, removed after the comparison.

nexus locks the record while its command runs. An unlocked record was left by a killed process, or could not be
compared: until the comparison succeeds, no program of nexus may obey files of that project.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.file_lock import is_locked
from nexus_cli.config.paths import is_below
from nexus_cli.core.real_files import read_regular

RECORD = ".state"
"""Suffix of a record. Its first line is a JSON list of the folders that are compared."""


running_guards: list[Callable[[Path, str, str], None]] = []
"""Called for each file that nexus itself has replaced while commands of this process run, with its SHA-256 before and
after ("": none), so that their comparison does not take the new file for their own."""


class UncheckedError(OSError):
    """A project's snapshot could not be stored or compared; `strerror` has the message for the person."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


def records_folder(data: Path) -> Path:
    return data / "guarded"


def find_records(folder: Path, roots: Collection[str]) -> Iterator[tuple[Path, bool]]:
    """Yield the records of commands in one of the real paths `roots`, or above or below one, oldest first.

    The second value is True while the command runs. Raises `OSError`, and `ValueError` for a damaged record.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if not name.endswith(RECORD):
            continue
        with suppress(FileNotFoundError), open(folder / name, "rb") as file:
            compared = _read_roots(name, file.readline())
            if any(overlaps(recorded, root) for recorded in compared for root in roots):
                yield folder / name, is_locked(file)


def _read_roots(name: str, line: bytes) -> list[str]:
    try:
        roots = json.loads(line)
    except ValueError:
        roots = None
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise ValueError(f"{name} is damaged")
    return roots


def is_unchecked(project: Path, data: Path) -> bool:
    """Return True if a command in `project` was not compared, or may not have been: no program may obey its files."""
    root, git = os.path.realpath(project), ""
    try:
        with suppress(OSError):  # a worktree: `.git` is a file with the path of the git folder
            _, _, git = os.fsdecode(read_regular(f"{root}/.git", 1 << 12)).strip().partition(": ")
        records = list(find_records(records_folder(data), [root, os.path.realpath(os.path.join(root, git))]))
    except (OSError, ValueError):
        return True
    return any(not runs for _, runs in records)


def overlaps(folder: str, other: str) -> bool:
    """Return True if one of two folders is the other, or in it."""
    return is_below(folder, other) or is_below(other, folder)
