"""`/mcp`: the MCP servers of the session. `session/session_servers.py` runs them."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, CommandContext, always
from nexus_cli.core.services import ServerTools
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.session.session_servers import describe_servers, servers_report


async def show_servers(context: CommandContext, rest: str) -> None:
    """List MCP servers, their tools and tokens.

    `nexus mcp add`, `login` and `remove` in a shell change them, from the next message on.
    """
    folder = context.session.folder
    catalogue = await asyncio.to_thread(Catalogue.read, folder, context.options.servers)
    running = context.session.state.services.made(ServerTools)
    failed = {row["name"]: row["why"] for row in running.rows() if row["why"]} if running else {}
    by_hash = {entry.sha256: failed[name] for name, entry in catalogue.entries.items() if name in failed}
    context.show("mcp_servers", servers_report(catalogue, describe_servers(catalogue, by_hash)))


COMMANDS = (Command("mcp", "nexus", show_servers, served=always),)
