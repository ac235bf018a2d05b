"""Memory of the REPL after 2,000 turns, beside the same process 20 turns after its window was first too small.

The installed program in a pseudo-terminal, its window so small that it compacts every few dozen turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import NEXUS, ChildFailedError, resident
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, stage
from terminal.terminal import ENTER, Terminal, ctrl

MODEL = "openai/gpt-4o"
WINDOW = 8000
SETTINGS = f'[models."{MODEL}"]\nwindow = {WINDOW}\nmax_output = 1000\n'
TURNS, BEYOND = 2000, 20
ANSWER = "An answer of some length, so that the window is full after a few dozen of them. " * 4
SUMMARY = "They talked about turns."
FOOTER = b"\xc2\xb7 1 step \xc2\xb7"
"""Ends every turn on the screen."""
START_SECONDS, TURN_SECONDS = 40.0, 30.0
SAMPLES = 10
"""Turns before the one that is meant whose memory is looked at too; the figure is their median."""


class Talk:
    """The REPL, one turn after the other."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.memory: list[float] = []
        """Bytes resident after each turn."""
        self.first_beyond = 0
        """The turn in which the window was first too small, from 1."""
        self._ended = threading.Event()
        self._tail = b""
        terminal.heard = self._heard

    def _heard(self, data: bytes) -> None:
        self._tail = self._tail[-4000:] + data
        if FOOTER in self._tail:
            self._ended.set()
        if not self.first_beyond and b"compacted" in self._tail:
            self.first_beyond = len(self.memory) + 1

    def turn(self, number: int) -> None:
        """One turn; `ChildFailedError` when it does not end."""
        self._tail = b""
        self._ended.clear()
        self.terminal.send(f"turn {number}{ENTER}")
        if not self._ended.wait(TURN_SECONDS):
            raise ChildFailedError(f"turn {number} did not end: {bytes(self.terminal.raw[-1000:])!r}")
        time.sleep(0.02)
        self.memory.append(resident(self.terminal.pid))

    def at(self, turn: int) -> float:
        """Megabytes after this turn."""
        return median(self.memory[max(0, turn - SAMPLES) : turn]) / 1e6


def said(body: Any) -> str:
    """The model's answer: a summary where it is asked for one."""
    return SUMMARY if "summar" in str(body["messages"][-1]["content"]).lower() else ANSWER


def talk(here: Stage) -> Talk:
    """All turns of one process."""
    here.server.load(said)
    home = Path(here.scene.environment["NEXUS_HOME"])
    (home / "config" / "config.toml").write_text(SETTINGS)
    environment = {**here.scene.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", "NEXUS_MODEL": MODEL}
    place = replace(here.scene, environment=environment)
    with Terminal([NEXUS], env=place.environment, cwd=place.folder, emulate=False) as terminal:
        terminal.wait_for(lambda one: b"\x1b[?2004h" in one.raw, START_SECONDS)
        time.sleep(1.0)
        made = Talk(terminal)
        for number in range(1, TURNS + 1):
            made.turn(number)
            here.server.requests.clear()
        terminal.send(ctrl("d"))
        terminal.status(20)
    return made


def rows(times: int) -> Iterator[Row]:
    """One process, whatever `times` is: it takes a few minutes."""
    with stage() as here:
        start = time.monotonic()
        made = talk(here)
        seconds = time.monotonic() - start
    beyond = made.first_beyond + BEYOND
    if not made.first_beyond or beyond > TURNS // 2:
        raise ChildFailedError(f"the window was first too small in turn {made.first_beyond}")
    yield Row(f"memory after {TURNS:,} turns", made.at(TURNS), "MB", made.at(beyond), f"after {beyond}", 1.3)
    yield Row("a turn, with its request and its screen", 1000 * seconds / TURNS, "ms")


BENCHMARK = Benchmark("memory of one REPL over many turns", rows)
