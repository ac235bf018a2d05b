"""Select the tool schemas of an epoch, so that a recipe with few tools does not pay for the others.

Also finds unknown tool names in a recipe, and checks if the model can read drops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.window.lane import Lane
from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.entry import Epoch
from nexus_cli.core.errors import nearest_name
from nexus_cli.core.services import Workers
from nexus_cli.core.wire import canonical
from nexus_cli.lane.spending import Spending
from nexus_cli.tools.registry import ToolRegistry, discover_tools

Schemas = Sequence[dict[str, Any]]
SMALL_WINDOW = 16_000
"""Tokens below which a window is small."""
OPTIONAL = (
    *("plan", "wait_for", "agents", "agent", "context", "search_memory", "forget", "remember"),
    *("ask_person", "fetch", "jobs", "todo"),
)
"""Tools without which files can be read, edited and tested, in the order in which they leave."""


def select_tools(
    registry: ToolRegistry, recipe: Recipe, now: Epoch | None = None, *, attended: bool = False
) -> Schemas:
    """Return the schemas of the tools that `recipe` allows.

    `now` is the epoch of a resumed session. If it has tools that the recipe does not allow, all schemas are returned.
    `attended`: a person is at the terminal, see `Tool.offered`. Tools that `now` has are kept.
    """
    tools, categories = recipe.limits.tools, recipe.limits.categories
    before = {str(tool["function"]["name"]) for tool in now.tools} if now else set()
    here = ("", "attended" if attended else "unattended")
    names = {
        tool.name
        for tool in registry.tools()
        if (tools is None or tool.name in tools)
        and (categories is None or str(tool.effect) in categories)
        and not (Workers in tool.needs and recipe.limits.sub_agents is False)
        and (tool.offered in here or tool.name in before or (tool.offered == "named" and tools is not None))
    }
    unsent = {tool.name for tool in registry.tools() if tool.offered == "never"} - before
    every = [one for one in registry.get_definitions() if one["function"]["name"] not in unsent]
    return [one for one in every if one["function"]["name"] in names] if before <= names else every


def tools_without_room(tools: Schemas, window: int, count: Callable[[str], int]) -> tuple[str, ...]:
    """Return the names of the tools that a window in tokens has no room for.

    In a small window the optional tools leave, in a fixed order, until the schemas take at most a twelfth of it.
    """
    if window >= SMALL_WINDOW:
        return ()
    sizes = {str(tool["function"]["name"]): count(canonical(tool).decode()) for tool in tools}
    left_out: list[str] = []
    for name in OPTIONAL:
        if name in sizes and sum(sizes.values()) > window // 12:
            del sizes[name]
            left_out.append(name)
    return tuple(left_out)


def describe_left_out(window: int, names: Collection[str]) -> str:
    """Return a line for the person about tools that a small window has no room for."""
    return f"small context window ({window:,} tokens): without the tools {', '.join(names)}"


def missing_tools(window: int, tools: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the optional tools that a request with `tools` in a small window lacks, of those offered everywhere."""
    there = {str(tool["function"]["name"]) for tool in tools}
    known = {tool.name for tool in discover_tools().values() if not tool.offered}
    return tuple(name for name in OPTIONAL if window < SMALL_WINDOW and there and name in known - there)


def unknown_tools(recipe: Recipe) -> tuple[str, ...]:
    """Return a warning line for each unknown tool name in `recipe`, which may be misspelt."""
    named = recipe.limits.tools
    known = discover_tools() if named else {}
    unknown = sorted(name for name in named or () if name not in known)
    return tuple(_unknown_tool_line(recipe.name, name, known) for name in unknown)


def _unknown_tool_line(recipe: str, name: str, known: Collection[str]) -> str:
    near = nearest_name(name, known)
    hint = f"; the nearest is {near}" if near else ""
    return f"recipe {recipe} names the tool {one_line(name)[:80]!r}, which there is not{hint}"


def can_recall(lane: Lane, spending: Spending) -> bool:
    """True if the model has the tool `recall` and the limits allow it. The person can read every drop anyway."""
    allowed = spending.limits.tools
    offered = (tool.get("function", {}).get("name") for tool in lane.epoch.tools)
    return RECALL in offered and (allowed is None or RECALL in allowed)
