"""The tools of an epoch, by who is there."""

from __future__ import annotations

from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.core.entry import Epoch
from nexus_cli.core.limits import Limits
from nexus_cli.core.memory import Facts
from nexus_cli.core.services import Plans, Waits
from nexus_cli.lane.tool_selection import Schemas, select_tools
from nexus_cli.tools.registry import ToolRegistry

REGISTRY = ToolRegistry(services={Plans: 1, Waits: 1})


def _names(found: Schemas) -> set[str]:
    return {one["function"]["name"] for one in found}


def test_plans_and_waits_are_offered_where_no_person_is_at_the_terminal() -> None:
    alone, attended = (
        _names(select_tools(REGISTRY, Recipe("a"))),
        _names(select_tools(REGISTRY, Recipe("a"), attended=True)),
    )
    assert alone - attended == {"plan", "wait_for"}


def test_a_resumed_session_keeps_the_tools_of_its_epoch() -> None:
    before = select_tools(REGISTRY, Recipe("a"))
    now = Epoch(0, None, "start", "openai/x", "", tuple(before), "", (), 0)
    assert select_tools(REGISTRY, Recipe("a"), now, attended=True) == before


def test_forget_is_offered_where_the_recipe_names_it() -> None:
    registry = ToolRegistry(services={Facts: 1})
    named = Limits(tools=frozenset({"forget", "remember"}))
    assert _names(select_tools(registry, Recipe("a", limits=named))) == {"forget", "remember"}
    offered = _names(select_tools(registry, Recipe("a")))
    assert "remember" in offered and "forget" not in offered and registry.get("forget"), "a call of it still runs"
