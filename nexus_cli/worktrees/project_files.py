"""Look at the project's files as git names them, and find the changes of a worktree that the project took back."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.real_files import open_folder
from nexus_cli.tree import file_state
from nexus_cli.tree.blob_hash import blob_id
from nexus_cli.tree.file_state import ABSENT, FILE, GIT, NOT_THERE, PIPE, SPECIAL, PresentState
from nexus_cli.tree.write_state import look_at
from nexus_cli.worktrees.snapshot_store import EXECUTABLE, LINK, MISSING, TreeChange

PLAIN = "100644"
_MODES = {ABSENT: MISSING, PIPE: SPECIAL}
"""Modes of a path that holds no file; others are the kind of its state."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A path of the project in its current state: its mode as git names it, and its blob."""

    mode: str
    blob: str = ""
    now: PresentState = field(default=NOT_THERE, compare=False)
    """Its state, whose stamp changes with each write, even one of the same content."""


NO_FILE = ProjectFile(MISSING)


def file_of(mode: str, blob: str) -> ProjectFile:
    """Return the file on one side of a change."""
    return NO_FILE if mode == MISSING else ProjectFile(mode, blob)


def read_file(root: Path, path: bytes, length: int) -> ProjectFile:
    """Return the file at a path below `root`, with the id of its blob of `length` digits. Raises `OSError`."""
    with open_folder(root) as folder:
        now = look_at(folder, os.fsdecode(path), [f"{GIT}{'0' * length}"])
    if now.kind == file_state.LINK:
        return ProjectFile(LINK, blob_id(os.fsencode(now.state.target), length), now)
    if now.kind != FILE:
        return ProjectFile(_MODES.get(now.kind, now.kind), now=now)
    if not now.contents:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
    (blob,) = (content.removeprefix(GIT) for content in now.contents if content.startswith(GIT))
    return ProjectFile(EXECUTABLE if now.state.mode & stat.S_IXUSR else PLAIN, blob, now)


def is_taken_back(record: WorktreeRecord, change: TreeChange) -> bool:
    """True if the project has a path again as it was before the change, and nothing at the path of a new file. Raises
    `OSError`."""
    length = len(record.base)
    before = read_file(record.source, change.before, length)
    is_there = change.before != change.path and read_file(record.source, change.path, length) != NO_FILE
    return before == file_of(change.old_mode, change.old) and not is_there
