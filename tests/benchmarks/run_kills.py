"""Exactly once: runners that are killed at random moments, 500 times over SQLite, 100 times over PostgreSQL.

Each run appends a line to a file outside the ledger, waits for a file, appends another line and reports. In the end
every run has ended well, and no line is there twice. A line that is missing is a tool that was killed in mid-run: its
outcome is told as unknown.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.row import Benchmark, Row
from ledger.postgres import run_server
from runs.stage import MODEL, SETTINGS, Played, Reply, sent

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger
from nexus_cli.runs.runner import Runner

KILLS, KILLS_ON_SERVER = 500, 100
RUNNERS = 3
RUNS = 60
"""Runs for so many kills; each is killed several times."""
MAX_ALIVE = 0.25
"""Seconds that a runner lives at most."""
PATIENCE = 300.0
AT = "2026-01-02T03:04:05.000Z"


def work(request: Request) -> Reply:
    """The next step of a run, read off what was sent."""
    text = sent(request)
    number = text.split("work number ")[1].split()[0].strip('".')
    calls = [call["function"]["arguments"] for one in request.messages for call in one.get("tool_calls") or ()]
    if "RESUME" in text or "no need to wait" in text:
        has_ended = any("second" in one for one in calls)
        return "done" if has_ended else [("bash", {"command": f"echo second-{number} >> out"})]
    if any("first" in one for one in calls):
        return [("wait_for", {"file": f"go-{number}", "event": "appears"})]
    return [("bash", {"command": f"echo first-{number} >> out"})]


def start_runner(place: LedgerPlace) -> int:
    """A process that does what is due, until it is killed."""
    child = os.fork()
    if child:
        return child
    with suppress(BaseException):
        asyncio.run(_serve(place))
    os._exit(0)


async def _serve(place: LedgerPlace) -> None:
    ledger = Ledger.open(place)
    runner = Runner(ledger, provider=Played(work), settings=SETTINGS, hooks={})
    await runner.serve(asyncio.Event())


def open_runs(place: LedgerPlace) -> int:
    """How many have not ended."""
    ledger = Ledger.open(place)
    try:
        return sum(not run.has_ended for run in ledger.runs.list_runs(limit=10_000))
    finally:
        ledger.close()


def play(folder: Path, place: LedgerPlace, kills: int, chance: random.Random) -> dict[str, Any]:
    """Kill runners until the number is reached, then let them finish."""
    runs, done, queued = max(6, kills * RUNS // KILLS), 0, 0
    alive = [start_runner(place) for _ in range(RUNNERS)]
    begun = time.monotonic()
    while done < kills:
        if done >= queued * kills // runs and queued < runs:  # some new ones all the time
            _queue_one(folder, place, queued)
            queued += 1
        time.sleep(chance.uniform(0.0, MAX_ALIVE) / RUNNERS)
        (folder / f"go-{chance.randrange(max(1, queued))}").touch()
        one = chance.randrange(RUNNERS)
        os.kill(alive[one], signal.SIGKILL)
        os.waitpid(alive[one], 0)
        alive[one] = start_runner(place)
        done += 1
    for number in range(runs):
        (folder / f"go-{number}").touch()
    while open_runs(place) and time.monotonic() - begun < PATIENCE * 2:
        time.sleep(0.2)
    for child in alive:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"runs": runs, "seconds": time.monotonic() - begun}


def _queue_one(folder: Path, place: LedgerPlace, number: int) -> None:
    ledger = Ledger.open(place)
    text = f"work number {number} ."
    options = {"folder": str(folder), "model": MODEL, "allow": "all"}
    ledger.runs.queue("service", text, {"type": "service", "instruction": text}, options, AT)
    ledger.close()


def rows(times: int) -> Iterator[Row]:
    """Both ledgers, each with runs of its own."""
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name:
        os.environ["NEXUS_HOME"] = str(Path(name) / "nexus")
        yield from _figures(Path(name) / "project", places().ledger, "SQLite", KILLS)
        with run_server() as server:
            yield from _figures(Path(name) / "other", server.new_database(), "PostgreSQL", KILLS_ON_SERVER)


def _figures(folder: Path, place: LedgerPlace, engine: str, kills: int) -> Iterator[Row]:
    """Runs lost, lines written twice, and how many were killed in mid-tool."""
    folder.mkdir()
    found = play(folder, place, kills, random.Random(7))
    ledger = Ledger.open(place)
    ended = Counter(run.state for run in ledger.runs.list_runs(limit=10_000))
    claims = sum(run.fence for run in ledger.runs.list_runs(limit=10_000))
    untaken = ledger.db.one("SELECT count(*) FROM signals WHERE taken = 0")
    ledger.close()
    lines = Counter((folder / "out").read_text().split())
    twice = sum(count - 1 for count in lines.values())
    missing = 2 * found["runs"] - len(lines)
    about = f"{kills} kills over {found['runs']} runs, {claims} claims, {engine}"
    yield Row(f"runs lost ({about})", found["runs"] - ended["done"], "", most=0)
    yield Row(f"lines of tools written twice, {engine}", twice, "", most=0)
    yield Row(f"signals that nobody took, {engine}", untaken[0] if untaken else 0, "", most=0)
    yield Row(f"lines missing: killed between the start of a tool and its command, {engine}", missing, "")
    yield Row(f"all of it, {engine}", found["seconds"], "s")


BENCHMARK = Benchmark("kills of runners at random moments: no run lost, none done twice", rows)
