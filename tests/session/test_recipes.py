"""Recipes of a session: whose they are, what a project's may add, and what its person is told once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from project_files import write_files
from session.played import MODEL, Played, say

from nexus_cli.config import trust
from nexus_cli.config.paths import places
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.context import context_report, live_report
from nexus_cli.sections.find_recipe import own_recipe, recipe_for
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

SETTINGS = Settings(models={MODEL: {"window": 16_000}})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".nexus" / "recipes").mkdir(parents=True)
    (tmp_path / ".nexus" / "recipes" / "careful.toml").write_text("[limits]\nmax_iterations = 1\n")
    (tmp_path / ".nexus" / "recipes" / "chat.toml").write_text("[limits]\nmax_iterations = 1\n")
    return tmp_path


def made(folder: Path, settings: Settings = SETTINGS, **options: Any) -> Session:
    provider = options.pop("provider", Played(lambda request: "well"))
    earlier = options.pop("earlier", None)
    return open_session(Options(folder, MODEL, **options), settings, approver=None, provider=provider, earlier=earlier)


def test_a_projects_recipe_is_there_when_it_is_trusted_and_only_then(project: Path) -> None:
    with pytest.raises(NexusError, match=r"this project, which is not trusted$"):
        recipe_for("careful", project)
    trust.trust(project)
    recipe, told = recipe_for("careful", project)
    assert recipe.limits.max_iterations == 1 and not told
    (project / "deep").mkdir()
    (project / ".git").mkdir()
    assert recipe_for("careful", project / "deep")[0] == recipe
    (project / ".nexus" / "recipes" / "careful.toml").write_text("signals = true\n")
    with pytest.raises(NexusError, match="has changed since you trusted the project") as raised:
        recipe_for("careful", project)
    assert "nexus trust" in raised.value.hint
    with pytest.raises(NexusError, match="there is no such recipe"):
        recipe_for("carful", project)


@pytest.mark.matrix
def test_a_session_in_a_recipe_of_a_project_that_changed_says_what_brings_it_back(project: Path) -> None:
    trust.trust(project)
    session = made(project, recipe="careful")
    assert say(session, "words")[1].ok
    (project / ".nexus" / "config.toml").write_text("")
    unharmed = made(project, resume=session.id)
    assert unharmed.status().recipe == "careful", "what changed is something else"
    asyncio.run(unharmed.aclose())
    (project / ".nexus" / "recipes" / "careful.toml").write_text("signals = true\n")
    with pytest.raises(NexusError, match="has changed since you trusted the project") as raised:
        made(project, resume=session.id)
    assert "nexus trust" in raised.value.hint and "--recipe ask" in raised.value.hint
    trust.trust(project)
    again = made(project, resume=session.id)
    assert again.status().recipe == "careful"
    asyncio.run(again.aclose())


def test_a_projects_recipe_of_a_name_that_is_taken_is_not_used_and_that_is_said(project: Path) -> None:
    trust.trust(project)
    recipe, told = recipe_for("chat", project)
    assert recipe == own_recipe("chat") and told == (
        "recipe chat of this project is not used: another recipe with this name takes precedence",
    )
    session = made(project, recipe="chat")
    assert told[0] in session.notices and session.dispatcher.limits.max_iterations is None
    asyncio.run(session.aclose())


def test_a_persons_recipe_comes_before_the_packages(tmp_path: Path) -> None:
    write_files(places().config, {"recipes/ask.toml": 'description = "mine"\n'})
    assert recipe_for("ask", tmp_path)[0].description == "mine"


def test_a_tool_that_there_is_not_is_told_when_a_session_begins_in_a_recipe_that_names_it(tmp_path: Path) -> None:
    write_files(places().config, {"recipes/mine.toml": '[limits]\ntools = ["read_fil", "glob", "\\u001bx"]\n'})
    session = made(tmp_path, recipe="mine")
    assert [line for line in session.notices if "names an unknown tool" in line] == [
        "recipe mine names an unknown tool ' x'",
        "recipe mine names an unknown tool 'read_fil'. Did you mean read_file?",
    ]
    asyncio.run(session.aclose())
    for name in ("sleep_consolidate", "reflection", "chat"):
        session = made(tmp_path, recipe=name)
        assert not [line for line in session.notices if "names an unknown tool" in line], (
            "what a lane alone has is known too"
        )
        asyncio.run(session.aclose())


@pytest.mark.matrix
def test_a_session_in_a_projects_recipe_is_reported_and_bound_by_it(project: Path) -> None:
    trust.trust(project)
    session = made(project, recipe="careful", provider=Played(lambda request: "well"))
    limits = {limit["name"]: limit for limit in live_report(session)["limits"]}
    assert limits["max_iterations"] == {
        "name": "max_iterations",
        "value": 1,
        "bound_by": "recipe",
        "said": {"recipe": 1},
    }
    asyncio.run(session.aclose())
    value = context_report(Options(project, MODEL, recipe="careful"), SETTINGS, None)
    assert value["recipe"] == "careful"


def test_that_a_project_is_not_in_effect_is_said_once_in_a_session(project: Path) -> None:
    settings = replace(load_settings_in(project).settings, models=SETTINGS.models)
    first = made(project, settings)
    assert [line for line in first.take_notices() if "not in effect" in line] == list(settings.notices)
    again = made(project, settings, resume=first.id, earlier=first)
    assert not [line for line in again.take_notices() if "not in effect" in line]
    asyncio.run(again.aclose())
