"""What configured MCP servers cost: prompt tokens with 0, 10 and 100 tools, and CPU up to the request with five servers
that are not used. Their lists are stored before, as after the first session that asked them; none is started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from benchmarks.measure import in_turns, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, ask, stage, undisturbed

from nexus_cli.mcp.server_entries import read_servers
from nexus_cli.mcp.server_values import ServerOffer, ServerTool
from nexus_cli.mcp.tool_cache import make_list, store_list

ISSUE = {
    "type": "object",
    "properties": {
        "owner": {"type": "string", "description": "Owner of the repository"},
        "repo": {"type": "string", "description": "Name of the repository"},
        "number": {"type": "integer", "description": "Number of the issue"},
        "body": {"type": "string", "description": "Text of the comment, in Markdown"},
    },
    "required": ["owner", "repo", "number"],
}
"""The arguments of a tool as the servers of registries have them."""


def configure(here: Stage, servers: int, tools: int) -> None:
    """Configure so many servers, and store a list with `tools` tools in all."""
    home = here.scene.environment["NEXUS_HOME"]
    entries = {f"server{number}": {"command": "/bin/false", "args": [str(number)]} for number in range(servers)}
    (Path(home) / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    with mock.patch.dict(os.environ, {"NEXUS_HOME": home}):
        for entry in read_servers(here.scene.folder).entries.values():
            share = range(tools // servers)
            named = (ServerTool(f"tool_{one}", "Comment on an issue of a repository.", ISSUE) for one in share)
            store_list(entry, make_list(ServerOffer(tuple(named))))


def tokens(here: Stage) -> float:
    """Prompt tokens of the first request, as the server counts them."""
    here.watch(ask("hi"), lambda number: "done", undisturbed)
    return float(here.server.requests[0].tokens.input)


def rows(times: int) -> Iterator[Row]:
    """Tokens once each: they do not vary."""
    with stage() as here:
        counted: dict[int, float] = {}
        for tools in (0, 10, 100):
            configure(here, 5 if tools else 0, tools)
            counted[tools] = tokens(here)
        for tools, most in ((10, 1250), (100, 100)):
            added = counted[tools] - counted[0]
            yield Row(f"what {tools} tools of 5 servers add to a prompt", added, "tokens", most=most)

        def measure(servers: int) -> Callable[[], float]:
            def run() -> float:
                configure(here, servers, 10 * bool(servers))
                return here.watch(ask("hi"), lambda number: "done", undisturbed).cpu[0]

            return run

        with_five, without = in_turns(times, measure(5), measure(0))
        yield Row("start to request, 5 servers", milliseconds(with_five), "ms", milliseconds(without), "none", 1.1)


BENCHMARK = Benchmark("MCP servers that are configured and not used", rows)
