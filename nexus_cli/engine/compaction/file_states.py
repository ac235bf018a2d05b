"""Look at the files of a work record on disk: which changed or are gone, and the names defined in them.

Bounded in time and bytes; only regular files are read, others are just named.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.conversation.compaction.work_record import FileTrace, WorkRecord
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.real_files import read_regular

SECONDS = 2.0
"""Time limit for checking all files; files not reached keep their state from the ledger."""
MOST_OUTLINED = 12
"""Most files that are searched for names of definitions, newest first."""
MOST_BYTES = 32 << 20
"""Most bytes read from all files together to detect changes, newest files first."""
LARGEST_OUTLINED = 512 * 1024
"""Largest file in bytes that is searched for names."""


async def look_at_files(record: WorkRecord) -> WorkRecord:
    """Check the files on disk: mark deleted and changed ones in the record, and add the names of definitions."""
    found = dict[str, tuple[str, tuple[str, ...]]]()

    def look() -> None:
        left = MOST_BYTES
        for place, file in enumerate(record.files):
            state, names, used = _state_on_disk(file, left, outlined=place < MOST_OUTLINED)
            left -= used
            found[file.path] = state, names

    await run_tasks([DaemonTask(look, SECONDS)])
    return record.with_states(dict(found))


def _state_on_disk(file: FileTrace, left: int, *, outlined: bool) -> tuple[str, tuple[str, ...], int]:
    """Return the state of a file on disk, the names in it if `outlined`, and the number of bytes read.

    A file of more than `left` bytes is not read.
    """
    try:
        status = os.lstat(file.path)
        data = _read(file.path, left) if status.st_size <= left else None
    except (FileNotFoundError, NotADirectoryError):
        is_removed = bool(file.name) and find_worktree(Path(file.path)) is None
        return f"{file.how}, {'worktree removed' if is_removed else 'deleted'} since", (), 0
    except (OSError, ValueError):
        return file.how, (), 0
    if data is None:
        return file.how, (), 0
    changed = bool(file.digest) and hashlib.sha256(data).hexdigest() != file.digest
    legible = outlined and len(data) <= LARGEST_OUTLINED and b"\0" not in data[:8192]
    names = file.find_names(data.decode("utf-8", "replace")) if legible else ()
    return f"{file.how}, changed on disk since" if changed else file.how, names, len(data)


def _read(path: str, most: int) -> bytes | None:
    """Read at most `most` bytes of a regular file; None for other types. Raises `OSError`, also for a link in it."""
    try:
        return read_regular(path, most)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
