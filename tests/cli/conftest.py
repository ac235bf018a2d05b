"""Runs the program as people do: a process with its own folders, streams and environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ENGINE = str(Path(__file__).with_name("fake_engine.py"))
Run = Callable[..., subprocess.CompletedProcess[bytes]]


def start(command: list[str], stdin: bytes | None, env: dict[str, str] | None, **more: Any) -> Any:
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run(command, env={**os.environ, **(env or {})}, timeout=60, **given, **streams)


@pytest.fixture
def nexus(tmp_path: Path) -> Run:
    """`nexus(*arguments, stdin=, env=)`: the installed program, in an empty folder."""

    def run(*arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None, **more: Any) -> Any:
        more.setdefault("cwd", tmp_path)
        return start([sys.executable, "-m", "nexus_cli", *arguments], stdin, env, **more)

    return run


@pytest.fixture
def engine(tmp_path: Path) -> Run:
    """`engine(scenario, *arguments, stdin=, env=)`: the program over a scripted session."""

    def run(scenario: str, *arguments: str, stdin: bytes | None = None, env: Any = None, **more: Any) -> Any:
        more.setdefault("cwd", tmp_path)
        return start([sys.executable, ENGINE, scenario, *arguments], stdin, {"NEXUS_MODEL": "m", **(env or {})}, **more)

    return run


@pytest.fixture
def config() -> Path:
    """The personal config.toml of this test, in a folder that is there."""
    path = Path(os.environ["NEXUS_HOME"]) / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path
