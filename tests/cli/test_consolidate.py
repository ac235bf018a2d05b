"""`nexus memory consolidate` as a person runs it: the program, a model behind a socket, the ledger afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server.play import ScriptedServer

from nexus_cli.cli.consolidate import changes_text
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.paths import places
from nexus_cli.ledger import Ledger

Run = Callable[..., subprocess.CompletedProcess[bytes]]
AT = "2026-01-02T03:04:05.000Z"
MERGED = {"text": "Run pytest -q.", "slot": "agent"}


@pytest.fixture
def facts(tmp_path: Path) -> None:
    """Two facts that say the same."""
    places().data.mkdir(parents=True)
    ledger = Ledger.open(places().ledger)
    for text in ("Run pytest quietly.", "Use pytest -q."):
        ledger.facts.add(
            MemorySlot.AGENT, text, state=FactState.KEPT, at=AT, actor="agent", project=str(tmp_path)
        )
    ledger.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A model that merges both and is done."""
    calls = [
        {"name": "remember", "arguments": MERGED},
        {"name": "forget", "arguments": {"id": "m1"}},
        {"name": "forget", "arguments": {"id": "m2"}},
    ]
    with ScriptedServer([{"calls": calls}, "Two facts became one."]) as served:
        for name, value in (
            ("OPENAI_API_KEY", "x"), ("OPENAI_API_BASE", served.base("chat")), ("NO_PROXY", "127.0.0.1"),
            ("NEXUS_MODEL", "openai/law"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        yield served


def test_two_facts_become_one_that_waits(nexus: Run, facts: None, server: ScriptedServer) -> None:
    done = nexus("memory", "consolidate", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert (value["looked_at"], value["left"], value["answer"]) == (2, 0, "Two facts became one.")
    assert [fact["id"] for fact in value["forgotten"]] == ["m2", "m1"]
    assert [fact["text"] for fact in value["remembered"]] == [MERGED["text"]]
    text = changes_text(value, 80)
    assert text.startswith("2 facts looked at.") and text.endswith("Two facts became one.")
    assert "+ m3 Run pytest -q. (waits for you: nexus memory accept)" in text
    assert "- m1 Run pytest quietly." in text and "- m2 Use pytest -q." in text
    listed = json.loads(nexus("memory", "list", "--json").stdout)["facts"]
    assert [(fact["id"], fact["state"]) for fact in listed] == [("m3", "proposed")]
    assert nexus("replay", "--session", value["session"]).returncode == 0


def test_without_facts_no_model_is_asked(nexus: Run, server: ScriptedServer) -> None:
    done = nexus("memory", "consolidate")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there are no facts" in done.stderr.splitlines()[-1] and not server.requests
