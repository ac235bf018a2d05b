"""Review the worktree of a worker or apply it to the project, for the model of the parent session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect
from nexus_cli.permission.permission import Grant, resolve_targets
from nexus_cli.tools.files import ToolError
from nexus_cli.turn.dispatch import Dispatcher
from nexus_cli.workers.worker import Worker
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.worktrees import diff_worktree, find_worktree_of, list_unapplied

MOST_REASONS = 5


async def review_worktree(worker: Worker, dispatcher: Dispatcher, action: str, path: str) -> ToolResult:
    """Return the changes in a worker's worktree, of one `path` if it is given, or apply them to the project.

    They are applied only if an edit of each changed file would run unasked in the session of `dispatcher`.
    """
    if not worker.worktree:
        return ToolResult(error=f"{worker.id} worked in the project itself, not in a worktree", ran=False)
    try:
        record = await asyncio.to_thread(find_worktree_of, dispatcher.project, worker.worktree)
        if action == "diff":
            data = await asyncio.to_thread(diff_worktree, record, paths=(path,) if path else ())
            return ToolResult(data.decode(errors="replace") or "nothing has changed")
        if not worker.has_ended:
            return ToolResult(error=f"{worker.id} is still at work", ran=False)
        tree, paths = await asyncio.to_thread(list_unapplied, record)
        if refusals := await _find_refusals(dispatcher, paths):
            hint = f"The person can: nexus worktree apply {worker.worktree}"
            return ToolResult(error=f"not applied: {'; '.join(refusals)}. {hint}", ran=False)
        result = await asyncio.to_thread(apply_worktree, record, reviewed=tree)
    except NexusError as error:
        return ToolResult(error=f"{error.message}. {error.hint}".rstrip(". "), ran=False)
    if result.nothing_new:
        return ToolResult("nothing to apply: all of it is in the project")
    marked = {one.path for one in result.conflicts}
    lines = [f"applied {path}" for path in result.written if path not in marked]
    lines += [f"the same in the project: {path}" for path in result.there]
    for one in result.conflicts:
        where = "marked in the file" if one.is_marked else "not written"
        lines.append(f"conflict in {one.path}: {one.why}; {where}")
    return ToolResult("\n".join(lines), changed=tuple(result.written))


async def _find_refusals(dispatcher: Dispatcher, paths: Sequence[str]) -> list[str]:
    """Return the reasons that edits of these paths would not run unasked, at most `MOST_REASONS`; [] if all would.

    Relative paths start at the project.
    """
    tool = next((one for one in dispatcher.registry.tools() if one.governs and one.effect is Effect.EDIT), None)
    limits = dispatcher.limits & dispatcher.assessed
    if tool is None or (limits.tools is not None and tool.name not in limits.tools):
        return ["this run may not edit"]
    if limits.categories is not None and tool.effect not in limits.categories:
        return ["this run may not edit"]
    found: dict[str, None] = {}
    for path in paths:
        checked = {tool.paths[0]: str(dispatcher.project / path)}
        try:
            targets = resolve_targets(tool, checked, dispatcher.cwd)
        except ToolError as error:
            found[f"{path}: {error}"] = None
            continue
        verdict = (await dispatcher.decide_loaded(tool, checked, targets)).verdict
        if not isinstance(verdict, Grant):
            found[verdict.why] = None
    return list(found)[:MOST_REASONS]
