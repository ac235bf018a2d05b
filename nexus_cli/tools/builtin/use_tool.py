"""`use_tool`: describe a tool whose schema the model was not sent. A call of such a tool through it never gets here:
`core.message.unwrap_call` makes it a call of that tool."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ToolCatalogue
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class NamedToolArguments:
    """The arguments of the named tool, which never arrive here."""


@dataclass(frozen=True, slots=True)
class UseToolArguments:
    """The arguments of `use_tool`."""

    name: str
    arguments: NamedToolArguments | None = None


async def run(arguments: UseToolArguments, context: ToolContext) -> ToolResult:
    """Return description and arguments of the named tool, or the tools that its words find."""
    return await context.service(ToolCatalogue).describe(arguments.name)
