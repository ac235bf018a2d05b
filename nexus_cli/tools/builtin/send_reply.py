"""`send_reply`: answer one message of a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return the id of the message, and what it started."""
    spaces: Spaces = context.services[Spaces]
    message, text = arguments["message_id"], arguments["text"]
    return await run_in_thread(lambda stop: spaces.reply(context.call_id, message, text))


def recover(call_id: str, services: Mapping[type, Any]) -> ToolResult | None:
    """Return what became of a message that an earlier process began to send."""
    spaces: Spaces = services[Spaces]
    return spaces.recover(call_id)
