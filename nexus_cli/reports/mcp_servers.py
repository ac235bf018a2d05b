"""Report the MCP servers of a folder: what they offer, what that costs, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.mcp.server_tools import Catalogue, ServerRow
from nexus_cli.mcp.tool_cache import MOST_TOKENS
from nexus_cli.reports.text.blocks import Blocks, OneLine, Table
from nexus_cli.reports.text.lines import cut_line, plural


class ServersReport(VersionedReport):
    """The active MCP servers."""

    servers: list[JsonOf[ServerRow]]
    sent: Literal["each", "one"]
    """`each`: requests contain every tool; `one`: requests contain `use_tool` in their place."""
    problems: list[str]
    """One line for each entry that is left out."""


class ServerToolsReport(VersionedReport):
    """The tools of a server."""

    server: str
    tools: list[dict[str, str]]
    """Name and description of each."""
    tokens: int
    """Tokens of their schemas."""
    seconds: float
    """Seconds until the server answered; 0 if it did not."""
    error: str
    """The reason that an added server did not answer; may be empty."""
    left_out: list[str]
    """One line for each tool that is not offered, with the reason."""


LONGEST = 120
"""Most characters of a line about a tool."""
NONE = "No MCP servers. Add a server with `nexus mcp add NAME COMMAND...` or `nexus mcp add NAME URL`"


def servers_report(catalogue: Catalogue, failed: Mapping[str, str]) -> ServersReport:
    """Return the report of `nexus mcp list --json`; `failed` has reasons by hash of the entry."""
    return {
        "version": 1,
        "servers": to_json_value(catalogue.describe_servers(failed)),
        "sent": "each" if catalogue.tokens <= MOST_TOKENS else "one",
        "problems": list(catalogue.files.problems),
    }


def mcp_servers_text(value: JsonObject) -> Blocks:
    """List the servers, each on one line where there is room, then problems and the cost."""
    columns = {"name": "name", "tools": "tools", "tokens": "tokens", "from": "source", "server": "target"}
    notes = [server["why"] for server in value["servers"] if server["why"]] + list(value["problems"])
    notes += [f"MCP server {server['name']}: {line}" for server in value["servers"] for line in server["left_out"]]
    if not value["servers"]:
        notes.insert(0, NONE)
    if tokens := sum(server["tokens"] or 0 for server in value["servers"]):
        how = "requests contain every tool" if value["sent"] == "each" else "requests contain `use_tool` instead"
        notes.append(f"The schemas take {tokens:,} tokens, so {how}")
    return [Table(columns, value["servers"]), *notes]


def server_tools_text(value: JsonObject) -> Blocks:
    """List the tools of one server that was just asked, and what they cost."""
    tools = value["tools"]
    head = f"{plural(len(tools), 'tool')}, {value['tokens']:,} tokens, {value['seconds']:.1f} s"
    rows = (OneLine(cut_line(f"{tool['name']} {tool['description']}", LONGEST)) for tool in tools)
    return [head, *rows, *value["left_out"]]
