"""Agents: roles of workers, read from `agents/NAME.md` as Claude Code has them. A role narrows what a worker may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.limits import Limits
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.skills import Skill, read_guide
from nexus_cli.tools.foreign_calls import find_our_tools
from nexus_cli.tools.registry import discover_tools

WORKTREE = "worktree"
"""The value of `isolation` with which a worker changes a copy of the project."""
_NAMED = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_ALL = ("*", "all")
_MOST_DIGITS = 6


def make_agent_recipe(agent: Skill, worker: Recipe) -> Recipe:
    """Return the recipe of a `worker` with the role of an agent, and its tools and steps as limits.

    Raises `NexusError("config", ...)` if the file cannot be read.
    """
    return replace(
        worker,
        name=agent.name,
        description=agent.description,
        role=read_guide(agent),
        limits=worker.limits & read_limits(agent),
        source=agent.path,
    )


def read_limits(agent: Skill) -> Limits:
    """Return the tools and steps that the front matter of an agent allows; `None` where it says nothing."""
    return Limits(tools=_read_tools(agent), max_steps=_read_steps(agent.fields.get("maxturns", "")))


def check_agent_fields(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield field and problem for each tool that an agent names and nexus does not have, and for invalid values."""
    known = discover_tools()
    for field in ("tools", "disallowedtools"):
        for named in _NAMED.findall(fields.get(field, "")):
            name, _, pattern = named.partition("(")
            if pattern:
                yield field, f"the pattern of {one_line(named)} is not applied: rules decide"
            if name.startswith("mcp__"):
                yield field, f"{one_line(name)} is not there: a worker has no MCP servers"
            elif not (name in _ALL or find_our_tools(name) or name in known):
                yield field, f"there is no tool {one_line(name)} here"
    if _read_steps(fields.get("maxturns", "1")) is None:
        yield "maxturns", "maxTurns must be a whole number above 0, with at most 6 digits"
    if fields.get("isolation", WORKTREE) != WORKTREE:
        yield "isolation", f"isolation must be {WORKTREE}"


def _read_steps(text: str) -> int | None:
    return (int(text) or None) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _read_tools(agent: Skill) -> frozenset[str] | None:
    """Return the allowed tools: none if `tools` is empty, all if it is missing."""
    named, excluded = ({*_find_tools(agent.fields.get(field, ""))} for field in ("tools", "disallowedtools"))
    is_narrowed = "tools" in agent.fields and named.isdisjoint(_ALL)
    if not is_narrowed and not excluded:
        return None
    allowed = {RECALL, *named} if is_narrowed else {*discover_tools()}
    return frozenset(allowed - excluded if excluded.isdisjoint(_ALL) else {RECALL})


def _find_tools(text: str) -> Iterator[str]:
    """Yield our names of the tools in a list: `Bash` is no patch, which a model may write as a command."""
    for named in _NAMED.findall(text):
        name = named.partition("(")[0]
        yield from [one for one in find_our_tools(name) if one in discover_tools()] or [name]
