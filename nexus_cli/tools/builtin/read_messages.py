"""`read_messages`: read messages of a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread

DEFAULT = 20
"""Number of messages without `limit`."""


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return the messages, oldest first."""
    spaces: Spaces = context.services[Spaces]
    space, before, limit = arguments.get("space", ""), arguments.get("before", ""), arguments.get("limit", DEFAULT)
    return await run_in_thread(lambda stop: spaces.read(space, before, limit))
