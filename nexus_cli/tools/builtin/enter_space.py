"""`enter_space`: choose the active space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Activate the space and return its members."""
    spaces: Spaces = context.services[Spaces]
    return spaces.enter(arguments["space"])
