"""Process start to the first request at the server: with a template, without one, of a bare litellm script, and of pi.

pi (`@mariozechner/pi-coding-agent`, from npm) is measured where it is on the PATH.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, ask, bare, stage, undisturbed

PI = ["--provider", "scripted", "--model", "scripted", "-p", "hi"]
LEARNING = 2
"""Runs after which a template counts."""


def to_the_server(here: Stage, command: list[str]) -> tuple[float, float]:
    """Return the wall time and the CPU of `command` until its request is at the server, in seconds."""
    began = time.time()
    spent = here.watch(command, lambda number: "done", undisturbed).cpu[0]
    return here.server.requests[0].at - began, spent


def without_template(here: Stage) -> tuple[float, float]:
    """Return the figures of a run that finds no template, and put those back that were there."""
    kept = Path(here.scene.environment["NEXUS_HOME"]) / "cache" / "requests"
    away = kept.rename(kept.with_name("away"))
    try:
        return to_the_server(here, ask("hi"))
    finally:
        shutil.rmtree(kept, ignore_errors=True)
        away.rename(kept)


def pi_command(here: Stage) -> list[str]:
    """Return pi's command line, set up for the server; empty if it is not installed."""
    found = shutil.which("pi", path=here.scene.environment["PATH"])
    settings = Path(here.scene.environment["HOME"]) / ".pi" / "agent" / "models.json"
    settings.parent.mkdir(parents=True)
    provider = {"baseUrl": here.server.base("chat"), "api": "openai-completions", "apiKey": "none"}
    settings.write_text(json.dumps({"providers": {"scripted": {**provider, "models": [{"id": "scripted"}]}}}))
    return [found, *PI] if found else []


def rows(times: int) -> Iterator[Row]:
    """All of them in turns, wall time and CPU."""
    with stage() as here:
        for _ in range(LEARNING):
            to_the_server(here, ask("hi"))
        measures: dict[str, Callable[[], tuple[float, float]]] = {
            "with a template": lambda: to_the_server(here, ask("hi")),
            "without": lambda: without_template(here),
            "bare litellm script": lambda: to_the_server(here, bare(1, here.scene.folder)),
        }
        if pi := pi_command(here):
            measures["pi"] = lambda: to_the_server(here, pi)
        rounds = [{name: measure() for name, measure in measures.items()} for _ in range(times + 1)][1:]
    for unit, kind in enumerate(("wall time", "CPU")):
        wall, cold, script, *other = (milliseconds(median(r[name][unit] for r in rounds)) for name in measures)
        yield Row(f"start to request with a template, {kind}", wall, "ms", script, "bare litellm script", 0.5)
        yield Row(f"start to request without, {kind}", cold, "ms", script, "bare litellm script")
        if other:
            yield Row(f"start to request with a template, {kind}", wall, "ms", other[0], "pi", 2.0)


BENCHMARK = Benchmark("`nexus ask` with a head start", rows)
