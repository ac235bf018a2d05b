"""CPU of `nexus usage` over a ledger with 10,000 requests, beside one with none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.long_session import write
from benchmarks.measure import NEXUS, ChildFailedError, Scene, in_turns, milliseconds, scene
from benchmarks.row import Benchmark, Row

from nexus_cli.ledger import Ledger

SESSIONS, ENTRIES = 50, 400
"""A request for every second entry: 10,000."""


def usage(place: Scene, requests: int) -> float:
    """Seconds of CPU of the report; `ChildFailedError` when it does not sum so many requests."""
    child = place.child((NEXUS, "usage", "--json"))
    found = json.loads(child.printed)["total"]["requests"]
    if found != requests:
        raise ChildFailedError(f"{found} requests were summed, not {requests}")
    return child.cpu


def rows(times: int) -> Iterator[Row]:
    """The report with many requests and with none."""
    with scene() as place, scene() as empty:
        ledger = Ledger.open(Path(place.environment["NEXUS_HOME"]) / "data" / "ledger.db")
        for number in range(SESSIONS):
            write(ledger, place.folder / str(number % 5), f"openai/model-{number % 3}", 0, ENTRIES)
        ledger.close()
        requests = SESSIONS * ENTRIES // 2
        value, base = in_turns(times, lambda: usage(place, requests), lambda: usage(empty, 0))
        yield Row(f"nexus usage, {requests:,} requests", milliseconds(value), "ms", milliseconds(base), "none", 1.5)


BENCHMARK = Benchmark("all sessions are summed", rows)
