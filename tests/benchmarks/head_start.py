"""Process start, or Enter in the REPL, to the first request: nexus, a bare litellm script, pi, codex and opencode.

All work in the same repository, against the same server. The peers come from npm as `tests/parity` installs them;
one that cannot be had has no row.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.first_seconds import PROMPT_READY
from benchmarks.measure import NEXUS, milliseconds, running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, Stage, ask, bare, stage, undisturbed
from benchmarks.typed import seen
from parity.peers import OPENCODE_OFFLINE, Bench, NotRun, codex_command, opencode_command, pi_command
from parity.run import PROGRAMS
from terminal.terminal import ENTER, Terminal, ctrl

LEARNING = 2
"""Runs after which a template counts."""
FILES = 20
"""Files of the repository."""
Figures = tuple[float, float]
"""Wall time and CPU, in seconds."""


def make_repository(folder: Path) -> None:
    """Make a repository with a commit and an uncommitted file."""
    owner = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false"]
    for number in range(FILES):
        (folder / f"{number}.py").write_text("pass\n")
    for words in (["init", "-q"], ["add", "-A"], [*owner, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "0.py").write_text("0\n")


def to_the_server(here: Stage, command: list[str]) -> Figures:
    """Return the figures of `command` until its request is at the server."""
    began = time.time()
    spent = here.watch(command, lambda number: "done", undisturbed).cpu[0]
    return here.server.requests[0].at - began, spent


def without_template(here: Stage) -> Figures:
    """Return the figures of a run that finds no template, and put those back that were there."""
    kept = Path(here.scene.environment["NEXUS_HOME"]) / "cache" / "requests"
    away = kept.rename(kept.with_name("away"))
    try:
        return to_the_server(here, ask("hi"))
    finally:
        shutil.rmtree(kept, ignore_errors=True)
        away.rename(kept)


def from_enter(here: Stage) -> Figures:
    """Return the figures from Enter to the request in a REPL, typed as soon as keys are read."""
    spent: list[float] = []
    environment = {"TERM": "xterm-256color", **here.scene.environment}
    with Terminal([NEXUS, "--model", MODEL], env=environment, cwd=here.scene.folder, emulate=False) as terminal:

        def answer(_: object) -> str:
            spent.append(running_cpu(terminal.pid))
            return "answered"

        here.server.requests.clear()
        here.server.load(answer)
        seen(terminal, PROMPT_READY)
        before, began = running_cpu(terminal.pid), time.time()
        terminal.send("hi" + ENTER)
        seen(terminal, "answered")
        terminal.send(ctrl("d"))
        terminal.status()
        return here.server.requests[0].at - began, spent[0] - before


def peer_commands(here: Stage) -> Iterator[tuple[str, list[str]]]:
    """Yield name and command line of each peer, set up for the server."""
    bench, server = Bench(here.scene.folder.parent, PROGRAMS), here.server
    home = Path(here.scene.environment["HOME"])
    commands: dict[str, Callable[[str], list[str]]] = {
        "pi": lambda program: pi_command(program, "hi", server, home),
        "codex": lambda program: codex_command(program, "hi", server, home, here.scene.folder),
        "opencode": lambda program: opencode_command(program, "hi", server, home),
    }
    for name, command in commands.items():
        try:
            yield name, command(bench.find(name))
        except NotRun as why:
            print(f"{name} is skipped: {why}")


def rows(times: int) -> Iterator[Row]:
    """All of them in turns, wall time and CPU."""
    with stage() as here:
        here.scene = replace(here.scene, environment={**here.scene.environment, "KEY": "none", **OPENCODE_OFFLINE})
        make_repository(here.scene.folder)
        for _ in range(LEARNING):
            to_the_server(here, ask("hi"))
            from_enter(here)
        peers = dict(peer_commands(here))
        measures: dict[str, Callable[[], Figures]] = {
            "`nexus ask` with a template": lambda: to_the_server(here, ask("hi")),
            "`nexus ask` without": lambda: without_template(here),
            "Enter in a REPL just opened": lambda: from_enter(here),
            "bare litellm script": lambda: to_the_server(here, bare(1, here.scene.folder)),
            **{name: partial(to_the_server, here, line) for name, line in peers.items()},
        }
        rounds = [{name: measure() for name, measure in measures.items()} for _ in range(times + 1)][1:]
    for unit, kind in enumerate(("wall time", "CPU")):
        taken = {name: milliseconds(median(figures[name][unit] for figures in rounds)) for name in measures}
        for own in list(measures)[:3]:
            for other, most in (("bare litellm script", 0.9), ("pi", 2.0), ("codex", None), ("opencode", None)):
                if other in taken:
                    bound = most if own.endswith(" template") else None
                    yield Row(f"{own} to request, {kind}", taken[own], "ms", taken[other], other, bound)


BENCHMARK = Benchmark("`nexus ask` with a head start", rows)
