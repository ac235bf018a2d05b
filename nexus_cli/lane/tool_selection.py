"""Select the tool schemas of an epoch, so that a recipe with few tools does not pay for the others.

Also finds unknown tool names in a recipe, and checks if the model can read drops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.window.lane import Lane
from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.entry import Epoch
from nexus_cli.core.errors import nearest_name
from nexus_cli.core.services import Workers
from nexus_cli.lane.spending import Spending
from nexus_cli.tools.registry import ToolRegistry, discover_tools

Schemas = Sequence[dict[str, Any]]


def select_tools(registry: ToolRegistry, recipe: Recipe, now: Epoch | None = None) -> Schemas:
    """Return the schemas of the tools that `recipe` allows.

    `now` is the epoch of a resumed session. If it has tools that the recipe does not allow, all schemas are returned.
    """
    tools, categories = recipe.limits.tools, recipe.limits.categories
    names = {
        tool.name
        for tool in registry.tools()
        if (tools is None or tool.name in tools)
        and (categories is None or str(tool.effect) in categories)
        and not (Workers in tool.needs and recipe.limits.sub_agents is False)
    }
    before = {str(tool["function"]["name"]) for tool in now.tools} if now else set()
    every = registry.get_definitions()
    return [one for one in every if one["function"]["name"] in names] if before <= names else every


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
