"""CPU and memory per tool turn as a session grows: 200 turns of one `nexus ask`, each with a tool output of 2 KB, and
200 turns with a command each."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import ChildFailedError, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, Watched, ask, bare, stage, undisturbed

TURNS = 200
OUTPUT = 2048
"""Bytes of one tool output."""
EARLY, LATE = slice(0, 20), slice(180, 200)


def write_files(folder: Path, number: int, size: int = OUTPUT) -> None:
    """`number` files of `size` bytes of code-like text, each different: `f1.txt`, `f2.txt`, ..."""
    rng = random.Random(11)
    words = ("def", "return", "self", "value", "for", "in", "if", "not", "None", "result", "(x)", "=", ":", "import")
    for place in range(1, number + 1):
        text = ""
        while len(text) < size:
            text += "    " + " ".join(rng.choice(words) for _ in range(8)) + f"  # {rng.randrange(10**6)}\n"
        (folder / f"f{place}.txt").write_text(text[: size - 1] + "\n")


def reading(number: int) -> Any:
    """The model's answer to request `number`: reads the next file, until the turns are over."""
    if number > TURNS:
        return "done"
    return {"calls": [{"name": "read_file", "arguments": {"path": f"f{number}.txt"}}]}


def running(number: int) -> Any:
    """The model's answer to request `number`: runs a command, until the turns are over."""
    return {"calls": [{"name": "bash", "arguments": {"command": f"echo {number}"}}]} if number <= TURNS else "done"


def session(here: Stage, command: list[str], answers: Callable[[int], Any] = reading) -> Watched:
    """One session of all turns; `ChildFailedError` when its last request did not hold every turn."""
    noted = here.watch(command, answers, undisturbed)
    held = len(here.server.requests[-1].body["messages"])
    if len(noted.cpu) != TURNS + 1 or held < 2 * TURNS:
        raise ChildFailedError(f"{command[0]} sent {len(noted.cpu)} requests, the last with {held} messages")
    return noted


def costs(watched: list[Watched], turns: slice) -> float:
    """Seconds of CPU per turn: the median over these turns, and of that over the sessions."""
    each = [statistics.median([b - a for a, b in pairwise(noted.cpu)][turns]) for noted in watched]
    return statistics.median(each)


def rows(times: int) -> Iterator[Row]:
    """A tenth as many sessions as repetitions: each gives twenty turns to take the median of."""
    with stage() as here:
        write_files(here.scene.folder, TURNS)
        own, script = ask("--max-steps", str(TURNS + 10), "go"), bare(TURNS + 1, here.scene.folder)
        nexus: list[Watched] = []
        sdk: list[Watched] = []
        commands: list[Watched] = []
        for _ in range(max(1, times // 10)):
            nexus.append(session(here, own))
            sdk.append(session(here, script))
            commands.append(session(here, own, running))
    early, late = costs(nexus, EARLY), costs(nexus, LATE)
    sdk_early, sdk_late = costs(sdk, EARLY), costs(sdk, LATE)
    yield Row("CPU per turn, turns 181-200", milliseconds(late), "ms", milliseconds(early), "turns 1-20", 2.0)
    yield Row("the bare script, turns 181-200", milliseconds(sdk_late), "ms", milliseconds(sdk_early), "turns 1-20")
    yield Row("nexus less the bare script, turns 1-20", milliseconds(early - sdk_early), "ms", most=15)
    yield Row("nexus less the bare script, turns 181-200", milliseconds(late - sdk_late), "ms", most=15)
    what = "CPU per command and its turn"
    yield Row(f"{what}, turns 1-20", milliseconds(costs(commands, EARLY)), "ms", most=25)
    yield Row(f"{what}, turns 181-200", milliseconds(costs(commands, LATE)), "ms", most=20)
    yield Row("the same, peak of memory", max(max(noted.memory) for noted in commands) / 1e6, "MB", most=250)
    tenth = statistics.median([noted.memory[9] for noted in nexus]) / 1e6
    last = statistics.median([noted.memory[TURNS - 1] for noted in nexus]) / 1e6
    yield Row("memory at turn 200", last, "MB", tenth, "at turn 10", 1.1)


BENCHMARK = Benchmark("200 tool turns of one session, 2 KB each, with the litellm call", rows)
