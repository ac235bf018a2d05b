"""What the first request of a cold `nexus ask` loads and enters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
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
    "conversation.window_truncation",
    "ledger.relevance",
    "ledger.runs",
    "ledger.spaces",
    "provider.failures",
    "rpc",
    "rules",
    "runs",
    "sandbox",
    "engine.requests.request_history",
    "engine.compaction.compact",
    "core.drop_list",
    "session.outcome",
    "session.status",
    "engine.requests.user_messages",
    "spaces",
)
"""Rooms and modules that no plain first request needs."""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `count_calls` notes in a new home."""
    return note_start(tmp_path_factory.mktemp("cold"), "hi")


def note_start(folder: Path, words: str) -> dict[str, Any]:
    """Return what `count_calls` notes when litellm is called: functions, modules, statements."""
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
        (folder / "project").mkdir(exist_ok=True)
        (folder / "home" / "config").mkdir(parents=True, exist_ok=True)
        (folder / "home" / "config" / "config.toml").write_text('[models."openai/scripted"]\nwindow = 100000\n')
        done = subprocess.run(
            [sys.executable, PROGRAM, str(notes), "ask", "--model", "openai/scripted", words],
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
def test_a_start_with_new_words_builds_no_encoder_once_its_texts_are_counted(tmp_path: Path) -> None:
    words = "Find out why the test in tests/test_shop.py fails, mend it with few lines, and tell me the cause."
    first, second = (note_start(tmp_path, f"{words} This is message {number}.") for number in (1, 2))
    loads = [
        [one for one in noted["functions"] if one.startswith("conversation/tokens/counter.py") and "_load" in one]
        for noted in (first, second)
    ]
    assert loads[0] and not loads[1]
