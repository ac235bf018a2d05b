"""`nexus serve` over the scripted model: what an idle agent takes, and what turns cost side by side."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import NEXUS, Child, ChildFailedError, milliseconds, resident, running_cpu
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, stage

from nexus_cli.client import Client

IDLE = 200
TURNS = 50
ROUNDS = 4
START_SECONDS = 30.0


def printed_by(child: Child) -> dict[str, Any]:
    """What the server printed when it listened."""
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        if line := Path(child.output.name).read_text():
            value: dict[str, Any] = json.loads(line.splitlines()[0])
            return value
        time.sleep(0.05)
    raise ChildFailedError("nexus serve printed nothing")


async def turns(client: Client, pid: int, *, together: bool) -> float:
    """Seconds of CPU of one turn, of `TURNS` turns by as many agents."""
    before = running_cpu(pid)
    asked = [client.send(f"t{number}", f"hello {number} {time.monotonic_ns()}") for number in range(TURNS)]
    results = await asyncio.gather(*asked) if together else [await one for one in asked]
    if not all(result["ok"] for result in results):
        raise ChildFailedError("a turn was lost")
    return (running_cpu(pid) - before) / TURNS


async def measure(printed: dict[str, Any], pid: int) -> tuple[float, float, float]:
    """Bytes of an idle agent, seconds of a turn alone and among others."""
    async with Client(printed["url"], Path(printed["token_file"]).read_text().strip()) as client:
        for number in range(TURNS):
            await client.create_agent(f"t{number}")
        await turns(client, pid, together=True)  # imports, connections
        pairs = [
            (await turns(client, pid, together=False), await turns(client, pid, together=True)) for _ in range(ROUNDS)
        ]
        before = resident(pid)
        for number in range(IDLE):
            await client.create_agent(f"i{number}")
        idle = (resident(pid) - before) / IDLE
        await client.shutdown()
    return idle, statistics.median(one for one, _ in pairs), statistics.median(other for _, other in pairs)


def rows(times: int) -> Iterator[Row]:
    """One server; each figure is the median of a few rounds."""
    with stage() as here:
        here.server.load(lambda body: "hello from the model")
        child = Child([NEXUS, "serve", "--json", "--model", MODEL], here.scene)
        try:
            idle, alone, together = asyncio.run(measure(printed_by(child), child.pid))
        finally:
            child.end()
    yield Row("memory of an idle agent", idle / 1024, "KiB", most=300)
    yield Row(
        f"a turn, {TURNS} at once", milliseconds(together), "ms", milliseconds(alone), "one after the other", most=1.2
    )


BENCHMARK = Benchmark("Agents behind `nexus serve`", rows)
