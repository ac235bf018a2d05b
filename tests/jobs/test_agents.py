"""The job: a repository whose work is done by agents of Claude Code. A feature goes from one that only reads to one
that writes, and a third asks for a model that nobody here has. They work as their files say, or a line says why not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from programs import need
from project_files import write_files
from terminal.repl import Repl
from terminal.terminal import ENTER

OTHER = "openai/gpt-5-mini"
DOWN = "\x1b[B"
REVIEWER = """---
name: reviewer
description: Reviews a change. Use it after each edit.
tools: Read, Grep, Bash(git diff:*), WebSearch
---
You are the REVIEWER. Be terse.
"""
BUILDER = """---
name: builder
description: |
  Builds one thing.
model: {model}
color: blue
permissionMode: acceptEdits
---
You are the BUILDER.
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path) as made:
        agents = made.folder / ".claude/agents/team"
        write_files(agents, {"reviewer.md": REVIEWER, "any-name.md": BUILDER.format(model=OTHER)})
        (made.folder / "calc.py").write_text("1\n")
        write_files(made.folder, {".claude/commands/ship.md": "Build $1 with @agent-builder, then review.\n"})
        yield made


def said(body: Any, role: str) -> str:
    return "\n".join(str(one["content"]) for one in body["messages"] if one["role"] == role)


def play(place: Stage, *delegated: dict[str, Any], named: str = "agent", worker: Any = None) -> list[Any]:
    """Script a model that makes `delegated` calls and ends; each worker does `worker`. Return the workers' requests."""
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        if "# Task" in said(body, "user") or "TASK" in said(body, "user"):
            seen.append(body)
            done = said(body, "tool")
            return calls(worker) if worker and not done else {"text": f"Report. {done[:200]}"}
        done = sum(one["role"] == "tool" for one in body["messages"])
        return calls((named, delegated[done])) if done < len(delegated) else {"text": f"All done: {said(body, 'tool')}"}

    place.script(model)
    return seen


def test_an_agent_works_with_its_role_tools_and_model_after_trust(place: Stage) -> None:
    refused = play(place, {"task": "TASK", "recipe": "reviewer"})
    done = place.ask("review")
    assert not refused and "is not trusted" in done.text and "nexus trust" in done.text, done
    assert "# Agents" not in said(place.server.requests[-1].body, "system")

    told = " ".join(place.run("trust").text.split())
    for line in (
        "Active: agents, commands",
        "unknown tool WebSearch",
        "nexus ignores the pattern of Bash(git diff:*)",
        "permissionMode is ignored",
    ):
        assert line in told, (line, told)

    write = ("edit_file", {"path": "calc.py", "edits": [{"old": "1", "new": "2"}]})
    asked = play(place, {"task": "TASK", "recipe": "reviewer"}, worker=write)
    done = place.ask("--allow", "edit", "review")
    assert done.status == 0 and len(asked) == 2, done
    assert "You are the REVIEWER. Be terse." in said(asked[0], "user") and "read_file" in said(asked[0], "user")
    assert "refused" in done.text and (place.folder / "calc.py").read_text() == "1\n", done.text
    listed = "- builder: Builds one thing.\n- reviewer: Reviews a change. Use it after each edit."
    assert listed in said(asked[0], "system")
    assert said(asked[0], "system") == said(place.server.requests[-1].body, "system")

    asked = play(place, {"description": "x", "prompt": "TASK", "subagent_type": "builder"}, named="Task", worker=write)
    done = place.ask("--allow", "edit", "build")
    assert done.status == 0 and (place.folder / "calc.py").read_text() == "2\n", done
    assert asked[0]["model"] == OTHER.removeprefix("openai/") and str(asked[0]).count("You are the BUILDER.") == 1


def test_what_an_agent_cannot_have_is_told_and_permits_nothing(place: Stage) -> None:
    (place.folder / ".claude/agents/team/any-name.md").write_text(BUILDER.format(model="opus"))
    assert place.run("trust").status == 0
    asked = play(place, {"task": "TASK", "recipe": "builder"})
    done = place.ask("build")
    assert done.status == 0 and len(asked) == 1, done
    assert any("agent builder requests model opus" in line for line in done.told), done.told
    play(place, {"task": "TASK", "recipe": "bilder"})
    done = place.ask("build")
    assert "there is no such recipe" in done.text and "Agents: builder, reviewer" in done.text, done.text
    reviewer = place.folder / ".claude/agents/team/reviewer.md"
    reviewer.write_text(REVIEWER.replace("tools: Read", "tools: Write, Read"))
    asked = play(place, {"task": "TASK", "recipe": "reviewer"})
    done = place.ask("review")
    assert not asked and "is not trusted" in done.text and "nexus trust" in done.text, done.text


