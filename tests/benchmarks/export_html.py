"""CPU of `nexus export --html` over a session with 2,000 requests, beside a short one, and the size of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.long_session import write
from benchmarks.measure import NEXUS, ChildFailedError, Scene, in_turns, milliseconds, scene
from benchmarks.row import Benchmark, Row

from nexus_cli.ledger import Ledger

MANY, FEW = 4_000, 40
"""Entries; a request for every second one."""


def export(place: Scene, session: str, requests: int) -> tuple[float, int]:
    """Seconds of CPU and characters of a page; `ChildFailedError` when a request has no panel."""
    child = place.child((NEXUS, "export", session, "--html"))
    panels = child.printed.count('<section class="request">')
    if panels != requests:
        raise ChildFailedError(f"{panels} panels, not {requests}")
    return child.cpu, len(child.printed)


def rows(times: int) -> Iterator[Row]:
    """The time, then the size."""
    with scene() as place:
        ledger = Ledger.open(Path(place.environment["NEXUS_HOME"]) / "data" / "ledger.db")
        many, few = (write(ledger, place.folder, "openai/model", 0, size) for size in (MANY, FEW))
        ledger.close()
        size = export(place, many, MANY // 2)[1]
        value, base = in_turns(
            times, lambda: export(place, many, MANY // 2)[0], lambda: export(place, few, FEW // 2)[0]
        )
    named = f"a page of {MANY:,} entries, {MANY // 2:,} requests"
    yield Row(named, milliseconds(value), "ms", milliseconds(base), f"{FEW} entries")
    yield Row("its size", size / 1e6, "MB", most=25)


BENCHMARK = Benchmark("a session is exported as a page", rows)
