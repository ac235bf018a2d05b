"""CPU and memory per step as a session grows: 200 files read in one `nexus ask`, and 200 steps that run a command, read
a file and edit it in turn, in `nexus ask` and in the REPL."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import NEXUS, ChildFailedError, milliseconds, running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, Stage, Watched, ask, bare, stage, undisturbed
from terminal.terminal import ENTER, Terminal, ctrl

TURNS = 200
OUTPUT = 2048
"""Bytes of one tool output."""
EARLY, MIDDLE, LATE = slice(2, 20), slice(90, 110), slice(180, 200)
"""The first two turns have the import of litellm, if a template sent the first request before it."""
START_SECONDS, REPL_SECONDS = 40.0, 200.0


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


def working(folder: Path) -> Callable[[int], Any]:
    """The model's answers: a command, a file read, an edit of that file, until the turns are over."""

    def answer(number: int) -> Any:
        name = f"f{number // 3 + 1}.txt"
        old, _, _ = (folder / name).read_text().partition("\n")
        calls = (
            ("bash", {"command": f"echo {number}"}),
            ("read_file", {"path": name}),
            ("edit_file", {"path": name, "edits": [{"old": old, "new": f"line {number}"}]}),
        )
        called, arguments = calls[number % 3]
        return {"calls": [{"name": called, "arguments": arguments}]} if number <= TURNS else "done"

    return answer


def session(here: Stage, command: list[str], answers: Callable[[int], Any] = reading) -> Watched:
    """One session of all turns."""
    noted = here.watch(command, answers, undisturbed)
    check(here, noted)
    return noted


def check(here: Stage, noted: Watched) -> None:
    """Raise `ChildFailedError` when the last request did not hold every turn."""
    held = len(here.server.requests[-1].body["messages"])
    if len(noted.cpu) != TURNS + 1 or held < 2 * TURNS:
        raise ChildFailedError(f"{len(noted.cpu)} requests were sent, the last with {held} messages")


def repl_session(here: Stage) -> Watched:
    """One turn of the REPL in a terminal, with the steps of `working`."""
    noted, step = Watched(), working(here.scene.folder)
    write_files(here.scene.folder, TURNS)
    environment = {**here.scene.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "NEXUS_MODEL": MODEL}
    with Terminal([NEXUS, "--allow", "all"], env=environment, cwd=here.scene.folder, emulate=False) as terminal:

        def answer(body: Any) -> Any:
            noted.cpu.append(running_cpu(terminal.pid))
            return step(len(noted.cpu))

        here.server.requests.clear()
        here.server.load(answer)
        terminal.wait_for(lambda one: b"\x1b[?2004h" in one.raw, START_SECONDS)
        time.sleep(1.0)
        terminal.send(f"go{ENTER}")
        terminal.wait_for(lambda one: len(noted.cpu) > TURNS, REPL_SECONDS)
        check(here, noted)
        terminal.send(ctrl("c"))
        terminal.send(ctrl("d"))
        terminal.status(START_SECONDS)
    return noted


def costs(watched: list[Watched], turns: slice) -> float:
    """Seconds of CPU per turn: the mean of these turns, and of that the least of the sessions."""
    return min(statistics.mean([b - a for a, b in pairwise(noted.cpu)][turns]) for noted in watched)


def rows(times: int) -> Iterator[Row]:
    """A tenth as many sessions as repetitions: each gives twenty turns to take the mean of."""
    with stage() as here:
        write_files(here.scene.folder, TURNS)
        own, script = ask("go"), bare(TURNS + 1, here.scene.folder)
        here.watch(ask("hi"), lambda number: "done", undisturbed)  # makes the template
        nexus: list[Watched] = []
        sdk: list[Watched] = []
        steps: list[Watched] = []
        repl: list[Watched] = []
        for _ in range(max(1, times // 10)):
            write_files(here.scene.folder, TURNS)
            nexus.append(session(here, own))
            sdk.append(session(here, script))
            steps.append(session(here, own, working(here.scene.folder)))
            repl.append(repl_session(here))
    early, late = costs(nexus, EARLY), costs(nexus, LATE)
    sdk_early, sdk_late = costs(sdk, EARLY), costs(sdk, LATE)
    yield Row("CPU per turn, turns 181-200", milliseconds(late), "ms", milliseconds(early), "turns 3-20", 2.0)
    yield Row("the bare script, turns 181-200", milliseconds(sdk_late), "ms", milliseconds(sdk_early), "turns 3-20")
    yield Row("nexus less the bare script, turns 3-20", milliseconds(early - sdk_early), "ms", most=15)
    yield Row("nexus less the bare script, turns 181-200", milliseconds(late - sdk_late), "ms", most=15)
    for what, watched in (("CPU per step", steps), ("the same in the REPL", repl)):
        yield Row(f"{what}, steps 3-20", milliseconds(costs(watched, EARLY)), "ms", most=25)
        yield Row(f"{what}, steps 91-110", milliseconds(costs(watched, MIDDLE)), "ms", most=25)
        yield Row(f"{what}, steps 181-200", milliseconds(costs(watched, LATE)), "ms", most=20)
    yield Row("peak of memory in such steps", max(noted.peak for noted in steps) / 1e6, "MB", most=280)
    tenth = statistics.median([noted.memory[9] for noted in nexus]) / 1e6
    last = statistics.median([noted.memory[TURNS - 1] for noted in nexus]) / 1e6
    yield Row("memory at turn 200", last, "MB", tenth, "at turn 10", 1.1)


BENCHMARK = Benchmark("200 tool turns of one session, 2 KB each, with the litellm call", rows)
