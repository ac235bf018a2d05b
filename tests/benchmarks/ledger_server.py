"""A step of a session whose ledger is on PostgreSQL beside one in a file, and what each costs to open.

The server runs on this machine and waits for its disk, as SQLite does. Wall time: most of it passes in the server.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.hidden_history import PROGRAM, STEPS
from benchmarks.long_session import AT, write
from benchmarks.measure import Scene, in_turns, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, stage
from benchmarks.tool_turns import write_files
from ledger.postgres import run_server

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.ledger import Ledger

HIDDEN = 120
"""Entries before the summary, in forties."""


def step(place: Scene, where: LedgerPlace, clock: str) -> float:
    """Seconds of a step by `clock` (`cpu` or `wall`), the median of a turn in a fork of its own."""
    with closing(Ledger.open(where)) as ledger:
        fork = ledger.fork_session(ledger.sessions()[-1].id, at=AT).id
    settings = Path(place.environment["NEXUS_HOME"]) / "config" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[ledger]\nurl = {json.dumps(where if isinstance(where, str) else '')}\n")
    printed = json.loads(place.child((sys.executable, PROGRAM, fork, str(STEPS))).printed.splitlines()[-1])
    times: list[float] = printed[clock]
    return statistics.median(b - a for a, b in pairwise(times))


def opening(where: LedgerPlace) -> float:
    """Seconds to open and close it."""
    begun = time.perf_counter()
    Ledger.open(where).close()
    return time.perf_counter() - begun


def rows(times: int) -> Iterator[Row]:
    """The step by both clocks, then the opening."""
    with stage() as here, run_server(waits_for_disk=True) as server:
        write_files(here.scene.folder, STEPS)
        file = Path(here.scene.environment["NEXUS_HOME"]) / "data" / "ledger.db"
        url = server.new_database()
        for where in (file, url):
            with closing(Ledger.open(where)) as ledger:
                write(ledger, here.scene.folder, MODEL, HIDDEN)
        for clock, most in (("wall", 3.0), ("cpu", 2.5)):
            value, base = in_turns(times, partial(step, here.scene, url, clock), partial(step, here.scene, file, clock))
            what = f"a step on PostgreSQL, {'wall time' if clock == 'wall' else 'CPU of nexus'}"
            yield Row(what, milliseconds(value), "ms", milliseconds(base), "SQLite", most)
        value, base = in_turns(times, lambda: opening(url), lambda: opening(file))
        yield Row("opening a ledger on PostgreSQL, wall time", milliseconds(value), "ms", milliseconds(base), "SQLite")


BENCHMARK = Benchmark("a ledger on PostgreSQL beside one in a file, without litellm", rows)
