"""CPU of `nexus map` per item, 16 at once, beside a bare litellm loop; and its memory per item."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import NEXUS, Child, in_turns, milliseconds, resident
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, Stage, stage

JOBS = 16
FEW, MANY = 32, 160
BARE = str(Path(__file__).with_name("bare_map.py"))


def per_item(here: Stage, command: list[str]) -> float:
    """Seconds of CPU of one further item, without the start."""
    few, many = (here.scene.run([*command, *names(count)]) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def names(count: int) -> list[str]:
    """The first files."""
    return [f"{number}.txt" for number in range(count)]


def memory(here: Stage, command: list[str]) -> float:
    """Bytes resident that one further item leaves, between the first requests and the last."""
    seen: list[float] = []

    def answer(body: object) -> str:
        seen.append(resident(child.pid))
        return "short"

    here.server.load(answer)
    child = Child([*command, *names(MANY)], here.scene)
    child.end()
    here.server.load(lambda body: "short")
    return (seen[-1] - seen[FEW]) / (MANY - FEW)


def rows(times: int) -> Iterator[Row]:
    """Both sides in turns."""
    with stage() as here:
        here.server.load(lambda body: "short")
        for name in names(MANY):
            (here.scene.folder / name).write_text("x = 1\n" * 20)
        own = [NEXUS, "map", "Summarize {}", "--model", MODEL, "-j", str(JOBS)]
        bare = [sys.executable, BARE, str(JOBS)]
        value, base = in_turns(times, lambda: per_item(here, own), lambda: per_item(here, bare))
        yield Row(f"an item, {JOBS} at once", milliseconds(value), "ms", milliseconds(base), "bare litellm loop")
        unsaved = [*own, "--no-save"]
        (value,) = in_turns(times, lambda: per_item(here, unsaved))
        yield Row("an item with --no-save", milliseconds(value), "ms")
        yield Row("memory left by an item", memory(here, own) / 1024, "KiB", most=100)


BENCHMARK = Benchmark("`nexus map` against the scripted model server", rows)
