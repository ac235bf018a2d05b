"""The commands with which benchmarks run nexus. Harbor is played by as much of it as the class needs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from program.nursery import launcher
from program.stage import MODEL, Stage, calls, stage

import nexus_cli

FOLDER = Path(nexus_cli.__file__).parent / "adapters"
TASK = 'Say "it\'s done"; $(touch pwned) -x'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.script(lambda body: {"text": "Done."})
        bin_folder = made.home / ".local" / "bin"
        bin_folder.mkdir(parents=True)
        (bin_folder / "nexus").symlink_to(launcher())
        (bin_folder / "uv").write_text('#!/bin/sh\necho "$@" >> "$HOME/uv.txt"\n')
        (bin_folder / "uv").chmod(0o755)
        made.environment["PATH"] = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        yield made


def asked(place: Stage) -> str:
    return str(place.server.requests[-1].body["messages"][-1]["content"])


def run(place: Stage, command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=place.env() | env,
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.mark.matrix
def test_the_manifest_of_openbench_runs_a_task(place: Stage) -> None:
    manifest = tomllib.loads((FOLDER / "openbench.toml").read_text())
    given = {"{prompt}": TASK, "{model}": MODEL, "{home}": str(place.home)}

    def fill(text: str) -> str:
        for name, value in given.items():
            text = text.replace(name, value)
        return text

    env = {name: fill(text) for name, text in manifest["env"].items()}
    done = run(place, [fill(part) for part in manifest["command"]], **env)
    assert done.returncode == 0 and json.loads(done.stdout)["text"] == "Done." and TASK in asked(place)
    assert run(place, manifest["version_command"]).stdout.startswith("nexus ")
    assert manifest["base_url_env"] in manifest["pass_env"] and manifest["kind"] == "manifest"


@pytest.mark.matrix
def test_the_entry_of_harness_bench_runs_a_task(place: Stage) -> None:
    entry = json.loads((FOLDER / "harness-bench.json").read_text())["models"]["nexus"]
    prompt = place.home / "it's a prompt.txt"
    prompt.write_text(TASK)
    given = {"workspace": str(place.folder), "prompt_file": str(prompt)}
    done = run(place, [entry["command"], *(part.format(**given) for part in entry["args"])])
    assert done.returncode == 0 and json.loads(done.stdout)["text"] == "Done." and TASK in asked(place)
    place.script(lambda body: {"fault": 401})
    assert run(place, [entry["command"], *(part.format(**given) for part in entry["args"])]).returncode == 2


class Failed(RuntimeError):
    """Stands for Harbor's error of a command."""


class InstalledAgent:
    """What `BaseInstalledAgent` of Harbor 0.25 does with its arguments and with commands."""

    def __init__(self, logs_dir: Path, model_name: str | None = None, **kwargs: Any) -> None:
        self.logs_dir, self.model_name = logs_dir, model_name
        self.environment_logs_dir, self.extra_env = logs_dir, kwargs.pop("extra_env", {})
        self._version = kwargs.pop("version", None)
        self._flags = kwargs

    def build_cli_flags(self) -> str:
        flags: list[Any] = type(self).CLI_FLAGS  # type: ignore[attr-defined]
        return " ".join(f"{one.cli} {self._flags[one.kwarg]}" for one in flags if one.kwarg in self._flags)

    async def ensure_system_dependencies(self, environment: Any, names: tuple[str, ...]) -> None:
        environment.packages += names

    async def exec_as_agent(self, environment: Any, command: str, env: dict[str, str] | None = None) -> None:
        done = run(
            environment.place, ["bash", "-c", f"set -o pipefail; {command}"], **{**self.extra_env, **(env or {})}
        )
        if done.returncode:
            raise Failed(done.stderr)


@dataclass
class Container:
    """The environment of a task: this machine."""

    place: Stage
    packages: list[str] = field(default_factory=list)
    uploads: list[tuple[Path, str]] = field(default_factory=list)

    async def upload_file(self, source: Path, target: str) -> None:
        self.uploads.append((source, target))


