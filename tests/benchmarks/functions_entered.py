"""How much of ours takes part: modules that a cold one-shot loads, functions on the way to a request."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, stage, undisturbed

PROGRAM = str(Path(__file__).with_name("count_calls.py"))
UNNAMED = re.compile(r"<\w+>$")
"""A lambda or a comprehension: what it is in says why it is called."""


MODULES, NAMED, FUNCTIONS, FILES = 269, 920, 1325, 184
STATEMENTS = 149
"""Bounds of a cold `nexus ask` in a folder without git, until it calls litellm; `tests/cli/test_cold_ask.py` holds them
too. What is installed beside nexus moves the counts by a few functions, so they have room for ten more."""


def files(functions: list[str]) -> set[str]:
    """The files of functions as `count_calls` writes them."""
    return {one.partition(":")[0] for one in functions}


def named(functions: list[str]) -> int:
    """The number of functions with a name of their own."""
    return sum(1 for one in functions if not UNNAMED.search(one))


def rows(times: int) -> Iterator[Row]:
    """Counts do not vary on one machine: measured once."""
    with stage() as here:
        notes = here.scene.folder.parent / "notes.json"
        program = [sys.executable, PROGRAM, str(notes)]
        here.watch([*program, "ask", "--model", MODEL, "x"], lambda number: "done", undisturbed)
        noted = json.loads(notes.read_text())
        entered = noted["functions"][0]
        yield Row("modules of a cold `nexus ask`", len(noted["modules"]), "", most=MODULES)
        yield Row("functions until it calls litellm", named(entered), "", most=NAMED)
        yield Row("the same with lambdas and comprehensions", len(entered), "", most=FUNCTIONS)
        yield Row("statements of the ledger until then", noted["statements"][0], "", most=STATEMENTS)
        yield Row("files that they are in", len(files(entered)), "", most=FILES)
        (here.scene.folder / "f1.txt").write_text("one\n")
        here.scene.run(program)
        words, call = json.loads(notes.read_text())["functions"]
        yield Row("functions from words to the request, second turn", named(words), "")
        yield Row("functions from a tool call to the next request", named(call), "")


BENCHMARK = Benchmark("modules and named functions of ours that take part", rows)
