"""`nexus memory consolidate` as a person runs it: the program, a model behind a socket, the ledger afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from json_shape import problems
from server.play import ScriptedServer

from nexus_cli.cli.sessions.consolidate import ConsolidationReport
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.ledger import Ledger

Run = Callable[..., subprocess.CompletedProcess[bytes]]
AT = "2026-01-02T03:04:05.000Z"
MERGED = {"ids": ["m1", "m2"], "text": "Run pytest -q."}


@pytest.fixture
def facts(tmp_path: Path) -> None:
    """Two facts that say the same."""
    places().data.mkdir(parents=True)
    ledger = Ledger.open(places().ledger)
    for text in ("Run pytest quietly.", "Use pytest -q."):
        ledger.facts.add(MemorySlot.AGENT, text, state=FactState.KEPT, at=AT, actor="agent", project=str(tmp_path))
    ledger.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A model that merges both and is done."""
    calls = [
        {"name": "merge_facts", "arguments": MERGED},
        {"name": "forget", "arguments": {"id": "m1"}},
        {"name": "forget", "arguments": {"id": "m2"}},
    ]
    with ScriptedServer([{"calls": calls}, "Two facts became one."]) as served:
        for name, value in (
            ("OPENAI_API_KEY", "x"),
            ("OPENAI_API_BASE", served.base("chat")),
            ("NO_PROXY", "127.0.0.1"),
            ("NEXUS_MODEL", "openai/law"),
        ):
            monkeypatch.setenv(name, value)
        yield served


def test_two_facts_become_one_that_waits(nexus: Run, facts: None, server: ScriptedServer) -> None:
    done = nexus("memory", "consolidate", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert not [*problems(value, ConsolidationReport)]
    assert (value["looked_at"], value["left"], value["answer"]) == (2, 0, "Two facts became one.")
    assert not value["forgotten"], "what is kept stays until its merger is accepted"
    assert [fact["text"] for fact in value["remembered"]] == [MERGED["text"]]
    text = find_form("changed_facts")(value, 80)
    assert text.startswith("2 facts reviewed.") and text.endswith("Two facts became one.")
    told = "+ m3 Run pytest -q. (proposed; to accept: nexus memory accept m3; then m1, m2 will be forgotten)"
    assert told in " ".join(text.split())
    listed = json.loads(nexus("memory", "list", "--json").stdout)["facts"]
    assert [(fact["id"], fact["state"]) for fact in listed] == [("m3", "proposed"), ("m2", "kept"), ("m1", "kept")]
    assert b"replaces m1, m2" in nexus("memory", "list").stdout
    accepted = nexus("memory", "accept", "all")
    assert accepted.returncode == 0 and b"Forgotten: m1 (agent) Run pytest quietly." in accepted.stdout
    listed = json.loads(nexus("memory", "list", "--json").stdout)["facts"]
    assert [(fact["id"], fact["state"]) for fact in listed] == [("m3", "kept")] and listed[0]["accepted"]
    assert nexus("replay", "--session", value["session"]).returncode == 0


def test_without_facts_no_model_is_asked(nexus: Run, server: ScriptedServer) -> None:
    done = nexus("memory", "consolidate")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the project and the agent have no facts" in done.stderr.splitlines()[-1] and not server.requests
    assert not places().data.exists(), "with nothing to do nothing is made"


@pytest.mark.matrix
def test_its_session_is_never_the_newest_of_the_folder(nexus: Run, facts: None, server: ScriptedServer) -> None:
    value = json.loads(nexus("memory", "consolidate", "--json").stdout)
    done = nexus("ask", "-c", "go on")
    assert done.returncode == 2 and b"nothing to continue" in done.stderr
    assert b"this folder has no saved session" in nexus("context", "--step", "1").stderr
    assert json.loads(nexus("sessions", "list", "--json").stdout)["sessions"] == []
    everywhere = nexus("sessions", "list", "--all")
    assert value["session"].encode() in everywhere.stdout and b"(sleep_consolidate)" in everywhere.stdout


@pytest.mark.matrix
def test_one_that_the_model_never_answered_leaves_nothing_behind(
    nexus: Run, facts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("OPENAI_API_KEY", "x"),
        ("OPENAI_API_BASE", "http://127.0.0.1:9/v1"),
        ("NEXUS_MODEL", "openai/law"),
    ):
        monkeypatch.setenv(name, value)
    (places().config).mkdir(parents=True, exist_ok=True)
    (places().config / "config.toml").write_text("[provider]\nretries = 0\n")
    assert nexus("memory", "consolidate").returncode in (1, 75)
    assert json.loads(nexus("sessions", "list", "--all", "--json").stdout)["sessions"] == []
    assert len(json.loads(nexus("memory", "list", "--json").stdout)["facts"]) == 2
