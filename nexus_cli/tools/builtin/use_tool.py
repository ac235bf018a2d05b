"""`use_tool`: describe a tool whose schema the model was not sent. A call of such a tool through it never gets here:
`core.message.unwrap_call` makes it a call of that tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ToolCatalogue
from nexus_cli.core.tool import ToolContext


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return description and arguments of the named tool, or the tools that its words find."""
    catalogue: ToolCatalogue = context.services[ToolCatalogue]
    return await catalogue.describe(arguments["name"])
