"""CPU that a worker takes from the call of its tool to its first request, beside a session of its own from scratch.

Workers start one after the other in one session, with a model that answers at once; litellm is never imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median

from benchmarks.row import Benchmark, Row

from nexus_cli.config.settings import Settings
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.service_list import WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

MODEL = "openai/scripted"
SETTINGS = Settings(models={MODEL: {"window": 128_000}})


class Hands:
    """A model that hands over one task after the other, and as a worker answers at once."""

    def __init__(self, workers: int) -> None:
        self.left = workers
        self.called = 0.0
        self.cpu: list[float] = []

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply; notes the CPU between the call and the worker's request."""
        if "# Task\nDO IT" in str(request.messages[1]["content"]):
            self.cpu.append(time.process_time() - self.called)
            yield TextDelta("done")
        elif self.left:
            self.left -= 1
            yield CallDelta(0, f"call_{self.left}", "agent", json.dumps({"task": f"DO IT {self.left}"}))
            self.called = time.process_time()
        else:
            yield TextDelta("over")
        yield UsageDelta(Usage(2500, 10))
        yield FinishDelta("stop")

    async def aclose(self) -> None:
        """Nothing to release."""


async def _run(folder: Path, model: Hands) -> None:
    options = Options(folder, MODEL, allow="all", limits=Limits(max_steps=5000))
    session = open_session(options, SETTINGS, approver=None, provider=model, services=(WORKERS,))
    try:
        async for _ in session.run("hand it over"):
            pass
    finally:
        await session.aclose()


async def _fresh(folder: Path) -> float:
    began = time.process_time()
    session = open_session(Options(folder, MODEL), SETTINGS, approver=None, provider=Hands(0))
    try:
        async for event in session.run("DO IT"):
            if event.kind == "step.start":
                return time.process_time() - began
    finally:
        await session.aclose()
    raise RuntimeError("no request")


def rows(times: int) -> Iterator[Row]:
    """Median over `times` workers; the first one, which imports what workers need, apart."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["NEXUS_HOME"] = str(Path(place) / "home")
        folder = Path(place) / "project"
        folder.mkdir()
        asyncio.run(_fresh(folder))
        base = median(asyncio.run(_fresh(folder)) for _ in range(times))
        model = Hands(times + 1)
        asyncio.run(_run(folder, model))
        first, *rest = model.cpu
        yield Row("the first worker of a process, call to first request", first * 1000, "ms")
        name = "a worker, call to first request"
        yield Row(name, median(rest) * 1000, "ms", most=30)
        yield Row("the same", median(rest) * 1000, "ms", base * 1000, "a new session by itself", 1.5)


BENCHMARK = Benchmark("starting a worker, CPU", rows)
