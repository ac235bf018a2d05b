"""`get_my_runs`: list the agent's runs."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class GetMyRunsArguments:
    """`get_my_runs` has no arguments."""


async def run(arguments: GetMyRunsArguments, context: ToolContext) -> ToolResult:
    """Return a line for each run."""
    return await run_in_thread(lambda stop: context.service(Spaces).runs())
