"""`read_messages`: read messages of a space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class ReadMessagesArguments:
    """The arguments of `read_messages`."""

    space: str = ""
    before: str = ""
    limit: Annotated[int, {"minimum": 1, "maximum": 100}] = 20


async def run(arguments: ReadMessagesArguments, context: ToolContext) -> ToolResult:
    """Return the messages, oldest first."""
    return await run_in_thread(
        lambda stop: context.service(Spaces).read(arguments.space, arguments.before, arguments.limit)
    )
