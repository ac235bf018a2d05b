"""`jobs`: list, read, write to or stop the commands of this session that run in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Jobs
from nexus_cli.core.tool import ToolContext


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Perform the action and return its result."""
    jobs: Jobs = context.services[Jobs]
    return await jobs.manage(arguments["action"], arguments.get("job", ""), arguments.get("text", ""))
