"""Describe the tools of a session to a model that was not sent their schemas, see `use_tool`."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ServerTools, ToolCatalogue
from nexus_cli.session.session_state import SessionState
from nexus_cli.tools.schema import describe_tool


@dataclass(frozen=True, slots=True)
class SessionTools(ToolCatalogue):
    """Implements `ToolCatalogue`."""

    state: SessionState

    async def describe(self, name: str) -> ToolResult:
        registry, failed = self.state.dispatcher.registry, list[str]()
        if registry.get(name) is None and (servers := self.state.services.made(ServerTools)):
            failed = [*await servers.settle()]
        if tool := registry.get(name):
            return ToolResult(describe_tool(tool))
        if found := registry.search(name):
            return ToolResult("\n".join([found, *failed]))
        return ToolResult(error="\n".join([registry.describe_unknown(name), *failed]), ran=False)
