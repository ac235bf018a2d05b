"""Describe the tools of a session to a model that was not sent their schemas, see `use_tool`."""

from __future__ import annotations

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ServerTools
from nexus_cli.session.session_state import SessionState


async def describe_tool(state: SessionState, name: str) -> ToolResult:
    """Describe a tool, or find tools by words; see `ToolCatalogue`."""
    registry = state.dispatcher.registry
    if found := registry.describe(name):
        return ToolResult(found)
    servers = state.services.made(ServerTools)
    failed = await servers.settle() if servers else ()
    if found := registry.describe(name) or registry.search(name):
        return ToolResult("\n".join([found, *failed]))
    return ToolResult(error="\n".join([registry.describe_unknown(name), *failed]), ran=False)
