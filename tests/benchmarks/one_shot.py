"""CPU of `nexus ask` around the model's answer: from start to the request, and from the last byte to the end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Child, ChildFailedError, in_turns, milliseconds, running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, ask, bare, stage, undisturbed

PAUSE = 3.0
"""Seconds of silence before the last bytes of the answer."""
QUIET = 0.3
"""Seconds without any CPU after which the child has digested what came before."""


def to_the_wire(here: Stage, command: list[str]) -> float:
    """Seconds of CPU until the request arrives, without a template of it."""
    shutil.rmtree(Path(here.scene.environment["NEXUS_HOME"]) / "cache" / "requests", ignore_errors=True)
    return here.watch(command, lambda number: "done", undisturbed).cpu[0]


def after_the_last_byte(here: Stage, command: list[str]) -> float:
    """Seconds of CPU after the answer's text was digested: for its last event, and to end the process."""
    before: list[float] = []

    def look(child: Child) -> None:
        if not here.server.wait_for(lambda server: bool(server.requests), 60):
            raise ChildFailedError(f"{command[0]} sent no request within 60 s")
        deadline, since = time.monotonic() + PAUSE - QUIET, time.monotonic()
        spent = running_cpu(child.pid)
        while time.monotonic() < deadline and time.monotonic() - since < QUIET:
            time.sleep(0.02)
            now = running_cpu(child.pid)
            if now - spent > 0.001:
                spent, since = now, time.monotonic()
        before.append(running_cpu(child.pid))

    stall = {"text": "done", "chunk": 0, "fault": {"kind": "stall", "seconds": PAUSE, "after": 1}}
    total = here.watch(command, lambda number: stall, look).total
    return total - before[0]


def rows(times: int) -> Iterator[Row]:
    """To the wire beside the bare script, then from the last byte to the end beside it."""
    with stage() as here:
        own, script = ask("hi"), bare(1, here.scene.folder)
        value, base = in_turns(times, lambda: to_the_wire(here, own), lambda: to_the_wire(here, script))
        yield Row("start to request", milliseconds(value), "ms", milliseconds(base), "bare litellm script", 0.9)
        value, base = in_turns(times, lambda: after_the_last_byte(here, own), lambda: after_the_last_byte(here, script))
        yield Row("last byte to end", milliseconds(value), "ms", most=150)
        yield Row("last byte to end, bare litellm script", milliseconds(base), "ms")


BENCHMARK = Benchmark("`nexus ask` against the scripted model server", rows)
