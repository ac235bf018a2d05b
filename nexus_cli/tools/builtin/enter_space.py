"""`enter_space`: choose the active space."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class EnterSpaceArguments:
    """The arguments of `enter_space`."""

    space: str


async def run(arguments: EnterSpaceArguments, context: ToolContext) -> ToolResult:
    """Activate the space and return its members."""
    return context.service(Spaces).enter(arguments.space)
