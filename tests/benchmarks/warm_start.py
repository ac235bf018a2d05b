"""`nexus ask` from cold and from the warm process, side by side: CPU and wall time to the request, memory, wake-ups."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.measure import NEXUS, Child, ChildFailedError, in_turns, milliseconds, resident, running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, ask, stage

IDLE = 5.0
"""Seconds over which the idle process is watched."""
FILES = 10
MEGABYTE = 1e6


def nexus(here: Stage, *arguments: str) -> str:
    """What a command that needs no model prints."""
    done = subprocess.run([NEXUS, *arguments], env=dict(here.scene.environment), capture_output=True, text=True)
    if done.returncode:
        raise ChildFailedError(done.stderr)
    return done.stdout


def forks(server: int) -> list[int]:
    """The processes below the warm process: supervisors and runs."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [server]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def unshared(pid: int) -> int:
    """Bytes of a process that no other shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def to_the_wire(here: Stage, command: list[str], server: int = 0) -> tuple[float, float, float]:
    """Seconds of CPU and of wall time until the request arrives, and unshared bytes; of the forks too."""
    noted: list[tuple[float, float, float]] = []
    begun = 0.0

    def answer(body: object) -> str:
        wall = time.monotonic() - begun
        own = [here.child.pid] if here.child else []
        below = forks(server) if server else []
        if server and not below:
            raise ChildFailedError("the run was a cold one")
        cpu = sum(running_cpu(pid) for pid in [*own, *below])
        noted.append((cpu, wall, sum(map(unshared, below or own))))
        return "done"

    here.server.requests.clear()
    here.server.load(answer)
    begun = time.monotonic()
    here.child = Child(command, here.scene)
    here.child.end()
    return noted[0]


DECIDE = """
import os, time
begun = time.process_time()
from nexus_cli.warm import auto, place
assert auto.is_wanted()
os.path.exists(place.socket_path(place.own_folders()[1]))
before = time.process_time()
auto.may_leave(["ask"]) and auto.is_second_call(place.own_folders()[1], time.time())
print(before - begun, time.process_time() - before)
"""
"""What a cold `nexus ask` in a terminal does for the automatic warm start: before the request, and after the answer."""


def deciding(here: Stage) -> tuple[float, float]:
    """Seconds of CPU before the request and after the answer, with settings that say nothing of a warm process."""
    master, slave = pty.openpty()
    try:
        environment = {name: value for name, value in here.scene.environment.items() if name != "CI"}
        done = subprocess.run(
            [sys.executable, "-c", DECIDE], env=environment, stdout=subprocess.PIPE, stderr=slave, check=True, text=True
        )
    finally:
        os.close(master)
        os.close(slave)
    first, second = map(float, done.stdout.split())
    return first, second


def switches(pid: int) -> int:
    """How often a process has gone to sleep by itself."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("voluntary_ctxt_switches:")[2].split()[0])


def loop_over_files(here: Stage) -> float:
    """Seconds per file of a shell loop of one-shots."""
    for number in range(FILES):
        (here.scene.folder / f"{number}.py").write_text(f"print({number})\n")
    here.server.load({"default": {"text": "It prints a number."}})
    options = "--model openai/scripted"
    line = f'for f in *.py; do {NEXUS} ask {options} -f "$f" "one line: what does this do?" </dev/null; done'
    begun = time.monotonic()
    subprocess.run(
        ["bash", "-ec", line], cwd=here.scene.folder, env=dict(here.scene.environment), check=True, capture_output=True
    )
    return (time.monotonic() - begun) / FILES


def rows(times: int) -> Iterator[Row]:
    """Cold and warm take turns; then the idle process."""
    with stage() as here:
        for what, values in zip(
            ("before the request", "after the answer"),
            zip(*(deciding(here) for _ in range(times)), strict=True),
            strict=True,
        ):
            yield Row(f"CPU of deciding whether to leave one, {what}", milliseconds(median(values)), "ms", most=5)
        settings = Path(here.scene.environment["NEXUS_HOME"]) / "config" / "config.toml"
        settings.write_text(f"{settings.read_text()}\n[warm]\nminutes = 10\n")
        nexus(here, "warm", "start")
        server = int(json.loads(nexus(here, "warm", "status", "--json"))["pid"])
        off = replace(here, scene=replace(here.scene, environment={**here.scene.environment, "NEXUS_WARM": "0"}))
        cold: list[tuple[float, float, float]] = []
        warm: list[tuple[float, float, float]] = []

        def one(kept: list[tuple[float, float, float]], run: Callable[[], tuple[float, float, float]]) -> float:
            kept.append(run())
            return kept[-1][0]

        in_turns(
            times,
            lambda: one(cold, lambda: to_the_wire(off, ask("hi"))),
            lambda: one(warm, lambda: to_the_wire(here, ask("hi"), server)),
        )
        first, second = ([median(values) for values in zip(*kept[1:], strict=True)] for kept in (cold, warm))
        for what, index, most in (("CPU", 0, 150), ("wall time", 1, 250)):
            yield Row(f"{what}, start to request, cold", milliseconds(first[index]), "ms")
            yield Row(f"{what}, start to request, warm", milliseconds(second[index]), "ms", most=most)
        yield Row("unshared memory of a run", second[2] / MEGABYTE, "MB", most=60)
        yield Row("one file of a loop", milliseconds(loop_over_files(here)), "ms", most=350)
        yield Row("memory of the idle process", resident(server) / MEGABYTE, "MB", most=330)
        asleep, cpu = switches(server), running_cpu(server)
        time.sleep(IDLE)
        yield Row(f"wake-ups in {IDLE:g} idle seconds", switches(server) - asleep, "", most=0)
        yield Row("CPU of the same", milliseconds(running_cpu(server) - cpu), "ms", most=0)
        nexus(here, "warm", "stop")


BENCHMARK = Benchmark("`nexus ask` from the warm process", rows)
