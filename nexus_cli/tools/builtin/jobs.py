"""`jobs`: list, read, write to or stop the commands of this session that run in the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Jobs
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class JobsArguments:
    """The arguments of `jobs`."""

    action: Literal["list", "read", "write", "stop"]
    job: str = ""
    text: str = ""


async def run(arguments: JobsArguments, context: ToolContext) -> ToolResult:
    """Perform the action and return its result."""
    return await context.service(Jobs).manage(arguments.action, arguments.job, arguments.text)
