"""`plan`: schedule work, once or repeatedly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def recover(call_id: str, services: Mapping[type, Any]) -> ToolResult | None:
    """Return the plan that an earlier process made for this call, or None."""
    plans: Plans = services[Plans]
    return plans.recover(call_id)
