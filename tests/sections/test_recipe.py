"""Recipes: the packaged ones, bad names, bad keys, bad values."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.sections.contributor import contributor_names
from nexus_cli.sections.recipe import ProjectRecipes, Recipe, load_recipe, recipe_names
from nexus_cli.workers.workers import AT_ONCE

PACKAGED = defaults_dir() / "recipes"
JOURNAL = {"remember", "search_memory"}


def made(folder: Path, text: str, name: str = "mine") -> Recipe:
    (folder / f"{name}.toml").write_text(text)
    return load_recipe(name, [folder])


SEEDS: dict[str, tuple[str, int | None, set[str] | None, bool, bool, set[int]]] = {
    "tick_event": ("react_loop", None, None, True, True, {0, 1000, 1500, 2000, 3000, 4000, 5000, 6000}),
    "tick_autonomous": ("react_loop", None, None, True, True, {0, 1000, 1500, 2000, 3000, 4000, 5000, 6000}),
    "reflection": ("react_loop", 3, JOURNAL, True, False, {0, 6000}),
    "reflection_cont": ("react_loop", 2, JOURNAL, True, False, {0}),
    "sleep_consolidate": ("react_loop", 10, {*JOURNAL, "forget", "merge_facts"}, True, False, {0, 2000}),
    "goal_decompose": ("single_action", 1, set(), False, False, {0, 4000, 6000}),
    "pre_compaction": ("react_loop", 5, {"remember"}, True, False, {0, 5000, 6000}),
}
"""Seed D's context types: mode, iterations, tools, several tools, sub-agents, and its components; its tool results
(7000) are history here. The 5 iterations of the two ticks are not ours: a night's work takes more, and the settings
bound its steps and dollars."""
COMPONENTS: dict[int, tuple[str, set[str]]] = {
    0: ("constraint", {"contract", "instructions", "path_rules", "environment", "run_instructions"}),
    1000: ("persona", {"identity", "preferences"}),
    1500: ("constraint", {"user_memory"}),
    2000: ("memory", {"project_memory", "agent_memory", "memory", "episodic", "away"}),
    3000: ("memory", {"workspace", "session_files"}),
    4000: ("task", {"task"}),
    5000: ("history", {"footprint"}),
    6000: ("event", {"session_start", "clock", "trigger", "permission", "hooks", "jobs", "notices", "run"}),
}
"""Seed D's components: the phase and the contributors that they are here. Others are ours, and follow the tools; the
person's own stand where their files say."""


@pytest.mark.parametrize("name", SEEDS)
def test_the_context_types_of_seed_d_are_data(name: str) -> None:
    mode, iterations, tools, several, agents, components = SEEDS[name]
    recipe = load_recipe(name, [PACKAGED])
    limits = recipe.limits
    assert (limits.mode, limits.max_iterations, limits.multi_tool, limits.sub_agents) == (
        mode,
        iterations,
        several,
        agents,
    )
    assert limits.tools == (None if tools is None else frozenset(tools))
    assert recipe.signals is (iterations is not None) and limits.terminal_ends and recipe.description
    assert set().union(*(ours for _, ours in COMPONENTS.values())) <= set(contributor_names())
    for component, (phase, ours) in COMPONENTS.items():
        for contributor in ours:
            assert bool(recipe.multiplier(phase, contributor)) == (component in components), contributor
    assert bool(recipe.instruction) == (not name.startswith("tick_"))
    assert recipe.multiplier("constraint", "contract") == 1


def test_the_static_defaults_of_seed_d_are_a_decision_that_a_recipe_can_take_back(tmp_path: Path) -> None:
    static = load_settings(places()).settings.limits
    assert (static.max_steps, static.max_iterations, static.sub_agents, static.sub_agent_budget) == (200,) + (None,) * 3
    assert AT_ONCE == 3
    numbers = {name: load_recipe(name, [PACKAGED]).limits.max_iterations for name in SEEDS}
    reason = " ".join((PACKAGED / "chat.toml").read_text().replace("#", "").split())
    assert all(f"{name} {number}" in reason or "tick_" in name for name, number in numbers.items())
    assert "5 iterations in a range of 1 to 10" in reason and "`max_iterations = 5` and `sub_agents = false`" in reason
    seed = made(tmp_path, "[limits]\nmax_iterations = 5\nsub_agents = false").limits & static
    assert (seed.max_iterations, seed.sub_agents) == (5, False)
    assert made(tmp_path, "[limits]\nmax_iterations = 11").limits.max_iterations == 11


def test_the_text_of_the_reflection_asks_what_seed_d_asks_in_words_of_its_own() -> None:
    text = load_recipe("reflection", [PACKAGED]).instruction
    for word in ("habits", "good results", "errors came back", "otherwise next time", "remember", "search_memory"):
        assert word in text
    assert "You are an AI assistant performing" not in text


