"""What the first request of a cold `nexus ask` loads and enters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from benchmarks.functions_entered import FILES, FUNCTIONS, MODULES, NAMED, PROGRAM, STATEMENTS, files, named
from server.play import ScriptedServer

LATER = (
    "workers",
    "worktrees",
    "commands",
    "config.trust_items",
    "config.unsupported",
    "context.compaction",
    "context.window.lane_truncation",
    "ledger.relevance",
    "ledger.runs",
    "ledger.spaces",
    "provider.failures",
    "rpc",
    "rules",
    "runs",
    "sandbox",
    "lane.request_history",
    "lane.compaction.compact",
    "lane.drop_list",
    "session.outcome",
    "session.status",
    "lane.user_messages",
    "spaces",
)
"""Rooms and modules that no plain first request needs."""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `count_calls` notes when litellm is called: functions, modules, statements."""
    folder = tmp_path_factory.mktemp("cold")
    notes = folder / "notes.json"
    with ScriptedServer() as server:
        server.load(["done"])
        environment = {
            **os.environ,
            "HOME": str(folder),
            "NEXUS_HOME": str(folder / "home"),
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": "sk-nobody",
            "OPENAI_API_BASE": server.base("chat"),
        }
        (folder / "project").mkdir()
        (folder / "home" / "config").mkdir(parents=True)
        (folder / "home" / "config" / "config.toml").write_text('[models."openai/scripted"]\nwindow = 100000\n')
        done = subprocess.run(
            [sys.executable, PROGRAM, str(notes), "ask", "--model", "openai/scripted", "hi"],
            cwd=folder / "project",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    assert done.returncode == 0, done
    read = json.loads(notes.read_text())
    return {"functions": read["functions"][0], "modules": read["modules"], "statements": read["statements"][0]}


@pytest.mark.matrix
def test_a_cold_ask_enters_no_more_than_its_bounds(noted: dict[str, Any]) -> None:
    functions = noted["functions"]
    counts = (len(noted["modules"]), named(functions), len(functions), len(files(functions)), noted["statements"])
    bounds = (MODULES, NAMED, FUNCTIONS, FILES, STATEMENTS)
    assert all(count <= bound for count, bound in zip(counts, bounds, strict=True)), (counts, bounds)


@pytest.mark.matrix
def test_a_cold_ask_loads_nothing_that_comes_later(noted: dict[str, Any]) -> None:
    early = [name for name in noted["modules"] if f"{name}.".startswith(tuple(f"nexus_cli.{one}." for one in LATER))]
    assert not early


@pytest.mark.matrix
def test_a_cold_ask_builds_no_encoder(noted: dict[str, Any]) -> None:
    assert not [one for one in noted["functions"] if one.startswith("context/tokens/counter.py") and "_load" in one]
