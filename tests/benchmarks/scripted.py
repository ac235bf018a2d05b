"""A child that talks to the scripted model server, with its CPU and memory noted at each request that arrives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import NEXUS, Child, Scene, resident, running_cpu, scene
from server.play import ScriptedServer

MODEL = "openai/scripted"
WINDOW = 2_000_000
BARE = str(Path(__file__).with_name("bare.py"))


@dataclass
class Watched:
    """What was noted of one child."""

    cpu: list[float] = field(default_factory=list)
    """Seconds so far, at each request."""
    memory: list[float] = field(default_factory=list)
    """Bytes resident, at each request."""
    total: float = 0.0
    """Seconds at the end."""
    peak: float = 0.0
    """Most bytes resident at any time, of one process."""


@dataclass
class Stage:
    """A server, a scene whose environment leads to it, and the child that runs."""

    server: ScriptedServer
    scene: Scene
    child: Child | None = None

    def watch(self, command: list[str], step: Callable[[int], Any], meanwhile: Callable[[Child], None]) -> Watched:
        """Run `command`; `step(n)` answers its request n, from 1; `meanwhile` is called once it has started."""
        noted = Watched()

        def answer(body: Any) -> Any:
            assert self.child is not None
            noted.cpu.append(running_cpu(self.child.pid))
            noted.memory.append(resident(self.child.pid))
            return step(len(noted.cpu))

        self.server.requests.clear()
        self.server.load(answer)
        self.child = Child(command, self.scene)
        try:
            meanwhile(self.child)
        finally:
            self.child.end()
        noted.total, noted.peak = self.child.cpu, self.child.peak
        return noted


def undisturbed(child: Child) -> None:
    """For `Stage.watch`: nothing meanwhile."""


def ask(*arguments: str) -> list[str]:
    """The command line of a one-shot against the scripted model."""
    return [NEXUS, "ask", "--model", MODEL, "--allow", "all", *arguments]


def bare(turns: int, files: Path) -> list[str]:
    """The command line of the bare script."""
    return [sys.executable, BARE, str(turns), str(files)]


@contextmanager
def stage() -> Iterator[Stage]:
    """A running server and a scene; the model's window is so large that nothing is ever compacted, and
    a turn has as many steps as it needs."""
    with scene() as place, ScriptedServer(max_requests=100_000, lifetime=3600) as server:
        settings = Path(place.environment["NEXUS_HOME"]) / "config" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[models."{MODEL}"]\nwindow = {WINDOW}\n[limits]\nmax_steps = 10000\n')
        reach = {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": server.base("chat")}
        yield Stage(server, replace(place, environment={**place.environment, **reach}))
