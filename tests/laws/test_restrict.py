"""Law 7: limits only restrict, and a project's files widen nothing."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws.world import World, outcome, say, world

from nexus_cli.config import trust
from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import CATEGORIES, LEVELS, MODES, Limits, compose_limits
from nexus_cli.sections.find_recipe import recipe_for
from nexus_cli.sections.recipe import load_recipe
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options, limit_layers

numbers = st.none() | st.integers(1, 10**6)
amounts = st.none() | st.floats(0.001, 1e6)
names = st.frozensets(st.sampled_from(["bash", "read_file", "grep", "glob", "recall"]))
limits = st.builds(
    Limits,
    max_steps=numbers,
    max_total_tokens=numbers,
    max_cost=amounts,
    timeout=amounts,
    allow=st.none() | st.sampled_from(LEVELS),
    tools=st.none() | names,
    mode=st.none() | st.sampled_from(MODES),
    max_iterations=st.none() | st.integers(1, 20),
    categories=st.none() | st.frozensets(st.sampled_from(CATEGORIES)),
    confirm=st.none() | st.booleans(),
    multi_tool=st.none() | st.booleans(),
    sub_agents=st.none() | st.booleans(),
    sub_agent_budget=numbers,
    terminal_ends=st.none() | st.booleans(),
)


def permits(bound: Any, name: str, value: Any) -> bool:
    """Whether a limit of this name, taken alone, lets `value` pass: the meaning that the algebra has to keep."""
    if bound is None:
        return True
    if name in ("tools", "categories"):
        return value in bound
    if name in ("confirm", "terminal_ends"):
        return value or not bound
    if name in ("multi_tool", "sub_agents"):
        return bound or not value
    order = {"allow": LEVELS, "mode": MODES}.get(name)
    return order.index(value) <= order.index(bound) if order else value <= bound


TRIALS: dict[str, list[Any]] = {
    "max_steps": [1, 7, 10**6],
    "max_total_tokens": [1, 500, 10**6],
    "max_cost": [0.001, 3.0, 1e6],
    "timeout": [0.001, 3.0, 1e6],
    "allow": list(LEVELS),
    "tools": ["bash", "grep", "recall"],
    "mode": list(MODES),
    "max_iterations": [1, 3, 20],
    "categories": list(CATEGORIES),
    "confirm": [True, False],
    "multi_tool": [True, False],
    "sub_agents": [True, False],
    "sub_agent_budget": [1, 3, 8],
    "terminal_ends": [True, False],
}


@given(limits, limits, limits)
def test_limits_form_a_meet(a: Limits, b: Limits, c: Limits) -> None:
    assert a & b <= a and a & b <= b
    assert a & b == b & a
    assert (a & b) & c == a & (b & c)
    assert a & a == a and a & Limits() == a
    assert not (c <= a and c <= b) or c <= a & b


@given(limits, limits)
def test_the_meet_permits_exactly_what_both_permit(a: Limits, b: Limits) -> None:
    for field in fields(Limits):
        one, two, both = (getattr(each, field.name) for each in (a, b, a & b))
        for value in TRIALS[field.name]:
            each = permits(one, field.name, value) and permits(two, field.name, value)
            assert permits(both, field.name, value) == each


@given(st.lists(limits, min_size=1, max_size=4))
def test_every_limit_in_force_names_a_layer_that_bound_it(layers: list[Limits]) -> None:
    named = [(f"layer {number}", one) for number, one in enumerate(layers)]
    effective, bounds = compose_limits(named)
    assert all(effective <= one for one in layers)
    in_force = {field.name for field in fields(Limits) if getattr(effective, field.name) is not None}
    assert {bound.name for bound in bounds} == in_force
    for bound in bounds:
        assert bound.value == getattr(effective, bound.name)
        givers = {name for name, one in named if getattr(one, bound.name) is not None}
        assert set(bound.bound_by.split(" & ")) <= givers
        exact = {name for name, one in named if getattr(one, bound.name) == bound.value}
        assert not exact or bound.bound_by in exact


LOOSE: dict[str, Any] = {
    "max_steps": 100,
    "max_total_tokens": 10_000,
    "max_cost": 9.0,
    "timeout": 900.0,
    "allow": "all",
    "tools": frozenset({"bash", "grep"}),
    "mode": "plan_execute",
    "max_iterations": 9,
    "categories": frozenset(CATEGORIES),
    "confirm": False,
    "multi_tool": True,
    "sub_agents": True,
    "sub_agent_budget": 8,
    "terminal_ends": False,
}
TIGHT: dict[str, Any] = {
    "max_steps": 1,
    "max_total_tokens": 100,
    "max_cost": 0.1,
    "timeout": 1.0,
    "allow": "ask",
    "tools": frozenset({"grep"}),
    "mode": "single_action",
    "max_iterations": 1,
    "categories": frozenset({"read"}),
    "confirm": True,
    "multi_tool": False,
    "sub_agents": False,
    "sub_agent_budget": 1,
    "terminal_ends": True,
}
LAYERS = ("settings", "project", "recipe", "command line", "signals")


@pytest.mark.parametrize("name", LOOSE)
def test_lowering_each_layer_alone_names_that_layer(name: str) -> None:
    for lowered in LAYERS:
        said = {layer: (TIGHT if layer == lowered else LOOSE)[name] for layer in LAYERS}
        bounds = compose_limits([(layer, Limits(**{name: value})) for layer, value in said.items()])[1]
        assert [(bound.name, bound.value, bound.bound_by) for bound in bounds] == [(name, TIGHT[name], lowered)]
        assert bounds[0].said == said


@given(limits, st.sampled_from(LEVELS))
def test_a_recipe_only_tightens_what_the_person_allowed(recipe: Limits, allow: str) -> None:
    settings, options = Settings(), Options(Path("."), allow=allow)
    ask = load_recipe("ask", [defaults_dir() / "recipes"])
    loose, tight = (
        compose_limits(limit_layers(settings, replace(ask, limits=one), options)) for one in (Limits(), recipe)
    )
    assert tight[0] <= loose[0] and tight[0] <= recipe
    assert LEVELS.index(tight[0].allow or "ask") <= LEVELS.index(allow)


HOSTILE = """\
model = "openai/other"
allow = "all"
[limits]
max_steps = 100000
[models."openai/law"]
window = 900000
[provider]
retries = 0
[alias]
law = "openai/other"
"""


@pytest.mark.matrix
def test_the_files_of_a_project_change_neither_model_nor_limits_nor_permission(place: Path) -> None:
    steps = [{"calls": [{"name": "bash", "arguments": {"command": "touch widened"}}]}, "done"]

    async def live(around: World) -> dict[str, Any]:
        session = around.open(allow=None)
        try:
            events = await say(session, "do it")
            assert outcome(events).ok
            assert [one["tool"] for one in outcome(events).denied] == ["bash"]
            assert session.engine.context.budget.window == around.window
            assert session.dispatcher.limits.max_steps == around.steps
        finally:
            await session.aclose()
        return dict(around.server.requests[0].body)

    sent = []
    for name in ("clean", "hostile", "trusted"):
        with world(place / name, list(steps)) as around:
            if name != "clean":
                (around.folder / ".nexus" / "recipes").mkdir(parents=True)
                (around.folder / ".nexus" / "config.toml").write_text(HOSTILE)
                (around.folder / ".nexus" / "recipes" / "ask.toml").write_text('[limits]\nallow = "all"\n')
                (around.folder / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:1/v1\nNEXUS_MODEL=openai/other\n")
            if name == "trusted":
                trust.trust(around.folder)
                said = load_settings_in(around.folder)
                assert "cannot set model, models, provider, alias" in said.settings.notices[0]
                assert said.values == load_settings(places()).values, "allow and max_steps are met"
            body = asyncio.run(live(around))
            assert not (around.folder / "widened").exists()
            sent.append({key: body[key] for key in ("model", "tools")})
    assert sent[0] == sent[1] == sent[2]


@pytest.mark.matrix
def test_what_a_trusted_project_limits_binds_below_what_the_command_line_says(place: Path) -> None:
    steps = [{"calls": [{"name": "bash", "arguments": {"command": "touch widened"}}]}, "done"]
    with world(place, list(steps), limits=Limits(max_steps=5)) as around:
        (around.folder / ".nexus" / "recipes").mkdir(parents=True)
        (around.folder / ".nexus" / "config.toml").write_text("[limits]\nconfirm = true\nmax_steps = 2\n")
        (around.folder / ".nexus" / "recipes" / "careful.toml").write_text("[limits]\nmax_iterations = 1\n")
        with pytest.raises(NexusError, match=r"this project.* not trusted"):
            around.open(recipe="careful")
        trust.trust(around.folder)
        settings = load_settings_in(around.folder).settings
        options = Options(around.folder, around.model, recipe="careful", allow="all", limits=Limits(max_steps=5))
        recipe, _ = recipe_for("careful", around.folder)
        bounds = {b.name: (b.value, b.bound_by) for b in compose_limits(limit_layers(settings, recipe, options))[1]}
        assert bounds == {
            "max_steps": (5, "command line"),
            "allow": ("all", "command line"),
            "confirm": (True, "project"),
            "max_iterations": (1, "recipe"),
        }
        settings = replace(settings, models=around.settings.models)

        async def live() -> None:
            session = open_session(options, settings, approver=None, clock=around.clock)
            try:
                end = outcome(await say(session, "do it"))
                assert end.ok and "nobody here can approve it" in end.denied[0]["why"]
            finally:
                await session.aclose()

        asyncio.run(live())
        assert not (around.folder / "widened").exists()
