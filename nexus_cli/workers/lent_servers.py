"""Lend the MCP servers of a session to its workers: what they may call, their own rules and limits decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ServerTools
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class LentServers(ServerTools):
    """Implements `ServerTools` for a worker, by those of its parent, which starts and ends the servers."""

    owner: ServerTools
    lender: ToolRegistry
    """The tools of the parent, which its servers may list anew at any time."""
    borrower: ToolRegistry

    async def prepare(self) -> None:
        self._take_tools()

    async def call(self, server: str, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        return await self.owner.call(server, tool, arguments, context)

    async def read_resource(self, server: str, uri: str) -> ToolResult:
        return await self.owner.read_resource(server, uri)

    async def refresh(self, server: str) -> None:
        await self.owner.refresh(server)
        self._take_tools()

    async def attach(self, trigger: Trigger) -> Trigger:
        return trigger

    async def settle(self) -> Sequence[str]:
        return await self.owner.settle()

    def rows(self) -> Sequence[JsonObject]:
        return self.owner.rows()

    async def aclose(self) -> None:
        return

    def _take_tools(self) -> None:
        """Give the worker the tools of servers as their definitions are now."""
        self.borrower.add(tool for tool in self.lender.tools() if tool.server)
