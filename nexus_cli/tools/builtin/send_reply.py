"""`send_reply`: reply to a message of a space."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class SendReplyArguments:
    """The arguments of `send_reply`."""

    message_id: str
    text: str


async def run(arguments: SendReplyArguments, context: ToolContext) -> ToolResult:
    """Return the id of the message, and the runs that it started."""
    return await run_in_thread(
        lambda stop: context.service(Spaces).reply(context.call_id, arguments.message_id, arguments.text)
    )
