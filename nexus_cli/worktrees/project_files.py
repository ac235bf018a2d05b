"""Look at the project's files as git names them, and find the changes of a worktree that the project has reverted."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.real_files import open_folder
from nexus_cli.tree import file_state
from nexus_cli.tree.blob_hash import blob_id
from nexus_cli.tree.file_state import ABSENT, FILE, GIT, PIPE, SPECIAL
from nexus_cli.tree.write_state import look_at
from nexus_cli.worktrees.snapshot_store import EXECUTABLE, LINK, MISSING, NO_FILE, TreeChange, TreeFile

PLAIN = "100644"
_MODES = {ABSENT: MISSING, PIPE: SPECIAL}
"""Modes of a path that holds no file; others are the kind of its state."""


def read_file(root: Path, path: bytes, length: int) -> TreeFile:
    """Return the file at a path below `root`, with the id of its blob of `length` digits. Raises `OSError`."""
    with open_folder(root) as folder:
        now = look_at(folder, os.fsdecode(path), [f"{GIT}{'0' * length}"])
    if now.kind == file_state.LINK:
        return TreeFile(LINK, blob_id(os.fsencode(now.state.target), length), now)
    if now.kind != FILE:
        return TreeFile(_MODES.get(now.kind, now.kind), now=now)
    if not now.contents:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
    (blob,) = (content.removeprefix(GIT) for content in now.contents if content.startswith(GIT))
    return TreeFile(EXECUTABLE if now.state.mode & stat.S_IXUSR else PLAIN, blob, now)


def is_taken_back(record: WorktreeRecord, change: TreeChange) -> bool:
    """True if the project has a path again as it was before the change, or before an apply merged the change into it,
    and nothing at the path of a new file. Raises `OSError`."""
    length = len(record.base)
    before = read_file(record.source, change.before, length)
    is_there = change.before != change.path and read_file(record.source, change.path, length) != NO_FILE
    merged = record.merged.get(os.fsdecode(change.before), "").split()
    return (before == change.old or before.blob in merged) and not is_there
