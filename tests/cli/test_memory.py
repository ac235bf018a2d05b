"""`nexus memory`: the same facts from the shell, as text and as JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus_cli.commands import discover
from nexus_cli.config.paths import places
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.ledger import Ledger

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def test_facts_are_added_listed_found_and_forgotten(nexus: Run, tmp_path: Path) -> None:
    assert b"No facts about this project yet" in nexus("memory", "list").stdout and not places().ledger.exists()
    added = json.loads(nexus("memory", "add", "use", "pnpm,", "never npm", "--json").stdout)
    (fact,) = added["facts"]
    (elsewhere := tmp_path / "elsewhere").mkdir()
    assert b"this project yet. --all lists" in nexus("memory", "list", cwd=elsewhere).stdout
    assert (added["version"], added["done"], fact["id"], fact["state"]) == (1, "kept", "m1", "kept")
    assert (fact["text"], fact["slot"], fact["project"]) == ("use pnpm, never npm", "project", str(tmp_path))
    assert nexus("memory", "add", "--slot", "user", "likes \x1b[31m tabs").returncode == 0
    listed = json.loads(nexus("memory", "list", "--json").stdout)
    assert [one["id"] for one in listed["facts"]] == ["m2", "m1"] and listed["project"] == str(tmp_path)
    text = nexus("memory", "list").stdout
    assert b"m1" in text and b"likes" in text and b"\x1b" not in text
    assert [one["id"] for one in json.loads(nexus("memory", "search", "npm", "--json").stdout)["facts"]] == ["m1"]
    assert nexus("memory", "forget", "m1").stdout == b"Forgotten permanently: m1 (project) use pnpm, never npm\n"
    assert [one["id"] for one in json.loads(nexus("memory", "list", "--json").stdout)["facts"]] == ["m2"]
    assert b"pnpm" not in b"".join(path.read_bytes() for path in places().data.glob("ledger.db*"))


def test_what_forgetting_leaves_is_said_alike_wherever_it_is_explained(nexus: Run) -> None:
    shell = nexus("memory", "forget", "--help").stdout.decode()
    page = (Path(__file__).parents[2] / "nexus_cli" / "docs" / "context.md").read_text()
    [paragraph] = [part for part in page.split("\n\n") if part.startswith("A fact is about you")]
    for told in (shell, paragraph, next(one.help for one in discover()["memory"].verbs if one.name == "forget")):
        words = " ".join(told.split())
        assert "from memory" in words and "until you delete them" in words, words
        assert "ledger" not in words and "for good" not in words, words


@pytest.mark.matrix
def test_in_a_pipe_no_fact_is_cut_and_in_so_many_columns_it_is(nexus: Run) -> None:
    fact = "The release is built by the job called nightly " + "and then signed " * 20 + "by hand"
    nexus("memory", "add", fact)
    for arguments in (["list"], ["search", "nightly"]):
        assert [line for line in nexus("memory", *arguments).stdout.decode().splitlines() if fact in line]
    narrow = nexus("memory", "list", env={"COLUMNS": "80"}).stdout.decode()
    assert fact not in narrow and max(map(len, narrow.splitlines())) <= 80


def test_proposals_are_accepted_by_id_or_all_at_once(nexus: Run, tmp_path: Path) -> None:
    ledger = Ledger.open(places().ledger)
    for number in range(3):
        ledger.facts.add(
            MemorySlot.PROJECT,
            f"proposal {number}",
            state=FactState.PROPOSED,
            at="2026-01-02T03:04:05.000Z",
            actor="agent",
            project=str(tmp_path),
            session="gone",
            entry=2,
        )
    ledger.close()
    listed = nexus("memory", "list").stdout
    assert b"3 facts proposed by the model" in listed and b"a deleted session" in listed
    assert [one["state"] for one in json.loads(nexus("memory", "accept", "m2", "--json").stdout)["facts"]] == ["kept"]
    assert {one["id"] for one in json.loads(nexus("memory", "accept", "all", "--json").stdout)["facts"]} == {"m1", "m3"}
    assert b"No facts to change" in nexus("memory", "accept", "all").stdout
