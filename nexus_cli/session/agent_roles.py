"""Agents: roles of workers, read from `agents/NAME.md` as Claude Code has them. A role narrows what a worker may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.limits import Limits
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.skills import AGENT, Skill, find_guides, read_guide
from nexus_cli.tools.foreign_calls import names_of_ours
from nexus_cli.tools.registry import discover_tools

WORKTREE = "worktree"
"""The value of `isolation` with which a worker changes a copy of the project."""
_NAMED = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_ALL = ("*", "all")


def find_agents(cwd: Path) -> dict[str, Skill]:
    """Return the agents that can work in a folder, by name. Blocks; raises nothing."""
    return {one.name: one for one in find_guides(cwd, AGENT)[0] if one.is_usable}


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
    steps = agent.fields.get("maxturns", "")
    return Limits(tools=_read_tools(agent), max_steps=int(steps) if steps.isdecimal() and int(steps) else None)


def check_agent_fields(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield field and problem for each tool that an agent names and nexus does not have, and for invalid values."""
    known = discover_tools()
    for field in ("tools", "disallowedtools"):
        for named in _NAMED.findall(fields.get(field, "")):
            name, _, pattern = named.partition("(")
            if pattern:
                yield field, f"the pattern of {one_line(named)} is not applied: rules decide"
            if not (name in _ALL or names_of_ours(name) or name in known or _is_of_server(name)):
                yield field, f"there is no tool {one_line(name)} here"
    steps, isolation = fields.get("maxturns", "1"), fields.get("isolation", WORKTREE)
    if not (steps.isdecimal() and int(steps)):
        yield "maxturns", "maxTurns must be a whole number above 0"
    if isolation != WORKTREE:
        yield "isolation", f"isolation must be {WORKTREE}"


def _read_tools(agent: Skill) -> frozenset[str] | None:
    named, excluded = (agent.fields.get(field, "") for field in ("tools", "disallowedtools"))
    is_narrowed = named.strip() and not set(_ALL) & set(_NAMED.findall(named))
    if not is_narrowed and not excluded:
        return None
    allowed = {RECALL, *_find_tools(named)} if is_narrowed else {*discover_tools()}
    return frozenset(allowed - {*_find_tools(excluded)})


def _find_tools(text: str) -> Iterator[str]:
    """Yield our names of the tools in a list."""
    for named in _NAMED.findall(text):
        name = named.partition("(")[0]
        yield from names_of_ours(name) or [name]


def _is_of_server(name: str) -> bool:
    return name.startswith("mcp__") and "__" in name.removeprefix("mcp__")