def test_an_agent_file_gives_no_tool_and_no_level_that_its_session_lacks(place: Stage) -> None:
    fields = "tools: Edit, Root(*), ../../x\npermissionMode: bypassPermissions"
    (place.folder / ".claude/agents/sly.md").write_text(f"---\nname: sly\ndescription: Sly.\n{fields}\n---\nBe sly.\n")
    told = " ".join(place.run("trust").text.split())
    assert "unknown tool Root" in told and "permissionMode is ignored" in told, told
    write = ("edit_file", {"path": "calc.py", "edits": [{"old": "1", "new": "2"}]})
    for worker in (write, ("Root", {"command": "rm calc.py"}), ("bash", {"command": "echo 2 > calc.py"})):
        asked = play(place, {"task": "TASK", "recipe": "sly"}, worker=worker)
        done = place.ask("--allow", "ask", "go")
        assert len(asked) == 2 and (place.folder / "calc.py").read_text() == "1\n", (worker, done)
        assert len([line for line in said(asked[1], "tool").splitlines() if line]) == 1, said(asked[1], "tool")


def test_a_worker_whose_agent_is_gone_is_not_steered_and_why_is_told(place: Stage) -> None:
    assert place.run("trust").status == 0
    play(place, {"task": "TASK", "recipe": "reviewer"})
    assert place.ask("review").status == 0
    (place.folder / ".claude/agents/team/reviewer.md").unlink()
    place.script(
        lambda body: (
            calls(("agents", {"action": "steer", "agent": "w1", "text": "more"}))
            if body["messages"][-1]["role"] == "user"
            else {"text": str(body["messages"][-1]["content"])}
        )
    )
    done = place.ask("-c", "more")
    assert "w1 cannot continue: recipe reviewer: there is no such recipe" in done.text, done


def test_a_person_names_an_agent_in_words_and_in_a_command(place: Stage) -> None:
    assert place.run("trust").status == 0
    asked = play(place)
    for words in ("@reviewer look at a@builder.example", "@agent-reviewer look", "/ship shop"):
        assert place.ask(words).status == 0 and not asked
    one, two, three = (str(one.body["messages"][-1]["content"]) for one in place.server.requests[-3:])
    wanted = 'agent(task, recipe="reviewer")'
    assert wanted in one and wanted in two and 'name="builder"' not in one, one
    assert 'agent(task, recipe="builder")' in three and wanted not in three
    (place.folder / ".claude/commands/ship.md").write_text("Read !`echo @reviewer, @builder` again.\n")
    assert place.run("trust").status == 0 and place.ask("--allow", "all", "/ship").status == 0
    data = str(place.server.requests[-1].body["messages"][-1]["content"])
    assert "Read @reviewer, @builder again." in data and "Hand the work" not in data, data
    own = place.home / ".agents/agents/own.md"
    own.parent.mkdir(parents=True)
    own.write_text(REVIEWER.replace("name: reviewer", "name: agent-own"))
    assert place.ask("@agent-own look").status == 0
    assert 'recipe="agent-own"' in str(place.server.requests[-1].body["messages"][-1]["content"])
    own.unlink()
    (place.folder / "reviewer").write_text("a file\n")
    assert place.ask("@reviewer look").status == 0
    assert wanted not in str(place.server.requests[-1].body["messages"][-1]["content"])
    listed = json.loads(place.run("skill", "list", "--json").stdout)
    assert [(one["name"], one["origin"]) for one in listed["agents"]] == [
        ("builder", "project"),
        ("reviewer", "project"),
    ]
    assert "@builder" in place.run("skill", "list").text


def test_an_agent_of_a_plugin_and_a_personal_one(place: Stage, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    (plugin / "agents").mkdir(parents=True)
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "tools"}')
    (plugin / "agents/reviewer.md").write_text(REVIEWER.replace("REVIEWER", "PLUGIN"))
    own = place.home / ".claude/agents"
    write_files(own, {"mine.md": "---\ndescription: Mine.\nmaxTurns: 1\n---\nYou are MINE.\n"})
    assert place.run("trust").status == 0
    added = place.run("plugin", "add", "--all", str(plugin))
    assert added.status == 0 and "1 of 1 item in effect" in str(added.told), added
    assert [one["name"] for one in json.loads(place.run("skill", "list", "--json").stdout)["agents"]] == [
        "builder",
        "mine",
        "reviewer",
        "tools:reviewer",
    ]
    for name, role in (("tools:reviewer", "You are the PLUGIN."), ("mine", "You are MINE.")):
        asked = play(place, {"task": "TASK", "recipe": name})
        done = place.ask("work")
        assert done.status == 0 and role in said(asked[0], "user"), (done, asked)


