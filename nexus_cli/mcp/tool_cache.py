"""Keep what servers say and list between sessions (instructions, tools, prompts, resources): a request has it before
any server is started.

One file for each server, named by the hash of its entry: another command or address has another list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.read_event import read_value
from nexus_cli.core.wire import canonical
from nexus_cli.mcp.server_entries import make_tool_name
from nexus_cli.mcp.server_values import ServerEntry, ServerOffer, ServerTool, describe_skipped
from nexus_cli.mcp.tool_schema import find_schema_fault

VERSION = 5
MAX_TOKENS = 2000
"""Tokens of all schemas up to which each tool is sent by itself."""
MAX_TOOLS = 1000
"""Most tools of one server."""
MAX_LEFT_OUT = 20
"""Most tools that are named as left out."""
MAX_RESOURCES = 500
"""Most resources of one server that are kept, for completion."""
MAX_INSTRUCTIONS = 8_000
"""Most characters of the instructions of one server."""
MAX_BYTES = 16 << 20
"""Most bytes of a list that is read."""
ENCODING = "o200k_base"
"""The tokens of a list must not depend on the model, or another model would be offered other tools."""


@dataclass(frozen=True, slots=True)
class ToolList(ServerOffer):
    """The part of an offer that is kept: its tools sorted by name, each name once."""

    tokens: int = 0
    """Tokens of all their schemas."""
    at: str = ""
    """Time of the server's answer, ISO 8601, UTC."""

    @property
    def count(self) -> int:
        """The number of the tools; null until the server was asked."""
        return len(self.tools)


def _path(entry: ServerEntry) -> Path:
    return places().cache / "mcp" / f"{entry.sha256}.json"


def read_list(entry: ServerEntry) -> ToolList | None:
    """Return the list of a server, None if there is none or the file is damaged."""
    try:
        with open(_path(entry), "rb") as file:
            value = json.loads(file.read(MAX_BYTES))
        tool_list: ToolList = read_value(ToolList, value)
        return tool_list if value["version"] == VERSION else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def make_list(offer: ServerOffer) -> ToolList:
    """Return a list of tools in the order in which it is sent, with its tokens. Blocks: it loads an encoder."""
    by_name, left_out = dict[str, ServerTool](), list(offer.left_out)
    for tool in sorted(offer.tools, key=lambda tool: (tool.name, tool.description)):
        if not tool.name:
            left_out.append(describe_skipped("without a name", "the model could not call it"))
        elif (first := by_name.setdefault(make_tool_name(tool.name), tool)) is not tool:
            why = f"its name conflicts with that of the tool {first.name}"
            left_out.append(describe_skipped(tool.name, why))
    offered = tuple(list(by_name.values())[:MAX_TOOLS])
    tokens = _count_tokens(offered)
    if tokens <= MAX_TOKENS and (
        faults := {tool.name: fault for tool in offered if (fault := find_schema_fault(tool.parameters))}
    ):
        left_out += [describe_skipped(name, fault) for name, fault in faults.items()]
        offered = tuple(tool for tool in offered if tool.name not in faults)
        tokens = _count_tokens(offered)
    prompts = tuple(sorted(offer.prompts, key=lambda prompt: prompt.name)[:MAX_TOOLS])
    resources = tuple(sorted(offer.resources)[:MAX_RESOURCES])
    instructions = offer.instructions[: 2 * MAX_INSTRUCTIONS]
    lines = left_out[:MAX_LEFT_OUT]
    if unlisted := len(left_out) - len(lines):
        lines.append(f"{plural(unlisted, 'more tool')} skipped for similar reasons")
    if len(by_name) > MAX_TOOLS:
        lines.append(
            f"only the first {MAX_TOOLS:,} tools by name are offered; the server lists {len(by_name):,} or more"
        )
    if len(offer.instructions) > MAX_INSTRUCTIONS:
        lines.append(f"only the first {MAX_INSTRUCTIONS:,} characters of its instructions are sent")
    return ToolList(offered, prompts, resources, instructions, tuple(lines), tokens=tokens, at=utc_now())


def _count_tokens(tools: Sequence[ServerTool]) -> int:
    count = TiktokenCounter(ENCODING).count
    return sum(count(canonical(_estimate_sent_form(tool)).decode()) for tool in tools)


def _estimate_sent_form(tool: ServerTool) -> JsonObject:
    """Return about what is sent of a tool; its real name has that of the server too."""
    function = {"name": f"mcp__server__{tool.name}", "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def store_list(entry: ServerEntry, tool_list: ToolList) -> bool:
    """Store the list of a server; return False if the same was stored before. A failed write is ignored."""
    before = read_list(entry)
    if before is not None and replace(before, at=tool_list.at) == tool_list:
        return False
    with suppress(OSError):  # the server is asked again
        _path(entry).parent.mkdir(parents=True, exist_ok=True)
        replace_private_file(_path(entry), json.dumps({"version": VERSION, **asdict(tool_list)}).encode())
    return True
