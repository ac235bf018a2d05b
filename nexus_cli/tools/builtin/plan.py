"""`plan`: schedule work, once or repeatedly."""

from __future__ import annotations

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import PlanRequest, Plans
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


async def run(arguments: PlanRequest, context: ToolContext) -> ToolResult:
    """Add, list or remove plans of the project."""
    return await run_in_thread(lambda stop: context.service(Plans).change(context.call_id, arguments))


def preview(arguments: PlanRequest, context: ToolContext) -> EditPreview:
    """Return the whole plan: times, rights and limits, and its prompt."""
    return EditPreview(f"{context.service(Plans).describe(arguments)}\nprompt:\n{arguments.prompt}")
