"""Review the worktree of a worker or apply it to the project, for the model of the parent session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import dropwhile
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import ALL
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool, find_governing
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.permission.permission import resolve_targets
from nexus_cli.text.cells import one_line
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.registry import discover_tools
from nexus_cli.workers.worker import Worker
from nexus_cli.worktrees.apply_worktree import MergeConflict, UnappliedChanges, apply_worktree, list_unapplied
from nexus_cli.worktrees.worktrees import find_worktree_of, list_worktrees, read_changes

MAX_REASONS = 5


async def refresh_reviews(workers: Iterable[Worker], project: Path) -> None:
    """Update `left` of each worker whose worktree was applied or removed since its last turn."""
    for worker in workers:
        if not (worker.has_ended and worker.to_review):
            continue
        try:
            worktrees = await asyncio.to_thread(list_worktrees, project)
            record = next((worktree for worktree in worktrees if worktree.name == worker.worktree), None)
            unapplied = await asyncio.to_thread(list_unapplied, record) if record else None
        except NexusError:  # `diff` and `apply` report it
            continue
        if record is None or unapplied is None:
            worker.close_review("applied or discarded")
        elif not unapplied.paths and unapplied.tree != record.base:
            worker.left = f"worktree {record.folder}: all changes are applied; `steer` {worker.id} continues there"


async def review_worktree(worker: Worker, dispatcher: Dispatcher, action: str, path: str) -> ToolResult:
    """Return the changes in a worker's worktree, of one `path` if it is given, or apply them to the project.

    They are applied only if an edit of each changed file would run unasked in the session of `dispatcher`.
    """
    if not worker.worktree:
        return ToolResult(error=f"{worker.id} worked in the project itself, not in a worktree", ran=False)
    await refresh_reviews([worker], dispatcher.project_root)
    if worker.has_ended and worker.left and not worker.to_review:
        return ToolResult(error=worker.left, ran=False)
    try:
        record = await asyncio.to_thread(find_worktree_of, dispatcher.project_root, worker.worktree)
        if action == "diff":
            return await _show_changes(worker, record, path)
        if not worker.has_ended:
            return ToolResult(error=f"{worker.id} is still running", ran=False)
        changes = await asyncio.to_thread(list_unapplied, record)
        if refusals := await _find_refusals(dispatcher, changes):
            hint = f"The person can run: nexus worktree apply {worker.worktree}"
            return ToolResult(error=f"not applied: {'; '.join(refusals)}. {hint}", ran=False)
        work = partial(asyncio.to_thread, apply_worktree, record, reviewed=changes.tree)
        result, _ = await dispatcher.call_changes.follow(f"apply {worker.id}", "", record.source, work)
    except NexusError as error:
        return ToolResult(error=error.sentences.removesuffix("."), ran=False)
    if result.nothing_new:
        return ToolResult("nothing to apply: the project already has all changes")
    marked = {conflict.path for conflict in result.conflicts}
    lines = [f"applied {path}" for path in result.written if path not in marked]
    lines += [f"identical in the project: {path}" for path in result.there]
    for conflict in result.conflicts:
        sides = f"`yours` marks the project's version, `worktree {record.name}` that of {worker.id}"
        unwritten_note = f"not written: the project's version is kept; `diff` with this path shows that of {worker.id}"
        place = sides if conflict.is_marked else unwritten_note
        lines.append(f"conflict in {conflict.path}: {conflict.why}; {place}")
    return ToolResult("\n".join(lines), changed=tuple(result.written), warning=_describe_conflicts(result.conflicts))


def _describe_conflicts(conflicts: Sequence[MergeConflict]) -> str:
    """Return the number of conflicts and whether they are marked, for the person; "" for none."""
    marked = sum(conflict.is_marked for conflict in conflicts)
    marking = "marked" if marked == len(conflicts) else f"{marked} marked" if marked else "not written"
    return f"conflicts in {plural(len(conflicts), 'file')}, {marking}" if conflicts else ""


async def _show_changes(worker: Worker, record: WorktreeRecord, path: str) -> ToolResult:
    """Return the diff of a worktree: of one `path`, or of all; the second time of what has changed since."""
    since = "" if path or worker.seen_state[0] != record.created else worker.seen_state[1]
    changes = await asyncio.to_thread(read_changes, record, since=since, path=path)
    if not path:
        worker.seen_state = (record.created, changes.tree)
    text = changes.diff.decode(errors="replace") or "nothing has changed"
    if since not in ("", changes.tree):
        text = f'[changes since your last diff; to see all changes: `path` "."]\n{text}'
    counts = changes.counts
    return ToolResult(text, counts={"files": counts.files, "added": counts.added, "removed": counts.removed})


async def _find_refusals(dispatcher: Dispatcher, changes: UnappliedChanges) -> list[str]:
    """Return reasons that edits of the changed paths would ask or be refused, at most `MAX_REASONS`; [] if none would.

    The target of a link is judged as if it were edited.
    """
    tool = find_governing(dispatcher.registry.tools(), Effect.EDIT)
    limits = dispatcher.turn_limits
    if tool is None or (limits.tools is not None and tool.name not in limits.tools):
        return ["this run is not allowed to edit files"]
    if limits.categories is not None and tool.effect not in limits.categories:
        return ["this run is not allowed to edit files"]
    refusals: dict[str, None] = {}
    for path in changes.paths:
        refusals |= dict.fromkeys(await _find_edit_refusals(dispatcher, tool, path))
    for path, target in changes.links.items():
        if limits.allow != ALL and not _is_plain_target(target):
            reasons = ["its target is not a plain relative path"]
        else:
            reasons = await _find_edit_refusals(dispatcher, tool, os.path.join(os.path.dirname(path), target))
        refusals |= dict.fromkeys(f"{path} is a link to {target}: {why}" for why in reasons)
    return [one_line(why) for why in refusals][:MAX_REASONS]


def _is_plain_target(target: str) -> bool:
    """Return True if the target of a link is relative and has `..` only at its beginning: what a `..` after a name
    means depends on the other links."""
    parts = dropwhile(lambda part: part in ("", ".", ".."), target.split("/"))
    return not os.path.isabs(target) and ".." not in parts


async def _find_edit_refusals(dispatcher: Dispatcher, governing: Tool, path: str) -> list[str]:
    """Return reasons that an edit of a project's path would ask or be refused: by `governing`, which must grant it, or
    by a rule of another tool that edits."""
    other_tools = (
        tool for tool in discover_tools().values() if tool.effect is Effect.EDIT and tool.name != governing.name
    )
    refusals = []
    for tool in (governing, *other_tools):
        arguments = {tool.paths[0]: str(dispatcher.project_root / path)}
        try:
            targets = resolve_targets(tool, arguments, dispatcher.cwd)
        except ToolError as error:
            return [f"{path}: {error}"]
        decided = await dispatcher.decide_now(CheckedCall(tool, arguments, targets))
        if not decided.is_granted and (tool is governing or decided.rule):
            refusals.append(decided.why)
    return refusals
