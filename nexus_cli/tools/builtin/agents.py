"""`agents`: list, read, steer or stop the workers of this session; look at their worktrees and apply them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Workers
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class AgentsArguments:
    """The arguments of `agents`."""

    action: Literal["list", "read", "steer", "stop", "diff", "apply"]
    agent: str = ""
    text: str = ""
    path: str = ""


async def run(arguments: AgentsArguments, context: ToolContext) -> ToolResult:
    """Perform the action and return its result."""
    return await context.service(Workers).manage(arguments.action, arguments.agent, arguments.text, arguments.path)
