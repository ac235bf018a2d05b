"""From the signal of a run that waits to its next request: `nexus serve` in this process, a model that notes the time.

Wall time: the runner looks for changes of the ledger ten times a second.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Benchmark, Row
from runs.stage import AT, MODEL, SETTINGS, Played, Reply, sent

from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger
from nexus_cli.runs.runner import Runner

SAMPLES = 100


async def measure(folder: Path, samples: int) -> list[float]:
    """Seconds from signal to request, sorted."""
    asked = asyncio.Event()
    times: list[float] = []

    def reply(request: Request) -> Reply:
        if "RESUME" in sent(request):
            times.append(time.monotonic())
            asked.set()
            return "done"
        return [("wait_for", {"time": "2 days"})]

    ledger, other = Ledger.open(places().ledger), Ledger.open(places().ledger)
    options = {"folder": str(folder), "model": MODEL, "allow": "all"}
    keys = [other.runs.queue("service", "t", {"type": "service"}, options, AT) for _ in range(samples)]
    runner = Runner(ledger, provider=Played(reply), settings=SETTINGS, hooks={})
    await runner.run_due()
    stop, found = asyncio.Event(), []
    serving = asyncio.create_task(runner.serve(stop))
    await asyncio.sleep(0.5)
    for number, key in enumerate(keys):
        assert key is not None
        asked.clear()
        await asyncio.sleep(0.01 * (number % 17))
        begun = time.monotonic()
        await asyncio.to_thread(other.runs.signal, key, "person", {}, AT)
        await asked.wait()
        found.append(times[-1] - begun)
    stop.set()
    await serving
    await runner.aclose()
    ledger.close()
    other.close()
    return sorted(found)


def rows(times: int) -> Iterator[Row]:
    """Median and 99th percentile."""
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name:
        os.environ["NEXUS_HOME"] = str(Path(name) / "nexus")
        folder = Path(name) / "project"
        folder.mkdir()
        found = asyncio.run(measure(folder, SAMPLES))
    yield Row("from a signal to the resumed request, median", found[len(found) // 2] * 1000, "ms", most=400)
    yield Row("the same, 99 % below", found[int(len(found) * 0.99)] * 1000, "ms", most=1000)


BENCHMARK = Benchmark("latency from a signal to the request of the run that waited for it", rows)
