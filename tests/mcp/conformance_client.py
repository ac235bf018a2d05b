"""Let the protocol's conformance suite drive our host: `conformance_client.py URL`, as its `--command`; by hand.

Lists the tools and calls each; logs in where the server wants it, in a browser that follows every redirect.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.mcp.host_process import McpHost
from nexus_cli.mcp.server_values import ServerEntry, ServerError, ServerQuestion, ServerTool

MAX_LOGINS = 2


async def follow(url: str) -> None:
    await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())


async def accept(_question: ServerQuestion) -> Mapping[str, Any]:
    return {}


def arguments_for(tool: ServerTool) -> dict[str, Any]:
    """Return a value of the right type for each argument that is asked for."""
    values: dict[str, Any] = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}
    fields = tool.parameters.get("properties", {})
    return {name: values.get(str(field.get("type")), "text") for name, field in fields.items()}


def arguments_of(tool: ServerTool, tools: Sequence[ServerTool]) -> dict[str, Any]:
    """Return the arguments of a call; one scenario wants the schema of another tool back as it was received."""
    if tool.name == "json_schema_echo":
        return {"schema": next(one.parameters for one in tools if one.name == "json_schema_2020_12_tool")}
    return arguments_for(tool)


async def play(host: McpHost, server: ServerEntry) -> None:
    tools = (await host.list_offer(server)).tools
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls")
    calls = wanted or [{"name": tool.name, "arguments": arguments_of(tool, tools)} for tool in tools]
    for call in calls:
        print(call["name"], await host.call(server, call["name"], call["arguments"], ask=accept))


async def main(url: str) -> int:
    host = McpHost()
    server = ServerEntry("conformance", url=url, call_seconds=20)
    try:
        for logins in range(MAX_LOGINS + 1):
            try:
                await play(host, server)
                return 0
            except ServerError as error:
                print(error.fault, error, file=sys.stderr)
                if error.fault != "login" or logins == MAX_LOGINS:
                    return 1
                await host.login(server, follow)
    except ServerError as error:
        print(error.fault, error, file=sys.stderr)
    finally:
        await host.aclose()
    return 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["NEXUS_HOME"] = home
        sys.exit(asyncio.run(main(sys.argv[-1])))
