"""`agents`: list, read, steer or stop the workers of this session; look at their worktrees and apply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers
from nexus_cli.core.tool import ToolContext


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Perform the action and return its result."""
    workers: Workers = context.services[Workers]
    text, path = arguments.get("text", ""), arguments.get("path", "")
    return await workers.manage(arguments["action"], arguments.get("agent", ""), text, path)
