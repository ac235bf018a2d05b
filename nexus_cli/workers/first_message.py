"""The first message of a worker: its task, its folder and the files that were named (seed B's worker prompt).

Rules, identity and instructions are the bytes that the parent session sends, so they are in the provider's cache.
"""

from __future__ import annotations

import json

from nexus_cli.context.sections.prompts import load_prompt
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool, ToolContext, find_governing
from nexus_cli.lane.spending import describe_budget
from nexus_cli.permission.permission import Grant, resolve_targets
from nexus_cli.session.session import Session
from nexus_cli.tools.files import ToolError
from nexus_cli.workers.worker import Worker

MOST_FILES = 20
"""Most files whose content is included; the others are only named."""


async def first_message(worker: Worker, session: Session, rights: Limits) -> str:
    """Return the first message of a worker's session.

    Files that may not be read unasked are named without their content. If `rights`, those of the parent session, allow
    no reading, no file is included.
    """
    lines = []
    if worker.worktree:
        lines.append(f"- Your working folder is {session.folder}, a copy of the project, not the one named above.")
        lines += [f"- In it: {notice}." for notice in worker.notices]
    if tools := worker.scope.tools:
        lines.append(f"- For this task you may use: {', '.join(sorted(tools))}. Other calls are refused.")
    if budget := describe_budget(worker.scope):
        lines.append(f"- {budget}")
    recipe = session.state.recipe
    if recipe.name != "worker" and recipe.instruction:
        lines.append(f"\n# Role\n{recipe.instruction}")
    text = load_prompt("worker", place="\n".join(lines), task=worker.task)
    tool = find_reader(session)
    reading = Limits(tools=frozenset({tool.name} if tool else ()), categories=frozenset({str(Effect.READ)}))
    may_read = reading <= Limits(tools=rights.tools, categories=rights.categories)
    files = list(dict.fromkeys(worker.files))
    shown = [await _quote_file(path, session, may_read) for path in files[:MOST_FILES]]
    shown += [f"{path}: not shown (one of more than {MOST_FILES})" for path in files[MOST_FILES:]]
    return "\n\n".join([text, *(["# Files", *shown] if shown else [])])


def name_sender(text: str, source: str) -> str:
    """Return a later message to a worker; that of a model begins with a line that no text of its can pass for."""
    return text if source == "person" else f"[nexus: the agent that started you writes, not the person]\n{text}"


def find_reader(session: Session) -> Tool | None:
    """Return the tool by which the session reads a file, None if it has none."""
    return find_governing(session.state.dispatcher.registry.tools(), Effect.READ)


async def _quote_file(path: str, session: Session, may_read: bool) -> str:
    if not may_read:
        return f"{path}: not shown (reading is not for this run)"
    result = await read_unasked(path, session)
    if result is None or result.error:
        return f"{path}: not shown ({result.error if result else 'reading it needs permission'})"
    return f"<file path={json.dumps(path)}>\n{result.output}\n</file>"


async def read_unasked(path: str, session: Session) -> ToolResult | None:
    """Return a file as the session's model would read it, None if reading it needs approval."""
    dispatcher = session.state.dispatcher
    tool = find_reader(session)
    if tool is None:
        return None
    checked = {tool.paths[0]: path}
    try:
        targets = resolve_targets(tool, checked, dispatcher.cwd)
    except ToolError as error:
        return ToolResult(error=str(error))
    level = dispatcher.limits.allow or "read"
    if not isinstance(dispatcher.permission.decide(tool, checked, level, targets).verdict, Grant):
        return None
    cap = session.state.lane_state.window.budget.output_cap
    context = ToolContext(
        dispatcher.cwd, dispatcher.project, cap, "", lambda text: None, dispatcher.services, targets=targets
    )
    return await tool.run(checked, context)
