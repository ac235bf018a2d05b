"""The agent class for Harbor, which runs Terminal-Bench: `--agent nexus_cli.adapters.harbor_agent:NexusAgent`.

Harbor needs Python 3.12; nothing else of nexus is imported, so that a copy of this file works too. The task's container
is the sandbox: nexus runs there with `--allow all`. The events of a run are in `nexus.jsonl` in the trial's agent
folder.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from harbor.agents.installed.base import BaseInstalledAgent, CliFlag, with_prompt_template

from nexus_cli.core.json_value import JsonDict

LOG = "nexus.jsonl"
PATH = 'export PATH="$HOME/.local/bin:$PATH"; '
UV = "command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
LIMIT = 3
"""Exit status of a run that a limit has stopped: its work is graded, as that of any other."""


class NexusAgent(BaseInstalledAgent):  # type: ignore[misc]
    """nexus in the container of a task. `package` is a wheel on this machine, or what `uv tool install` takes."""

    CLI_FLAGS: ClassVar[list[Any]] = [
        CliFlag("effort", "--effort"),
        CliFlag("max_steps", "--max-steps", type="int"),
        CliFlag("max_cost", "--max-cost"),
    ]

    def __init__(self, *args: Any, package: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package = package

    @staticmethod
    def name() -> str:
        """Return the name in reports."""
        return "nexus"

    def get_version_command(self) -> str:
        """Return the command whose output is the version."""
        return f"{PATH}nexus --version"

    def parse_version(self, stdout: str) -> str:
        """Return the number in the output of `nexus --version`."""
        return stdout.split()[-1]

    async def install(self, environment: Any) -> None:
        """Install uv and nexus for the user of the task."""
        await self.ensure_system_dependencies(environment, ("curl", "git", "ca_certificates"))
        package = self._package
        if not package:
            raise ValueError("specify the nexus wheel: --ak package=dist/nexus_cli-VERSION-py3-none-any.whl")
        if (wheel := Path(package)).is_file():
            package = f"/installed-agent/{wheel.name}"
            await environment.upload_file(wheel, package)
        line = f"set -e; {UV}{PATH}uv tool install --python 3.12 {shlex.quote(package)}; nexus --version"
        await self.exec_as_agent(environment, command=line)

    @with_prompt_template  # type: ignore[untyped-decorator]
    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Give the task to nexus; raise Harbor's error for a failed run."""
        model = f"-m {shlex.quote(self.model_name)} " if self.model_name else ""
        log = shlex.quote(str(self.environment_logs_dir / LOG))
        line = f"nexus ask --stream-json --allow all {model}{self.build_cli_flags()}"
        line = f"{PATH}printf %s {shlex.quote(instruction)} | {line} | tee {log} || [ $? -eq {LIMIT} ]"
        await self.exec_as_agent(environment, command=line, env=self._model_env())

    def _model_env(self) -> dict[str, str]:
        """Return key and address of the model's provider, from the environment of Harbor; `--ae` overrides them."""
        provider = (self.model_name or "").partition("/")[0].upper()
        names = [f"{provider}_{part}" for part in ("API_KEY", "API_BASE", "BASE_URL")]
        return {name: value for name, value in os.environ.items() if name in names and name not in self.extra_env}

    def populate_context_post_run(self, context: Any) -> None:
        """Fill in tokens and dollars of the run, those of the finished steps if it was killed."""
        events = list(_read_events(self.logs_dir / LOG))
        results = [event for event in events if event.get("type") == "result"]
        counted = results or events
        usages = [event["usage"] for event in counted if isinstance(event.get("usage"), dict)]
        if not usages:
            return
        context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens = (
            sum(usage.get(name) or 0 for usage in usages) for name in ("input", "cache_read", "output")
        )
        costs = [usage.get("cost_usd") for usage in usages]
        context.cost_usd = None if None in costs else sum(costs)
        if results:
            context.metadata = {name: results[-1].get(name) for name in ("session", "steps", "exit", "finish", "error")}


def _read_events(path: Path) -> Iterator[JsonDict]:
    """Yield the events of a log; the last line of a killed run may be cut."""
    for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
