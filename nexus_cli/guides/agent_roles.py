"""Agents: roles of workers, read from `agents/NAME.md` as Claude Code has them. A role narrows what a worker may do."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.limits import ASK, Limits
from nexus_cli.guides.skills import Skill
from nexus_cli.permission.folder_rules import NAMED_TOOL
from nexus_cli.tools.foreign_calls import find_our_tools
from nexus_cli.tools.registry import discover_tools

WORKTREE = "worktree"
"""The value of `isolation` with which a worker changes a copy of the project."""
_ALL = ("*", "all")
_SERVER = "mcp__"
"""The names of tools of MCP servers begin so."""
_MAX_DIGITS = 6


def read_limits(agent: Skill, cwd: Path) -> Limits:
    """Return the tools and steps that the front matter of an agent allows; `None` where it says nothing. Blocks."""
    level = ASK if agent.fields.get("sandbox_mode") == "read-only" else None  # as an agent of codex says
    steps = _read_steps(agent.fields.get("maxturns", ""))
    return Limits(allow=level, tools=_read_tools(agent, cwd), max_steps=steps)


def check_agent_fields(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield field and problem for each tool that an agent names and nexus does not have, and for invalid values."""
    known_tools = discover_tools()
    for field in ("tools", "disallowedtools"):
        for reference in NAMED_TOOL.findall(fields.get(field, "")):
            name, _, pattern = reference.partition("(")
            if pattern:
                yield (
                    field,
                    f"nexus ignores the pattern of {one_line(reference)}; to restrict calls, use `nexus rules add`",
                )
            is_known = name in _ALL or name.startswith(_SERVER) or find_our_tools(name) or name in known_tools
            if not is_known:
                yield field, f"unknown tool {one_line(name)}"
            if field == "tools" and "agent" in find_our_tools(name):
                yield field, "agents that this agent starts may use only its tools"
    if _read_steps(fields.get("maxturns", "1")) is None:
        yield "maxturns", "maxTurns must be a whole number above 0, with at most 6 digits"
    if fields.get("isolation", WORKTREE) != WORKTREE:
        yield "isolation", f"isolation must be {WORKTREE}"


def _read_steps(text: str) -> int | None:
    return (int(text) or None) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _read_tools(agent: Skill, cwd: Path) -> frozenset[str] | None:
    """Return the allowed tools: none if `tools` is empty, all if it is missing."""
    lists = [agent.fields.get(field, "") for field in ("tools", "disallowedtools")]
    if "tools" not in agent.fields and not lists[1]:
        return None
    known_tools = _list_known(cwd)
    named_tools, excluded = ({*_find_tools(text, known_tools)} for text in lists)
    is_narrowed = "tools" in agent.fields and named_tools.isdisjoint(_ALL)
    if not is_narrowed and not excluded:
        return None
    allowed = {RECALL, *named_tools} if is_narrowed else known_tools
    return frozenset(allowed - excluded if excluded.isdisjoint(_ALL) else {RECALL})


def _list_known(cwd: Path) -> set[str]:
    """Return the names of the built-in tools, and of those of the MCP servers of a folder that have listed theirs."""
    if not may_have_servers(cwd):
        return {*discover_tools()}
    from nexus_cli.mcp.server_tools import read_tools  # noqa: PLC0415  (few folders have servers)

    return {*discover_tools(), *(tool.name for tool in read_tools(cwd))}


def _find_tools(text: str, known_tools: Collection[str]) -> Iterator[str]:
    """Yield our names of the tools in a list: `Bash` is no patch, which a model may write as a command, and
    `mcp__SERVER` is each tool of a server, as `mcp__SERVER__*` is."""
    for reference in NAMED_TOOL.findall(text):
        name = reference.partition("(")[0]
        pattern = name if "__" in name.removeprefix(_SERVER) else f"{name}__*"
        ours = fnmatch.filter(known_tools, pattern) if name.startswith(_SERVER) else find_our_tools(name)
        yield from [tool_name for tool_name in ours if tool_name in known_tools] or [name]
