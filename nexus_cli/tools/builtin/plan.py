"""`plan`: schedule work, once or repeatedly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Plans
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Add, list or remove plans of the project."""
    plans: Plans = context.services[Plans]
    action, words = arguments["action"], _words(arguments)
    return await run_in_thread(lambda stop: plans.change(context.call_id, action, words))


def preview(arguments: Mapping[str, Any], context: ToolContext) -> EditPreview:
    """Return the whole plan: times, rights and limits, and its prompt."""
    plans: Plans = context.services[Plans]
    words = _words(arguments)
    return EditPreview(f"{plans.describe(words)}\nprompt:\n{words['prompt']}")


def _words(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {
        "prompt": arguments.get("prompt", ""),
        "at": arguments.get("at", ""),
        "in": arguments.get("in", ""),
        "cron": arguments.get("cron", ""),
        "id": arguments.get("id", ""),
    }


def recover(call_id: str, services: Mapping[type, Any]) -> ToolResult | None:
    """Return the plan that an earlier process made for this call, or None."""
    plans: Plans = services[Plans]
    return plans.recover(call_id)
