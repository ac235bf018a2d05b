"""What calls changed and how workers' commands ended, noted for the record of the work as it happens.

A memo `work` stands in the lane of the session that it was done for, so that a process that is killed, a worker's
session that is deleted, or a compaction takes nothing of it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nexus_cli.context.window.timeline import Timeline
from nexus_cli.context.work_record import CommandRun, read_run
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.run_limits import CHANGES

WORK = "work"
"""Memo: `by` (`a command`, a worker such as `w1`, "": a file tool), `files` (absolute paths that were changed),
`more` (how many further ones),
`worktree` (name of the worker's, ""), `command`: how a worker's command ended, see `command_values`."""
COMMAND_DID = "a command"
MOST_FILES = 50
"""Files of one call that are named; of a `git checkout` that changes more the others are counted."""


def command_values(run: CommandRun) -> dict[str, Any]:
    """Return how a command ended, as memos have it: what of `CommandRun` the place of the memo does not say."""
    return {name: getattr(run, name) for name in ("command", "status", "error", "pipe", "output")}


def describe_changer(by: str) -> str:
    """Return how a file of a memo changed. What changed while a command ran may be the person's work, or another's."""
    return "changed while a command ran" if by == COMMAND_DID else f"changed by {by}"


def work_note(
    project: Path, changed: Sequence[str], by: str, run: CommandRun | None = None, worktree: str = ""
) -> dict[str, Any]:
    """Return the memo of one call; `changed` are paths relative to `project`, or absolute."""
    note: dict[str, Any] = {"by": by, "files": [str(project / name) for name in changed[:MOST_FILES]]}
    note |= {"more": len(changed) - MOST_FILES} if len(changed) > MOST_FILES else {}
    note |= {"worktree": worktree} if worktree else {}
    return note | ({"command": command_values(run)} if run is not None else {})


def note_worker_call(
    timeline: Timeline, worker: str, each: ToolResultEvent, tool: Tool | None, project: Path, worktree: str
) -> None:
    """Note what a call of a worker did in the lane that it works for; nothing of one that changed and ran nothing."""
    if tool is None or tool.effect not in CHANGES:
        return
    command = str(each.call.arguments.get(tool.subject, "")).strip() if tool.effect is Effect.RUN else ""
    run = read_run(command, each.result.text, 0) if command else None
    if run is not None or each.result.changed:
        with suppress(NexusError):  # the session was deleted meanwhile
            timeline.memo(WORK, work_note(project, each.result.changed, worker, run, worktree))