def test_multipliers_and_overrides_are_read_by_phase_contributor_and_section(tmp_path: Path) -> None:
    (tmp_path / "text.md").write_text("\nfrom a file\n")
    recipe = made(
        tmp_path,
        "section_budget = 500\n[multipliers]\nmemory = 0\n'instructions.project' = 2\n"
        "[overrides]\nclock = 'noon'\ncontract = { file = 'text.md' }\ninstructions.project = 'p'",
    )
    assert recipe.section_budget == 500
    assert recipe.multiplier("memory", "project_memory.m1") == 0
    assert recipe.multiplier("constraint", "instructions.project") == 2
    assert recipe.multiplier("constraint", "instructions.global") == 1
    assert recipe.overrides == {"clock": "noon", "contract": "from a file", "instructions.project": "p"}
    assert recipe.instruction == "from a file"


def project_recipe(text: str, name: str = "careful") -> Recipe:
    there = ProjectRecipes(Path("/p/.nexus/recipes"), {f"{name}.toml": text.encode(), "notes.md": b"x"})
    return load_recipe(name, [PACKAGED], there)


def test_a_project_adds_a_recipe_and_never_takes_the_place_of_another() -> None:
    recipe = project_recipe("section_budget = 9000\n[multipliers]\nworkspace = 0\n[limits]\nallow = 'read'")
    assert (recipe.section_budget, recipe.limits.allow, recipe.multiplier("memory", "workspace")) == (9000, "ask", 0)
    assert project_recipe("[limits]\nmax_steps = 1", "chat").limits == Limits()
    with pytest.raises(NexusError) as caught:
        load_recipe("carefull", [PACKAGED], ProjectRecipes(Path("/p"), {"careful.toml": b""}))
    assert caught.value.hint.startswith("Did you mean careful?")


def test_a_project_may_name_what_changes_nothing() -> None:
    recipe = project_recipe("section_budget = 8192\n[multipliers]\nconstraint = 1\nworkspace = 1")
    assert (recipe.multiplier("constraint", "contract"), recipe.multiplier("memory", "workspace")) == (1, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[overrides]\ncontract = 'obey me'", "cannot set overrides"),
        ("contributors = ['clock']", "cannot set contributors"),
        ("[multipliers]\nconstraint = 0", "cannot lower multipliers.constraint"),
        ("[multipliers]\n'instructions.global' = 0.1", "cannot lower multipliers.instructions.global"),
        ("[multipliers]\nevent = 0", "cannot lower multipliers.event"),
        ("[multipliers]\nclock = 0.5", "cannot lower multipliers.clock"),
        ("[multipliers]\nuser_memory = 0", "cannot lower multipliers.user_memory"),
        ("[multipliers]\nworkspace = 50", "cannot raise multipliers.workspace"),
        ("section_budget = 1", "cannot set section_budget below 8192"),
        ("[limits]\nallow = 'everything'", "limits.allow must be one of"),
        ("x = 1", "unknown key 'x'"),
        ("=", "line 1"),
        ("a = " + "[" * 5000, "recursion"),
    ],
)
def test_a_projects_recipe_that_would_widen_anything_is_refused_with_its_file(text: str, why: str) -> None:
    with pytest.raises(NexusError) as caught:
        project_recipe(text)
    assert (caught.value.kind, caught.value.what) == ("config", "/p/.nexus/recipes/careful.toml")
    assert why in caught.value.why


@pytest.mark.parametrize("name", ["chat", "ask"])
def test_the_packaged_recipes_bind_nothing_and_admit_every_contributor(name: str) -> None:
    recipe = load_recipe(name, [PACKAGED])
    assert (recipe.name, recipe.limits, recipe.signals) == (name, Limits(), False)
    assert recipe.description
    assert recipe.admits("clock")


def test_every_packaged_recipe_loads() -> None:
    assert recipe_names([PACKAGED]) == sorted(
        ["chat", "ask", "map", "assess", "compact", "pull_request", "title", "worker", *SEEDS]
    )
    for name in recipe_names([PACKAGED]):
        load_recipe(name, [PACKAGED])


def test_every_key_is_read(tmp_path: Path) -> None:
    recipe = made(
        tmp_path,
        'description = "d"\nsignals = true\ncontributors = ["contract", "clock"]\n'
        "[limits]\nmax_steps = 3\nmax_total_tokens = 1000\nmax_cost = 0.5\ntimeout = 60\n"
        'allow = "edit"\ntools = ["grep"]',
    )
    limits = Limits(3, 1000, 0.5, 60, "edit", frozenset({"grep"}))
    assert recipe == Recipe("mine", "d", ("contract", "clock"), limits=limits, signals=True)
    assert recipe.admits("contract")
    assert not recipe.admits("notices")


def test_the_first_folder_that_has_it_wins(tmp_path: Path) -> None:
    (tmp_path / "ask.toml").write_text('description = "mine"')
    assert load_recipe("ask", [tmp_path, PACKAGED]).description == "mine"
    assert load_recipe("ask", [tmp_path / "nowhere", PACKAGED]).description != "mine"


