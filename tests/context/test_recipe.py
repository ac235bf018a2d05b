"""Recipes: the packaged ones, bad names, bad keys, bad values."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.context.recipe import Recipe, load_recipe, recipe_names
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.paths import defaults

PACKAGED = defaults() / "recipes"


def made(folder: Path, text: str, name: str = "mine") -> Recipe:
    (folder / f"{name}.toml").write_text(text)
    return load_recipe(name, [folder])


@pytest.mark.parametrize("name", ["chat", "ask"])
def test_the_packaged_recipes_bind_nothing_and_admit_every_contributor(name: str) -> None:
    recipe = load_recipe(name, [PACKAGED])
    assert (recipe.name, recipe.limits, recipe.signals) == (name, Limits(), False)
    assert recipe.description
    assert recipe.admits("clock")


def test_every_packaged_recipe_loads() -> None:
    assert recipe_names([PACKAGED]) == ["ask", "chat"]
    for name in recipe_names([PACKAGED]):
        load_recipe(name, [PACKAGED])


def test_every_key_is_read(tmp_path: Path) -> None:
    recipe = made(
        tmp_path,
        'description = "d"\nsignals = true\ncontributors = ["rules", "clock"]\n'
        "[limits]\nmax_steps = 3\nmax_total_tokens = 1000\nmax_cost = 0.5\ntimeout = 60\n"
        'allow = "edit"\ntools = ["grep"]',
    )
    limits = Limits(3, 1000, 0.5, 60, "edit", frozenset({"grep"}))
    assert recipe == Recipe("mine", "d", ("rules", "clock"), limits=limits, signals=True)
    assert recipe.admits("rules")
    assert not recipe.admits("notices")


def test_the_first_folder_that_has_it_wins(tmp_path: Path) -> None:
    (tmp_path / "ask.toml").write_text('description = "mine"')
    assert load_recipe("ask", [tmp_path, PACKAGED]).description == "mine"
    assert load_recipe("ask", [tmp_path / "nowhere", PACKAGED]).description != "mine"


def test_an_unknown_name_is_told_with_the_nearest_and_all_there_are() -> None:
    with pytest.raises(NexusError) as caught:
        load_recipe("chta", [PACKAGED])
    assert (caught.value.kind, caught.value.exit_status) == ("usage", 2)
    assert caught.value.hint == "Did you mean chat? There are: ask, chat"


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
        ("contributors = 'clock'", "contributors has to be a list of names", "Correct"),
        ("contributors = [1]", "contributors has to be a list of names", "Correct"),
        ("signals = 1", "signals has to be true or false", "Correct"),
        ("description = 5", "description has to be a text", "Correct"),
        ("limits = 5", "limits has to be a table", "Correct"),
        ("[limits]\nmax_steps = 0", "limits.max_steps has to be a whole number above 0", "Correct"),
        ("[limits]\nmax_steps = 2.5", "limits.max_steps has to be a whole number above 0", "Correct"),
        ("[limits]\nmax_steps = true", "limits.max_steps has to be a whole number above 0", "Correct"),
        ("[limits]\nmax_cost = nan", "limits.max_cost has to be a number above 0", "Correct"),
        ("[limits]\ntimeout = inf", "limits.timeout has to be a number above 0", "Correct"),
        ("[limits]\nallow = 'most'", "limits.allow has to be one of read, edit, all", "Correct"),
        ("[limits]\ntools = 'grep'", "limits.tools has to be a list of names", "Correct"),
        ("a = \nb = 1", "line 1", "Correct"),
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
