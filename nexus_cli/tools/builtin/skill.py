"""`skill`: read the guide of a skill, or another file of its folder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import SkillGuides
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class SkillArguments:
    """The arguments of `skill`."""

    name: str
    file: str = ""


async def run(arguments: SkillArguments, context: ToolContext) -> ToolResult:
    """Return the text; an unknown name is an error with the nearest one."""
    try:
        return ToolResult(
            await asyncio.to_thread(context.service(SkillGuides).read_skill, arguments.name, arguments.file)
        )
    except NexusError as error:
        return ToolResult(error=error.line)