def test_a_folder_in_the_place_of_a_recipe_is_named_and_never_offered(tmp_path: Path) -> None:
    for name in ("mine", "ask"):
        (tmp_path / f"{name}.toml").mkdir()
    assert recipe_names([tmp_path]) == []
    with pytest.raises(NexusError, match=r"mine\.toml: is not a regular file") as raised:
        load_recipe("mine", [tmp_path, PACKAGED])
    assert raised.value.kind == "config"
    assert load_recipe("ask", [tmp_path, PACKAGED]).name == "ask"


def test_an_unknown_name_is_told_with_the_nearest_and_all_there_are() -> None:
    with pytest.raises(NexusError) as caught:
        load_recipe("chta", [PACKAGED])
    assert (caught.value.kind, caught.value.exit_status) == ("usage", 2)
    assert caught.value.hint.startswith("Did you mean chat? There are: ask, assess, chat, compact, goal_decompose, ")


@pytest.mark.parametrize("name", ["../recipes/ask", "", ".", "ask.toml", "a/b", "ask\n", "/etc/passwd"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(NexusError, match="there is no such recipe"):
        load_recipe(name, [PACKAGED])


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        ("descripton = 'x'", "unknown key 'descripton'", "Did you mean description"),
        ("[limits]\nmax_step = 3", "unknown key 'limits.max_step'", "Did you mean max_steps"),
        ("contributors = ['cloc']", "unknown key 'contributors: cloc'", "Did you mean clock"),
        ("name = 'x'", "unknown key 'name'", "Known are"),
        ("contributors = 'clock'", "contributors must be a list of names", "Correct"),
        ("contributors = [1]", "contributors must be a list of names", "Correct"),
        ("signals = 1", "signals must be true or false", "Correct"),
        ("description = 5", "description must be a text", "Correct"),
        ("limits = 5", "limits must be a table", "Correct"),
        ("[limits]\nmax_steps = 0", "limits.max_steps must be a whole number above 0", "Correct"),
        ("[limits]\nmax_steps = 2.5", "limits.max_steps must be a whole number above 0", "Correct"),
        ("[limits]\nmax_steps = true", "limits.max_steps must be a whole number above 0", "Correct"),
        ("[limits]\nmax_cost = nan", "limits.max_cost must be a number above 0", "Correct"),
        ("[limits]\ntimeout = inf", "limits.timeout must be a number above 0", "Correct"),
        ("[limits]\nallow = 'most'", "limits.allow must be one of ask, edit, auto, all", "Correct"),
        ("[limits]\nallow = 'plan'", "limits.allow must be one of ask, edit, auto, all", "Correct"),
        ("[limits]\ntools = 'grep'", "limits.tools must be a list of names", "Correct"),
        ("a = \nb = 1", "line 1", "Correct"),
        ("section_budget = 0", "section_budget must be a whole number above 0", "Correct"),
        ("section_budget = true", "section_budget must be a whole number above 0", "Correct"),
        ("multipliers = 3", "multipliers must be a table", "Correct"),
        ("[multipliers]\nmemry = 0", "unknown key 'multipliers.memry'", "Did you mean memory"),
        ("[multipliers]\nmemory = -1", "multipliers.memory must be a number from 0", "Correct"),
        ("[multipliers]\nmemory = nan", "multipliers.memory must be a number from 0", "Correct"),
        ("[multipliers]\nmemory = 1e308", "multipliers.memory must be a number from 0 to 100", "Correct"),
        ("[multipliers]\nmemory = true", "multipliers.memory must be a number from 0", "Correct"),
        ("[overrides]\ncontrct = 'x'", "unknown key 'overrides.contrct'", "Did you mean contract"),
        ("[overrides]\ncontract = ' '", "overrides.contract must be a text", "Correct"),
        ("[overrides]\ncontract = { file = 'no.md' }", "overrides.contract: there is no file no.md", "Add it"),
        ("[overrides]\ncontract = { file = '../a.md' }", "overrides.contract.file must be the name", "Correct"),
        ("[overrides]\ncontract = 3", "overrides.contract must be a text", "Correct"),
        ("[limits]\nmode = 'loop'", "limits.mode must be one of single_action, react_loop, plan_execute", "Correct"),
        ("[limits]\nmax_iterations = 0", "limits.max_iterations must be a whole number above 0", "Correct"),
        ("[limits]\nconfirm = 1", "limits.confirm must be true or false", "Correct"),
        ("[limits]\ncategories = ['edt']", "unknown key 'limits.categories: edt'", "Did you mean edit"),
    ],
)
def test_a_broken_recipe_names_the_file_the_key_and_what_is_expected(
    tmp_path: Path, text: str, why: str, hint: str
) -> None:
    with pytest.raises(NexusError) as caught:
        made(tmp_path, text)
    assert (caught.value.kind, caught.value.what) == ("config", str(tmp_path / "mine.toml"))
    assert why in caught.value.why
    assert hint in caught.value.hint
