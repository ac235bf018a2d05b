"""What a message through a space with ten agents takes: posted, with the run that it triggers, read by the others.

Without a model. Beside it one plain commit to the same ledger; and the same space when it holds a hundred thousand.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.row import Benchmark, Row

from nexus_cli.core.run import AGENT, HUMAN, Entity, Space
from nexus_cli.ledger import Ledger

AT = "2026-02-18T15:06:55.000Z"
AGENTS = 10
MESSAGES = 100
MANY = 100_000


def _cpu(work: Callable[[int], object]) -> float:
    """Milliseconds of CPU of one call, the median."""
    times = []
    for number in range(MESSAGES):
        began = time.process_time()
        work(number)
        times.append((time.process_time() - began) * 1000)
    return median(times)


def _rows(times: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "ledger.db")
        person = ledger.spaces.entity("Husam", HUMAN)
        agents = [ledger.spaces.entity(f"Agent {number}", AGENT) for number in range(AGENTS)]
        space = ledger.spaces.create("Alpha", AT, members=[person, *agents])

        def commit(number: int) -> None:
            with ledger.db.write():
                ledger.db.run("UPDATE spaces SET at = ? WHERE key = ?", f"{AT}{number}", space.key)

        def post(number: int) -> None:
            _post(ledger, space, person, agents, number)

        def fill() -> None:
            with ledger.db.write():
                rows = [(space.key, person.key, AT, "x")] * MANY
                ledger.db.many("INSERT INTO messages (space, sender, at, text) VALUES (?, ?, ?, ?)", rows)

        few, plain = min(_cpu(post) for _ in range(times)), min(_cpu(commit) for _ in range(times))
        yield Row("a message that triggers a run", few, "ms CPU", plain, "a plain commit", 12.0)
        began, count = time.monotonic(), 5 * MESSAGES
        for number in range(count):
            post(number)
        yield Row("messages a second, on this disk", count / (time.monotonic() - began), "1/s")
        for run in ledger.runs.due(10_000):
            ledger.runs.cancel(run.key, AT)
        fill()
        many = min(_cpu(post) for _ in range(times))
        yield Row(f"the same behind {MANY:,} messages", many, "ms CPU", few, "behind few", 1.5)
        read = _cpu(lambda number: ledger.spaces.read(space))
        yield Row("reading the newest 50", read, "ms CPU", plain, "a plain commit", 12.0)
        ledger.close()


def _post(ledger: Ledger, space: Space, person: Entity, agents: list[Entity], number: int) -> None:
    posted = ledger.spaces.post(space, person, f"@{agents[number % AGENTS].name} message {number}", AT)
    assert len(posted.triggered) == 1


BENCHMARK = Benchmark("a message through a space with ten agents", _rows)
