"""Runs the program as people do: a process with its own folders, streams and environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.nursery import run_born

ENGINE = str(Path(__file__).with_name("fake_engine.py"))
RUN_ENGINE = f"import runpy; runpy.run_path({ENGINE!r}, run_name='engine')"
"""Run in a forked process: what follows has the scripted session."""
Run = Callable[..., subprocess.CompletedProcess[bytes]]


def start(
    arguments: list[str], scenario: str, stdin: bytes | None, env: dict[str, str] | None, cwd: Path, **more: Any
) -> Any:
    """Run the program, with a scenario over a scripted session; forked (`program.nursery`) where that is the same."""
    if not more and not any(name.startswith("PYTHON") for name in env or ()):
        engine = RUN_ENGINE if scenario else ""
        words = [scenario, *arguments] if scenario else arguments
        kind = "light" if scenario else "whole"  # the scripted session replaces modules that are imported later
        return run_born(words, cwd=cwd, env={**os.environ, **(env or {})}, code=engine, kind=kind, stdin=stdin)
    command = [sys.executable, *([ENGINE, scenario] if scenario else ["-m", "nexus_cli"]), *arguments]
    more["cwd"] = cwd
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run(command, env={**os.environ, **(env or {})}, timeout=180, **given, **streams)


@pytest.fixture
def nexus(tmp_path: Path) -> Run:
    """`nexus(*arguments, stdin=, env=)`: the installed program, in an empty folder."""

    def run(*arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None, **more: Any) -> Any:
        return start(list(arguments), "", stdin, env, **{"cwd": tmp_path, **more})

    return run


@pytest.fixture
def engine(tmp_path: Path) -> Run:
    """`engine(scenario, *arguments, stdin=, env=)`: the program over a scripted session."""

    def run(scenario: str, *arguments: str, stdin: bytes | None = None, env: Any = None, **more: Any) -> Any:
        return start(list(arguments), scenario, stdin, {"NEXUS_MODEL": "m", **(env or {})}, **{"cwd": tmp_path, **more})

    return run


@pytest.fixture
def config() -> Path:
    """The personal config.toml of this test, in a folder that is there."""
    path = Path(os.environ["NEXUS_HOME"]) / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path
