"""CPU of the commands that a person waits for without a model, against an interpreter that does nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.measure import NEXUS, PASS, in_turns, milliseconds, scene
from benchmarks.row import Benchmark, Row

TAB = ("env", "_NEXUS_COMPLETE=complete_bash", "COMP_WORDS=nexus ", "COMP_CWORD=1", NEXUS)
COMMANDS = (
    ("nexus --version", (NEXUS, "--version"), 0, 2.0),
    ("python -m nexus_cli --version", (sys.executable, "-m", "nexus_cli", "--version"), 0, None),
    ("nexus --help", (NEXUS, "--help"), 0, 4.0),
    ("nexus <Tab> in a shell", TAB, 0, 4.0),
    ("nexus ask, up to `no model`", (NEXUS, "ask", "hi"), 2, 8.0),
    ("nexus doctor", (NEXUS, "doctor"), 0, None),
)


def rows(times: int) -> Iterator[Row]:
    """One row per command, all measured in the same rounds."""
    with scene() as place:
        measures = [lambda c=command, e=status: place.run(c, e) for _, command, status, _ in COMMANDS]
        base, *figures = in_turns(times, lambda: place.run(PASS), *measures)
    for (what, _, _, most), value in zip(COMMANDS, figures, strict=True):
        yield Row(what, milliseconds(value), "ms", milliseconds(base), "python -c pass", most)


BENCHMARK = Benchmark("start-up CPU without a model", rows)
