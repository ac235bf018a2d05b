"""Agents: what their front matter narrows, and which files are agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.config.paths import places
from nexus_cli.config.trust import trust
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.reports.skill_check import check_guides
from nexus_cli.sections.find_recipe import find_agents, find_all_agents, recipe_for
from nexus_cli.tools.registry import discover_tools


def put(name: str, fields: str) -> Path:
    """An agent of the person."""
    path = places().config / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{fields}\n---\nRole.\n")
    return path


def limits(fields: str, cwd: Path) -> Limits:
    put("one", f"description: One.\n{fields}")
    return recipe_for("one", cwd, with_agents=True)[0].limits


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ("tools: Read, Bash(git diff:*)", {"read_file", "bash"}),
        ("tools: [Edit]", {"edit_file"}),
        ("tools:", set()),
        ("tools: []", set()),
        ("tools: nothing-known", {"nothing-known"}),
        ("tools: Read, Write\ndisallowedTools: Write", {"read_file"}),
        ("disallowedTools: '*'", set()),
        ("tools: Read\ndisallowedTools: '*'", set()),
    ],
)
def test_an_agent_may_call_what_its_file_names_and_no_more(tmp_path: Path, fields: str, tools: set[str]) -> None:
    assert limits(fields, tmp_path).tools == frozenset({"recall", *tools})


def test_without_a_list_an_agent_may_call_what_its_session_may(tmp_path: Path) -> None:
    assert limits("model: inherit", tmp_path).tools is None is limits("tools: '*'", tmp_path).tools
    assert limits("disallowedTools: Write, Bash", tmp_path).tools == frozenset(
        {*discover_tools()} - {"write_file", "bash"}
    )


@pytest.mark.parametrize("steps", ["0", "-1", "1.5", "many", "'1000000'", "9" * 5000])
def test_steps_that_are_no_number_of_steps_are_named_and_not_applied(tmp_path: Path, steps: str) -> None:
    assert limits(f"maxTurns: {steps}", tmp_path).max_steps is None
    assert "maxTurns must be" in "\n".join(check_guides(places().config))
    assert limits("maxTurns: 7", tmp_path).max_steps == 7


def test_an_agent_with_the_name_of_a_recipe_is_not_offered(tmp_path: Path) -> None:
    """The recipe would run in its place, with none of its limits."""
    for name in ("ask", "worker", "other"):
        put(name, "description: Only reads.\ntools: Read")
    assert [*find_agents(tmp_path)] == ["other"]
    assert [one.problem[:29] for one in find_all_agents(tmp_path)[0]] == [
        "has the same name as a recipe",
        "",
        "has the same name as a recipe",
    ]


def test_a_file_without_a_description_is_no_agent(tmp_path: Path) -> None:
    put("README", "title: These are our agents")
    assert not find_agents(tmp_path)
    with pytest.raises(NexusError, match=r"README\.md has no description") as raised:
        recipe_for("README", tmp_path, with_agents=True)
    assert raised.value.hint == "Correct its file"


def test_the_tools_of_the_agents_that_an_agent_starts_are_named(tmp_path: Path) -> None:
    put("lead", "name: lead\ndescription: Leads.\ntools: Read, Agent")
    put("all", "name: all\ndescription: Does all.\ntools: '*'")
    said = [line for line in check_guides(places().config) if "agents that this agent starts" in line]
    assert len(said) == 1 and "lead.md" in said[0]


def test_an_agent_begins_with_the_skills_that_it_names(tmp_path: Path) -> None:
    skill = places().config / "skills" / "ship" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: ship\ndescription: Ships it.\n---\nShip at noon.\n")
    path = put("one", "description: One.\nskills: ship, gone")
    role = recipe_for("one", tmp_path, with_agents=True)[0].role
    assert role.split() == "Role. Ship at noon. [skill gone was not found]".split()
    assert not check_guides(path)
    (line,) = check_guides(put("two", "description: Two.\nallowed-tools: Read"))
    assert line.endswith(":3: allowed-tools is ignored"), line


def test_an_agent_begins_with_the_skill_of_the_person_where_a_project_has_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for folder, text in ((places().config, "Ship at noon."), (tmp_path / ".claude", "Ship now.")):
        skill = folder / "skills" / "ship" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: ship\ndescription: Ships it.\n---\n{text}\n")
    trust(tmp_path)
    put("one", "description: One.\nskills: ship")
    assert recipe_for("one", tmp_path, with_agents=True)[0].role.endswith("Ship at noon.")


def test_an_agent_of_codex_is_toml_with_a_role(tmp_path: Path) -> None:
    """As codex 0.169.0 reads `.codex/agents`: a file without a role is none."""
    folder = Path.home() / ".codex/agents"
    folder.mkdir(parents=True)
    text = 'name = "explorer-2"\ndescription = "Looks.\\nAround."\nmodel = "openai/gpt-5-mini"\n'
    role = 'sandbox_mode = "read-only"\nnicknames = ["a"]\ndeveloper_instructions = """\nBe TERSE.\n"""\n'
    (folder / "any.toml").write_text(text + role)
    (folder / "roleless.toml").write_text(text)
    (folder / "broken.toml").write_text("name = [")
    (folder / "page.md").write_text("---\nname: page\ndescription: No agent of codex.\n---\nText.\n")
    found = {one.path.rpartition("/")[2]: one for one in find_all_agents(tmp_path)[0]}
    assert [*find_agents(tmp_path)] == ["explorer-2"] and "page.md" not in found
    assert found["broken.toml"].problem == "is not valid TOML"
    agent = found["any.toml"]
    assert agent.description == "Looks. Around." and agent.fields["model"] == "openai/gpt-5-mini"
    recipe = recipe_for("explorer-2", tmp_path, with_agents=True)[0]
    assert (recipe.role, recipe.limits.allow) == ("Be TERSE.", "ask"), "read-only narrows"
    checked = "\n".join(check_guides(folder.parent))
    assert "nicknames is ignored" in checked and "has no developer_instructions" in checked, checked
