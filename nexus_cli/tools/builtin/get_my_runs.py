"""`get_my_runs`: list the agent's runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return a line for each run."""
    spaces: Spaces = context.services[Spaces]
    return await run_in_thread(lambda stop: spaces.runs())
