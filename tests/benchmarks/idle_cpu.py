"""CPU of a turn that waits: the model is silent, the spinner turns; share of one core over ten seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from statistics import median
from tempfile import NamedTemporaryFile

from benchmarks.measure import running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.typed import SCRIPTED, typed
from terminal.terminal import Terminal

SECONDS = 10.0
SETTLE = 4.0
"""Seconds until imports and the first request are over."""
SILENT = {"default": {"text": "done", "delay": 120}}
"""The script of a model that takes its time."""


def percent(terminal: Terminal) -> float:
    """CPU of the program in the terminal over `SECONDS`, in percent of one core."""
    time.sleep(SETTLE)
    before, since = running_cpu(terminal.pid), time.monotonic()
    time.sleep(SECONDS)
    return 100 * (running_cpu(terminal.pid) - before) / (time.monotonic() - since)


def rows(times: int) -> Iterator[Row]:
    """A tenth as many rounds as repetitions: each takes half a minute."""
    nexus: list[float] = []
    bare: list[float] = []
    with NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(SILENT, script)
        script.flush()
        with typed((SCRIPTED, "--script", script.name)) as here:
            for _ in range(max(1, times // 10)):
                with here.nexus(answers=False) as terminal:
                    nexus.append(percent(terminal))
                with here.bare(answers=False) as terminal:
                    bare.append(percent(terminal))
    yield Row("a turn that waits for the model", median(nexus), "% of a core", most=3.0)
    yield Row("the bare loop, which has no spinner", median(bare), "% of a core")


BENCHMARK = Benchmark("idle CPU", rows)
