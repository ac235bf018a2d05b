"""CPU per step and memory at equal windows, with little and with much history hidden behind the epoch; no litellm.

Each repetition goes on in a fork of its own, so that the window stays the same.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from benchmarks.long_session import AT, write
from benchmarks.measure import Scene, in_turns, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, stage
from benchmarks.tool_turns import write_files

from nexus_cli.ledger import Ledger

LITTLE, MUCH = 120, 10_000
"""Hidden entries, in forties."""
STEPS = 40
PROGRAM = str(Path(__file__).with_name("stepping.py"))


def noted(place: Scene, session: str) -> tuple[float, float]:
    """Seconds of CPU per step (the median of a turn of `STEPS`), and bytes resident at its end."""
    printed = json.loads(place.child((sys.executable, PROGRAM, session, str(STEPS))).printed.splitlines()[-1])
    return statistics.median(b - a for a, b in pairwise(printed["cpu"])), float(printed["memory"])


def rows(times: int) -> Iterator[Row]:
    """The step, then the memory of each hidden entry."""
    with stage() as here:
        write_files(here.scene.folder, STEPS)
        home = Path(here.scene.environment["NEXUS_HOME"])
        ledger = Ledger.open(home / "data" / "ledger.db")
        sessions = [write(ledger, here.scene.folder, MODEL, size) for size in (MUCH, LITTLE)]
        memory: dict[str, list[float]] = {session: [] for session in sessions}

        def step(session: str) -> float:
            cpu, resident = noted(here.scene, ledger.fork_session(session, at=AT).id)
            memory[session].append(resident)
            return cpu

        value, base = in_turns(times, lambda: step(sessions[0]), lambda: step(sessions[1]))
        ledger.close()
    yield Row(f"a step, {MUCH:,} hidden", milliseconds(value), "ms", milliseconds(base), f"{LITTLE} hidden", 1.2)
    much, little = (statistics.median(memory[session]) for session in sessions)
    yield Row("memory per hidden entry", max(0.0, much - little) / (MUCH - LITTLE), "bytes", most=200)


BENCHMARK = Benchmark("hidden history at equal windows, without litellm", rows)
