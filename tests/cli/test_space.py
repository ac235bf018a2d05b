"""`nexus space`: who takes part, what is said, what is read, as text, as JSON, and what is refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.config.paths import places
from nexus_cli.ledger import Ledger

Run = Callable[..., subprocess.CompletedProcess[bytes]]
ME = '[spaces]\nname = "Husam"\n'


@pytest.fixture
def space(nexus: Run, config: Path) -> Run:
    """`nexus space ...` of Husam."""
    config.write_text(ME)
    return lambda *words, **more: nexus("space", *words, **more)


def read(space: Run, name: str, *more: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(space("read", name, "--json", *more).stdout)
    return value


def test_a_space_is_created_listed_and_read(space: Run) -> None:
    assert b"No spaces. `nexus space create NAME`" in space("list").stdout and not places().ledger.exists()
    assert space("create", "Project Alpha", "--member", "Sarah", "--agent", "Ana").stdout == b"space-1\n"
    done = space("post", "project alpha", "@Ana", "look at", "it")
    assert done.stdout == b"msg-1\n" and b"Ana was triggered: run-1" in done.stderr
    assert space("post", "space-1", "-", "--as", "Sarah", stdin=b"one\ntwo\n").stdout == b"msg-2\n"
    value = read(space, "Project Alpha")
    assert [one["name"] for one in value["space"]["members"]] == ["Husam", "Sarah", "Ana"]
    first, second = value["messages"]
    assert first == {
        "id": "msg-1",
        "at": first["at"],
        "sender": {"id": "ent-1", "name": "Husam", "type": "human"},
        "text": "@Ana look at it",
        "seen": True,
        "reply_to": None,
        "quiet": None,
        "run": None,
        "facts": [],
    }
    assert (second["text"], second["seen"]) == ("one\ntwo", False) and value["version"] == 1
    assert [one["seen"] for one in read(space, "Project Alpha")["messages"]] == [True, True]
    assert [one["seen"] for one in read(space, "Project Alpha", "--as", "Sarah")["messages"]] == [False, False]
    (listed,) = json.loads(space("list", "--json").stdout)["spaces"]
    assert (listed["id"], listed["name"], listed["new"]) == ("space-1", "Project Alpha", 0)


@pytest.mark.matrix
def test_a_message_comes_from_a_pipe(space: Run) -> None:
    space("create", "A")
    assert space("post", "A", stdin=b"from a pipe\n").stdout == b"msg-1\n"
    assert read(space, "A")["messages"][0]["text"] == "from a pipe"


@pytest.mark.matrix
def test_new_messages_stand_below_a_line(space: Run) -> None:
    space("create", "A", "--member", "Sarah")
    space("post", "A", "first")
    space("read", "A", "--as", "Sarah")
    space("post", "A", "second\nwith more", "--as", "Sarah")
    space("post", "A", "third")
    shown = space("read", "A", "--as", "Sarah").stdout.decode().splitlines()
    assert (
        shown[3].endswith("Husam: first") and shown[4].endswith("Sarah:") and shown[5:7] == ["  second", "  with more"]
    )
    assert "- new -" in shown[7] and shown[8].endswith("Husam: third") and len(shown) == 9
    for columns in ("20", "40"):
        narrow = space("read", "A", env={"COLUMNS": columns}).stdout.decode().splitlines()
        assert max(map(len, narrow)) <= int(columns)


def test_the_options_of_agents_come_from_the_command_line_the_settings_and_the_folder(
    space: Run, config: Path, tmp_path: Path
) -> None:
    config.write_text(ME + '[alias]\nfast = "openai/quick"\n[agents.Bob]\nmodel = "openai/b"\nallow = "edit"\n')
    space("create", "A", "--agent", "Ana", "--member", "bob", "--member", "nexus", "--model", "fast")
    ledger = Ledger.open(places().ledger)
    of = {one.name: one for one in ledger.spaces.find("A").members}
    ledger.close()
    assert {name: one.kind for name, one in of.items()} == {
        "Husam": "human",
        "Ana": "agent",
        "bob": "agent",
        "nexus": "agent",
    }
    mine = {"folder": str(tmp_path), "allow": "ask", "recipe": "tick_event", "model": "openai/quick"}
    assert of["Ana"].options == mine == of["nexus"].options
    assert of["bob"].options == {**mine, "allow": "edit"}
    told = space("create", "B", "--agent", "Ana", "--allow", "run").stderr
    assert told == b"nexus: The options also apply to Ana in A.\n"
    assert space("create", "C", "--agent", "Ana", "--allow", "run").stderr == b"", "she has them already"
    ledger = Ledger.open(places().ledger)
    ana = ledger.spaces.find_entity("ANA")
    ledger.close()
    assert ana is not None and ana.options == {**mine, "allow": "auto"}, "what it had stays, but for what is given"


def test_people_join_and_leave(space: Run) -> None:
    space("create", "A")
    told = space("post", "A", "@nobody hi").stderr
    assert b"A has no member @nobody: the message triggered nobody" in told
    assert b"no member" not in space("post", "A", "@husam hi, and mail a@nobody.org").stderr
    assert b"Ana (agent) joined A" in space("join", "A", "--as", "Ana", "--agent").stderr
    assert b"was already" in space("join", "A", "--as", "ana").stderr
    assert space("leave", "A", "--as", "Ana").returncode == 0
    done = space("post", "A", "x", "--as", "Ana")
    assert (
        done.returncode == 2 and b"Ana is not a member" in done.stderr and b"nexus space join A --as Ana" in done.stderr
    )


@pytest.mark.matrix
def test_the_name_of_the_person_is_that_of_git_else_of_the_login(nexus: Run, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("[user]\nname = Of the project\n")
    own = tmp_path / "own"
    own.write_text('[user]\nname = "Ahmad (work) [x]"\n')
    nexus("space", "create", "A", env={"GIT_CONFIG_GLOBAL": str(own)})
    nexus("space", "create", "B", env={"LOGNAME": "sarah"})
    listed = json.loads(nexus("space", "list", "--json").stdout)["spaces"]
    assert [one["members"][0]["name"] for one in listed] == ["Ahmad work x", "sarah"]


def test_a_message_that_is_too_long_is_refused_whole(space: Run) -> None:
    space("create", "A")
    done = space("post", "A", "-", stdin=b"x" * ((1 << 20) + 1))
    assert done.returncode == 2 and b"1,048,577 characters" in done.stderr
    assert read(space, "A")["messages"] == []


@pytest.mark.matrix
def test_controls_in_a_message_reach_no_terminal(space: Run) -> None:
    space("create", "A")
    space("post", "A", "\x1b[2J\u202eboo")
    assert b"\x1b" not in space("read", "A").stdout and "\u202e" not in space("read", "A").stdout.decode()
    assert read(space, "A")["messages"][0]["text"] == "\x1b[2J\u202eboo"


def test_a_ledger_that_can_only_be_read_is_read(space: Run) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    space("create", "A", "--member", "Sarah")
    space("post", "A", "x", "--as", "Sarah")
    for path in places().data.glob("ledger.db*"):
        path.chmod(0o400)
    places().data.chmod(0o500)
    try:
        assert [one["seen"] for one in read(space, "A")["messages"]] == [False]
        assert space("post", "A", "y").returncode == 1
    finally:
        places().data.chmod(0o700)
