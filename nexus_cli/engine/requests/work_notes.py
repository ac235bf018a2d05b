"""Make the notes about file changes of calls, and outcomes of workers' commands, for the work record as they happen.

Each is a memo `work` in the conversation of the parent session, so that it survives a killed process, a deleted worker
session and compactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nexus_cli.conversation.compaction.work_log import CommandRun
from nexus_cli.core.json_value import JsonDict

MOST_FILES = 50
"""Most files of one call that are named; others, as after a `git checkout`, are only counted."""


def work_note(
    project: Path, changed: Sequence[str], by: str, run: CommandRun | None = None, worktree: str = ""
) -> JsonDict:
    """Make the memo of one call; `changed` are paths relative to `project`, or absolute."""
    note: JsonDict = {"by": by, "files": [str(project / name) for name in changed[:MOST_FILES]]}
    note |= {"more": len(changed) - MOST_FILES} if len(changed) > MOST_FILES else {}
    note |= {"worktree": worktree} if worktree else {}
    return note | ({"command": run.noted} if run is not None else {})