def test_a_session_asks_whether_to_trust_the_project_and_then_has_its_agents(place: Stage) -> None:
    asked = play(place, {"task": "TASK", "recipe": "reviewer"})
    with Repl.of_stage(place, columns=100) as repl:
        for keys, trusted in ((ENTER, False), (DOWN + ENTER, True)):
            repl.send("/trust" + ENTER)
            repl.wait_for(lambda one: "Trust it?" in one.text, 60)
            repl.send(keys)
            repl.idle()
            said_after = " ".join(repl.text.split())
            assert ("/reload applies the settings and lists skills and agents" in said_after) is trusted
        repl.say("review it")
        repl.send("/agents" + ENTER)
        repl.wait_for(lambda one: "@reviewer" in one.text, 60)
        assert "w1" in repl.text and len(asked) == 1
    new = place.home.parent / "new"
    (new / ".git").mkdir(parents=True)
    write_files(place.home, {".claude/agents/mine.md": REVIEWER.replace("reviewer", "mine")})
    listed = place.run("agents", "list", cwd=new)
    assert listed.status == 0 and "@mine" in listed.text and "No worker" in listed.text, listed
    assert place.run("agents", "list", "--session", "x", cwd=new).status == 2


SERVER = """import json, sys
TOOL = {"name": "note", "description": "Adds a note.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    info = {"name": "memo", "version": "1"}
    first = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    made = {"initialize": first, "tools/list": {"tools": [TOOL, {**TOOL, "name": "wipe"}]}}.get(asked["method"], {})
    if asked["method"] == "tools/call":
        open("noted.txt", "a").write(asked["params"]["name"] + " ")
        made = {"content": [{"type": "text", "text": "the server did it"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": made}), flush=True)
"""


def test_an_agent_calls_the_tools_of_servers_that_its_file_names_by_the_persons_rules(place: Stage) -> None:
    pytest.importorskip("mcp")
    (place.folder / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": ["server.py"]}
    (place.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"memo": server}}))
    reviewer = place.folder / ".claude/agents/team/reviewer.md"
    noted = place.folder / "noted.txt"

    def work(tools: str, name: str) -> str:
        reviewer.write_text(REVIEWER.replace("tools: Read, Grep, Bash(git diff:*), WebSearch\n", tools))
        assert place.run("trust").status == 0
        play(place, {"task": "TASK", "recipe": "reviewer"}, worker=(name, {}))
        noted.unlink(missing_ok=True)
        done = place.ask("review")
        assert done.status == 0, done
        return done.text

    note, wipe = "mcp__memo__note", "mcp__memo__wipe"
    assert place.run("trust").status == 0 == place.run("mcp", "test", "memo").status
    text = work("", note)
    assert not noted.exists() and "nobody here can approve it" in text, "the person has not allowed it"
    assert place.run("rules", "add", "allow mcp__memo__*").status == 0
    for tools, name, has_run in (
        ("", note, True),
        (f"tools: Read, {note}\n", note, True),
        (f"tools: Read, {note}\n", wipe, False),
        ("tools: mcp__memo\n", wipe, True),
        ("tools: Read\n", note, False),
        (f"disallowedTools: {wipe}\n", note, True),
        (f"disallowedTools: {wipe}\n", wipe, False),
    ):
        text = work(tools, name)
        assert noted.exists() == has_run and ("the server did it" in text) == has_run, (tools, name, text)


def test_an_agent_of_codex_works_after_trust(place: Stage) -> None:
    agents = place.folder / ".codex/agents"
    agents.mkdir(parents=True)
    role = 'description = "Reviews."\ndeveloper_instructions = "You are the CODEX REVIEWER."\n'
    (agents / "critic.toml").write_text(role)
    refused = play(place, {"task": "TASK", "recipe": "critic"})
    assert "is not trusted" in place.ask("review").text and not refused
    assert place.run("trust").status == 0
    asked = play(place, {"task": "TASK", "recipe": "critic"})
    done = place.ask("review")
    assert done.status == 0 and "You are the CODEX REVIEWER." in said(asked[0], "user"), done
    (agents / "critic.toml").write_text(role.replace("Reviews", "Writes"))
    refused = play(place, {"task": "TASK", "recipe": "critic"})
    assert "is not trusted" in place.ask("review").text and not refused
