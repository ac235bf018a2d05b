"""`send_message`: post a message in a space (`nexus_cli.spaces`)."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class SendMessageArguments:
    """The arguments of `send_message`."""

    text: str
    space: str = ""
    wait: bool = False


async def run(arguments: SendMessageArguments, context: ToolContext) -> ToolResult:
    """Return the id of the message, and the runs that it started."""
    return await run_in_thread(
        lambda stop: context.service(Spaces).send(context.call_id, arguments.text, arguments.space, wait=arguments.wait)
    )