@pytest.fixture
def agent_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    base: Any = ModuleType("harbor.agents.installed.base")
    base.BaseInstalledAgent, base.with_prompt_template = InstalledAgent, lambda function: function
    base.CliFlag = lambda kwarg, cli, type="str": SimpleNamespace(kwarg=kwarg, cli=cli)
    for name in ("harbor", "harbor.agents", "harbor.agents.installed"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    spec = importlib.util.spec_from_file_location("harbor_agent", FOLDER / "harbor_agent.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NexusAgent


def context() -> Any:
    return SimpleNamespace(n_input_tokens=None, n_cache_tokens=None, n_output_tokens=None, cost_usd=None, metadata=None)


@pytest.mark.matrix
def test_harbor_installs_a_wheel_and_runs_a_task(place: Stage, tmp_path: Path, agent_class: Any) -> None:
    wheel = tmp_path / "nexus_cli-1.whl"
    wheel.touch()
    agent, container, told = agent_class(tmp_path, MODEL, package=str(wheel), max_steps=5), Container(place), context()
    asyncio.run(agent.install(container))
    assert container.uploads == [(wheel, "/installed-agent/nexus_cli-1.whl")] and "git" in container.packages
    assert (place.home / "uv.txt").read_text() == "tool install --python 3.12 /installed-agent/nexus_cli-1.whl\n"
    asyncio.run(agent.run(TASK, container, told))
    assert TASK in asked(place) and not list(place.folder.rglob("pwned"))
    agent.populate_context_post_run(told)
    assert told.n_input_tokens > 0 and told.n_output_tokens > 0 and told.cost_usd > 0
    assert told.metadata["exit"] == 0 and told.metadata["steps"] == 1
    assert agent.parse_version("nexus 0.2.0\n") == "0.2.0"


@pytest.mark.matrix
def test_harbor_installs_nothing_from_an_index_by_itself(place: Stage, tmp_path: Path, agent_class: Any) -> None:
    with pytest.raises(ValueError, match="--ak package=dist/nexus_cli"):
        asyncio.run(agent_class(tmp_path, MODEL, version="1.0").install(Container(place)))
    assert not (place.home / "uv.txt").exists()


@pytest.mark.matrix
def test_harbor_grades_what_a_limit_has_stopped_and_raises_for_a_failure(
    place: Stage, tmp_path: Path, agent_class: Any
) -> None:
    agent, told = agent_class(tmp_path, MODEL, max_steps=1), context()
    place.script(lambda body: calls(("bash", {"command": "true"})))
    asyncio.run(agent.run(TASK, Container(place), told))
    agent.populate_context_post_run(told)
    assert told.metadata["exit"] == 3 and told.metadata["error"]["kind"] == "limit"
    place.script(lambda body: {"fault": 401})
    with pytest.raises(Failed, match="nexus: request failed"):
        asyncio.run(agent.run(TASK, Container(place), told))


@pytest.mark.matrix
def test_a_killed_run_counts_its_finished_steps(place: Stage, tmp_path: Path, agent_class: Any) -> None:
    agent, told = agent_class(tmp_path, MODEL), context()
    place.script([calls(("bash", {"command": "true"})), {"text": "Done."}])
    asyncio.run(agent.run(TASK, Container(place), told))
    log = tmp_path / "nexus.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    last = max(place for place, event in enumerate(events) if event["type"] == "step.end")
    whole = [json.dumps(event) for event in events]
    agent.populate_context_post_run(told)
    for cut, share in ((last + 1, 1.0), (last, 0.7)):
        log.write_text("\n".join([*whole[:cut], whole[cut][:20]]))
        partial = context()
        agent.populate_context_post_run(partial)
        assert 0 < partial.n_input_tokens <= told.n_input_tokens * share and partial.metadata is None
    log.unlink()
    agent.populate_context_post_run(absent := context())
    assert absent.n_input_tokens is None


def test_only_the_key_of_the_models_provider_goes_along(
    tmp_path: Path, agent_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "x")
    agent = agent_class(tmp_path, MODEL, extra_env={"OPENAI_API_BASE": "y"})
    assert agent._model_env() == {"OPENAI_API_KEY": "x"}
