"""Look at the files of a work record on disk: which changed, and which are gone.

Bounded in time and bytes; only regular files are read, others are just named.
"""

from __future__ import annotations

import os
from pathlib import Path

from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.conversation.compaction.work_record import WorkRecord
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.real_files import read_regular

SECONDS = 2.0
"""Time limit for checking all files; files not reached keep their state from the ledger."""
MAX_BYTES = 32 << 20
"""Most bytes read from all files together to detect changes, newest files first."""


async def look_at_files(record: WorkRecord) -> WorkRecord:
    """Check the files on disk: mark deleted and changed ones in the record."""
    states = dict[str, str]()

    def look() -> None:
        remaining = MAX_BYTES
        for file in record.files:
            try:
                status = os.lstat(file.path)
                data = read_regular(file.path, remaining) if status.st_size <= remaining else None
            except (FileNotFoundError, NotADirectoryError):
                is_removed = bool(file.name) and find_worktree(Path(file.path)) is None
                states[file.path] = f"{file.how}, {'worktree removed' if is_removed else 'deleted'} since"
                continue
            except (OSError, ValueError):  # another type of file, a link in its path, or unreadable
                data = None
            if data is None:
                states[file.path] = file.how
                continue
            remaining -= len(data)
            states[file.path] = file.describe(data)

    await run_tasks([DaemonTask(look, SECONDS)])
    return record.with_states(dict(states))
