"""Make entries of the MCP servers that an editor names for a session: those of that session alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp import schema

from nexus_cli.core.elide import one_line
from nexus_cli.mcp.server_values import ServerEntry

_UNNAMED = re.compile(r"[^A-Za-z0-9.-]+")
"""What a name of ours does not have; an editor's is for people."""
LONGEST = 64


def make_entries(servers: Sequence[Any], folder: Path) -> tuple[tuple[ServerEntry, ...], list[str]]:
    """Return the servers of `session/new`, and a line for each that cannot be used. Values are taken as they are: no
    `${NAME}` in them stands for a variable."""
    entries: dict[str, ServerEntry] = {}
    problems: list[str] = []
    for one in servers:
        name = _UNNAMED.sub("_", one.name).strip("_.-")[:LONGEST].strip("_.-")
        if not name or name in entries:
            problems.append(f"MCP server {one_line(one.name)[:LONGEST]!r} of the editor needs another name")
            continue
        match one:
            case schema.McpServerStdio(command=command, args=args, env=env):
                entries[name] = ServerEntry(
                    name,
                    (command, *args),
                    values={variable.name: variable.value for variable in env},
                    cwd=str(folder),
                    source="editor",
                    file="the editor",
                    shown=one_line(" ".join([command, *args])),
                )
            case schema.McpServerHttp(url=url, headers=headers):
                values = {header.name: header.value for header in headers}
                entries[name] = ServerEntry(
                    name, url=url, headers=values, source="editor", file="the editor", shown=one_line(url)
                )
            case _:
                kind = str(getattr(one, "type", "unknown"))
                problems.append(f"MCP server {name} of the editor is left out: nexus has no transport {kind}")
    return tuple(entries.values()), problems
