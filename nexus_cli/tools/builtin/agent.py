"""`agent`: start a worker (`nexus_cli.workers`) with a task."""

from __future__ import annotations

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers, WorkerTask
from nexus_cli.core.tool import ToolContext


async def run(arguments: WorkerTask, context: ToolContext) -> ToolResult:
    """Return the worker's report, or a note that it works in the background."""
    return await context.service(Workers).start(context.call_id, arguments, context.stopped)
