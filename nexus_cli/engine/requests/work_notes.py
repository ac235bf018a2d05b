"""Record file changes of calls, and outcomes of workers' commands, for the work record as they happen.

Each is a memo `work` in the conversation of the parent session, so that it survives a killed process, a deleted worker
session and compactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nexus_cli.conversation.compaction.work_log import CommandRun
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.memo_kinds import WORK
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.run_limits import CHANGES

MOST_FILES = 50
"""Most files of one call that are named; others, as after a `git checkout`, are only counted."""


def work_note(
    project: Path, changed: Sequence[str], by: str, run: CommandRun | None = None, worktree: str = ""
) -> dict[str, Any]:
    """Make the memo of one call; `changed` are paths relative to `project`, or absolute."""
    note: dict[str, Any] = {"by": by, "files": [str(project / name) for name in changed[:MOST_FILES]]}
    note |= {"more": len(changed) - MOST_FILES} if len(changed) > MOST_FILES else {}
    note |= {"worktree": worktree} if worktree else {}
    return note | ({"command": run.noted} if run is not None else {})


def note_worker_call(
    conversation: Conversation, worker: str, each: ToolResultEvent, tool: Tool | None, project: Path, worktree: str
) -> None:
    """Record the changes and the command of a worker's call in the conversation of its parent, if it has any."""
    if tool is None or tool.effect not in CHANGES:
        return
    command = str(each.call.arguments.get(tool.subject, "")).strip() if tool.effect is Effect.RUN else ""
    run = CommandRun.read(command, each.result.text) if command else None
    if run is not None or each.result.changed:
        with suppress(NexusError):  # the session was deleted meanwhile
            conversation.memo(WORK, work_note(project, each.result.changed, worker, run, worktree))
