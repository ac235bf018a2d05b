"""`nexus status` and `nexus skill`: what there is here, and the guide of a skill."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from project_files import write_files
from session.played import MODEL, Played, say
from surroundings import with_variables

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.status import session_tools
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.config.trust import trust
from nexus_cli.core.limits import Limits
from nexus_cli.core.memory import FactMerger, FactState, MemorySlot
from nexus_cli.core.services import SkillGuides, Spaces
from nexus_cli.ledger import Ledger
from nexus_cli.sections.capability_snapshot import snapshot, status
from nexus_cli.sections.contributors.capabilities import capability_forms
from nexus_cli.service_list import PLANS, WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import discover_tools

SECRET = "sk-very-secret-value-0123456789"
KEYS = Settings(default_models={"OPENAI_API_KEY": "openai/gpt-5.6", "ANTHROPIC_API_KEY": "anthropic/claude"})


TOOLS = [name for name, tool in discover_tools().items() if not {FactMerger, SkillGuides, Spaces} & set(tool.needs)]
"""What a session has; the others are for a run that puts memory in order, and for agents that take part in spaces."""


def skill(folder: Path, name: str, text: str) -> None:
    """A skill in `folder/skills`."""
    (folder / "skills" / name).mkdir(parents=True)
    (folder / "skills" / name / "SKILL.md").write_text(text)


def reported(cwd: Path, environ: dict[str, str] | None = None) -> dict[str, Any]:
    return with_variables(environ or {}, status, cwd, KEYS, TOOLS)


def test_status_names_credentials_and_never_shows_their_values(nexus: Any) -> None:
    for options in ((), ("--json",), ("--brief",), ("--json", "--brief")):
        done = nexus("status", *options, env={"OPENAI_API_KEY": SECRET})
        assert done.returncode == 0
        assert done.stderr == b""
        assert b"OPENAI_API_KEY" in done.stdout
        assert SECRET.encode() not in done.stdout


def test_the_tools_of_a_new_session_are_listed_in_a_shell(nexus: Any) -> None:
    report = json.loads(nexus("status", "tools", "--json").stdout)
    listed, shown = json.loads(nexus("status", "--json").stdout), [tool["name"] for tool in report["tools"]]
    items = next(each["items"] for each in listed["capabilities"] if each["category"] == "tools")
    assert shown == listed["tools"] == [item["name"] for item in items]
    assert {tool["name"] for tool in report["tools"] if tool["tokens"]} >= {"bash", "read_file"}
    assert not places().ledger.exists()


@pytest.mark.matrix
def test_status_speaks_of_the_sandbox_only_where_there_is_none_and_one_is_needed(nexus: Any) -> None:
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[sandbox]\nbackend = "off"\n')
    assert json.loads(nexus("status", "--json").stdout)["sandbox"]["backend"] == "none"
    text = " ".join(nexus("status").stdout.decode().split())
    assert 'sandbox none; every command needs approval below level all (the setting sandbox.backend is "off")' in text
    places().settings.write_text('allow = "all"\n[sandbox]\nbackend = "off"\n')
    assert b"sandbox" not in nexus("status").stdout
    places().settings.write_text("")
    if json.loads(nexus("status", "--json").stdout)["sandbox"]["backend"] != "none":
        assert b"sandbox" not in nexus("status").stdout


def test_status_tells_everything_that_there_is(nexus: Any, tmp_path: Path) -> None:
    skill(places().config, "deploy", "---\ndescription: Roll out\n---\nGuide.")
    value = json.loads(nexus("status", "--json", env={"OPENAI_API_KEY": SECRET}).stdout)
    assert value["version"] == 1
    assert value["model"] == "openai/gpt-5.6"
    assert value["tools"] == sorted([*TOOLS, "skill"])
    assert value["skills"] == [{"name": "deploy", "description": "Roll out", "origin": "personal"}]
    assert value["recipes"] == ["ask", "chat"], "those that a person can start, not what nexus uses itself"
    assert value["project"] == {
        "folder": str(tmp_path),
        "trust": "nothing",
        "skills_not_trusted": 0,
        "unsupported": [],
    }
    assert (value["servers"], value["memory"], value["notices"]) == ([], None, [])
    text = nexus("status", env={"COLUMNS": "40"}).stdout.decode()
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "deploy: Roll out" in text and "MCP" not in text


def test_without_a_model_status_says_why_and_asks_no_server(tmp_path: Path) -> None:
    assert reported(tmp_path)["model_why"] == "none is configured, and no API key is set"
    both = reported(tmp_path, {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "y"})
    assert both["model"] is None
    assert "OPENAI_API_KEY, ANTHROPIC_API_KEY" in both["model_why"]


def test_brief_has_a_line_for_the_model_and_each_category(nexus: Any, tmp_path: Path) -> None:
    printed = nexus("status", "--brief", env={"OPENAI_API_KEY": SECRET}).stdout.decode()
    value = with_variables({"OPENAI_API_KEY": SECRET}, snapshot, tmp_path, KEYS, "openai/gpt-5.6", TOOLS)
    assert printed == capability_forms(value)[0] + "\n"
    assert printed.splitlines() == ["Model: openai/gpt-5.6.", "Credentials: 1 ready (OPENAI_API_KEY)."]


def test_each_capability_has_a_category_and_a_state_and_each_category_counts(tmp_path: Path) -> None:
    for name in ("deploy", "review"):
        skill(places().config, name, f"---\ndescription: {name} it\n---\nGuide.")
    skill(places().config, "notes", " \n")
    for name in ("build", "other"):
        skill(tmp_path / ".nexus", name, "Guide.")
    (places().config / "mcp.json").write_text('{"mcpServers": {"mine": {"command": "mine"}}}')
    environ = {"OPENAI_API_KEY": SECRET, "ANTHROPIC_API_KEY": "sk-\u2013not ascii"}
    value = with_variables(environ, snapshot, tmp_path, KEYS, "openai/m", ["grep"])
    counts = {one["category"]: tuple(one["counts"].values()) for one in value["capabilities"]}
    assert counts == {"tools": (1, 0, 0), "skills": (2, 2, 1), "servers": (1, 0, 0), "credentials": (1, 0, 1)}
    for one in value["capabilities"]:
        states = [item["state"] for item in one["items"]]
        assert {state: states.count(state) for state in one["counts"]} == one["counts"]
    assert capability_forms(value)[0].splitlines() == [
        "Model: openai/m.",
        "MCP servers: 1 ready (mine).",
        "Credentials: 1 ready (OPENAI_API_KEY)"
        " | 1 broken (ANTHROPIC_API_KEY: contains characters that no key contains).",
        "Skills: 2 ready | 2 need setup (`nexus trust`) | 1 broken (notes: is empty)."
        " `nexus skill use NAME` prints a guide:",
        "- deploy: deploy it",
        "- review: review it",
    ]
    assert "build" not in str(value), "an untrusted project's names reach no request"
    assert "not ascii" not in str(value) and SECRET not in str(value)
    text = " ".join(find_form("status")({**reported(tmp_path, environ), "host": "h"}, 80).split())
    assert "broken notes (is empty); ANTHROPIC_API_KEY (contains characters that no key contains)" in text
    (places().config / "mcp.json").write_text("{")
    assert "MCP servers: 1 broken (" in capability_forms(snapshot(tmp_path, KEYS, "m", []))[0]
    assert "Skills" not in capability_forms(snapshot(tmp_path, KEYS, "m", [], skills=False))[0]


def test_the_tools_of_status_are_those_of_a_session(tmp_path: Path) -> None:
    options = Options(tmp_path, "openai/m", save=False, limits=Limits())
    settings = Settings(models={"openai/m": {"window": 16_000}})
    services = (WORKERS, PLANS)
    session = open_session(options, settings, approver=None, provider=object(), services=services)  # type: ignore
    assert reported(tmp_path)["tools"] == [tool.name for tool in session.tools()] == session_tools()


@pytest.mark.matrix
def test_a_member_of_a_space_has_its_tools(nexus: Any) -> None:
    assert "send_message" not in json.loads(nexus("status", "--json").stdout)["tools"]
    assert nexus("space", "create", "A", "--agent", "nexus").returncode == 0
    assert "send_message" in json.loads(nexus("status", "--json").stdout)["tools"]


@pytest.mark.matrix
def test_servers_of_a_project_count_when_it_is_trusted_and_a_broken_file_is_a_notice(
    nexus: Any, tmp_path: Path
) -> None:
    write_files(places().config, {"mcp.json": '{"mcpServers": {"mine": {"command": "mine"}}}'})
    write_files(tmp_path, {".nexus/mcp.json": '{"mcpServers": {"theirs": {"url": "https://theirs.test"}}}'})
    assert reported(tmp_path)["servers"] == [{"name": "mine", "state": "not listed"}]
    trust(tmp_path)
    assert [one["name"] for one in reported(tmp_path)["servers"]] == ["mine", "theirs"]
    told = capability_forms(snapshot(tmp_path, KEYS, "m", []))[0]
    assert "MCP servers: 2 ready (mine, theirs)." in told
    (places().config / "config.toml").write_text('[mcp.git]\ncommand = ["uvx", "mcp-server-git"]\n')
    (places().config / "mcp.json").write_text('{"servers": {"code": {"command": "code"}, "none": {}}}')
    found = reported(tmp_path)
    assert [one["name"] for one in found["servers"]] == ["code", "git", "theirs"], "those of a session"
    assert len(found["notices"]) == 1 and "must have either" in found["notices"][0]
    doctor = nexus("doctor", env={"COLUMNS": "300"}).stdout.decode()
    assert "MCP server none" in doctor
    (places().config / "mcp.json").write_text("{")
    found = reported(tmp_path)
    assert [one["name"] for one in found["servers"]] == ["git"], "a broken file of yours may name any of theirs"
    assert "mcp.json" in found["notices"][0]


def test_facts_are_counted_by_slot(tmp_path: Path) -> None:
    ledger = Ledger.open(places().ledger)
    for slot, text in ((MemorySlot.USER, "a fact"), (MemorySlot.PROJECT, "one"), (MemorySlot.PROJECT, "two")):
        ledger.facts.add(
            slot, text, state=FactState.KEPT, at="2026-01-01T00:00:00.000Z", actor="person", project=str(tmp_path)
        )
    ledger.facts.add(
        MemorySlot.AGENT, "three", state=FactState.PROPOSED, at="2026-01-01T00:00:00.000Z", actor="agent", project=""
    )
    ledger.close()
    assert reported(tmp_path)["memory"] == {"user": 1, "project": 2, "agent": 0, "proposed": 1}


def test_a_ledger_that_is_none_is_a_notice(nexus: Any) -> None:
    places().data.mkdir(parents=True)
    places().ledger.write_bytes(b"this is no database" * 100)
    done = nexus("status", "--json")
    assert done.returncode == 0
    [notice] = json.loads(done.stdout)["notices"]
    assert "ledger.db" in notice


# --- skill


def test_skills_are_listed_and_one_is_printed_whole(nexus: Any) -> None:
    skill(places().config, "deploy", "---\nname: deploy\ndescription: Roll out\n---\n# Deploy\n\nStep \u20ac.\n")
    listed = nexus("skill", "list")
    assert listed.stdout.decode().splitlines()[1].split() == ["deploy", "personal", "Roll", "out"]
    [found] = json.loads(nexus("skill", "list", "--json").stdout)["skills"]
    assert found["path"] == str(places().config / "skills" / "deploy" / "SKILL.md")
    for name in ("deploy", "DEPLOY"):
        assert nexus("skill", "use", name).stdout.decode() == "# Deploy\n\nStep \u20ac.\n"


def test_a_skill_that_cannot_be_read_is_listed_with_the_reason_and_using_it_is_exit_2(nexus: Any) -> None:
    skill(places().config, "broken", "\0\1\2")
    assert b"cannot be used: is not a text file" in nexus("skill", "list").stdout
    done = nexus("skill", "use", "broken")
    assert done.returncode == 2
    assert b"SKILL.md" in done.stderr


def test_a_projects_skills_are_told_before_they_count(nexus: Any, tmp_path: Path) -> None:
    skill(tmp_path / ".nexus", "build", "Build.")
    assert b"none; 1 more in this project after `nexus trust`" in b" ".join(nexus("status").stdout.split())
    assert b"1 guide that you have not trusted (see `nexus trust`)" in b" ".join(nexus("skill", "list").stdout.split())
    assert b"available after `nexus trust`" in nexus("skill", "use", "build").stderr
    trust(tmp_path)
    assert nexus("skill", "use", "build").stdout == b"Build.\n"


@pytest.mark.matrix
def test_two_skills_of_one_name_are_listed_and_the_personal_one_is_used(nexus: Any, tmp_path: Path) -> None:
    skill(tmp_path / ".nexus", "build", "Theirs.")
    skill(tmp_path / ".nexus", "bake", "Theirs.")
    skill(places().config, "build", "Mine.")
    assert b"1 skill; 2 more in this project" in b" ".join(nexus("status").stdout.split())
    trust(tmp_path)
    assert b"[not used: the entry above has the same name] Theirs." in nexus("skill", "list").stdout
    assert nexus("skill", "use", "build").stdout == b"Mine.\n"


@pytest.mark.matrix
def test_without_skills_it_is_said_where_they_would_lie(nexus: Any) -> None:
    assert b"SKILL.md" in nexus("skill", "list").stdout
    done = nexus("skill", "use", "x")
    assert done.returncode == 2
    assert b"nexus config path" in done.stderr


def test_the_new_commands_stand_in_the_help(nexus: Any) -> None:
    said = nexus("--help", "all").stdout.decode()
    assert "status" in said
    assert "skill" in said


@pytest.mark.parametrize(
    ("options", "backend", "told"),
    [({}, "auto", True), ({}, "off", True), ({"allow": "all"}, "off", True), ({"no_tools": True}, "auto", False)],
)
def test_skills_are_told_where_a_tool_can_read_their_guide(
    tmp_path: Path, options: dict[str, Any], backend: Any, told: bool
) -> None:
    skill(places().config, "deploy", "---\ndescription: Roll out\n---\nGuide.")
    provider = Played(lambda request: "fine")
    settings = Settings(models={MODEL: {"window": 16_000}}, sandbox=SandboxSettings(backend=backend))
    session = open_session(Options(tmp_path, MODEL, **options), settings, approver=None, provider=provider)
    assert say(session, "hello")[1].ok
    system = str(provider.seen[0][0]["content"])
    assert ("deploy: Roll out" in system) is ("skill(NAME)" in system) is told and "Guide." not in str(provider.seen)
    assert "Host:" not in system and "tools." not in system.partition("# Capabilities")[2]


def test_the_host_and_the_tools_stand_in_status(nexus: Any) -> None:
    value = json.loads(nexus("status", "--json").stdout)
    assert value["host"] == os.uname().nodename and value["host"] in nexus("status").stdout.decode()
