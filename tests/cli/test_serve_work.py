"""What `nexus serve` does beside its agents: it outlives a ledger that fails for a while."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexus_cli.cli.serve import run_server, serve
from nexus_cli.cli.serve.serve_once import run_line
from nexus_cli.cli.shell_command import ShellSource
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import RUNNING, WAITING, Run, Wait
from nexus_cli.ledger import Ledger


class FailingRunner:
    """Fails twice, then serves until it is told to stop."""

    def __init__(self) -> None:
        self.calls = 0
        self.closed = False

    async def serve(self, stop: asyncio.Event) -> None:
        self.calls += 1
        if self.calls < 3:
            raise NexusError("ledger", "the ledger could not be written", "the disk is full", "Free some space")
        await stop.wait()

    async def aclose(self) -> None:
        self.closed = True


def test_a_disk_that_is_full_for_a_while_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, lines = FailingRunner(), list[str]()
    monkeypatch.setattr(run_server, "make_runner", lambda *given, **more: runner)
    monkeypatch.setattr(run_server, "RETRY_SECONDS", 0.01)

    async def play() -> None:
        provider: Any = None
        work = run_server._Work.open(Settings(), tmp_path, lines.append, provider, lines.append)
        assert work is not None
        work.start()
        while runner.calls < 3:  # noqa: ASYNC110  (a few milliseconds)
            await asyncio.sleep(0.005)
        await work.finish_steps()
        await work.aclose()

    asyncio.run(asyncio.wait_for(play(), 120))
    assert runner.closed and len(lines) == 2 and "disk is full" in lines[0]


def test_a_ledger_that_cannot_be_opened_leaves_the_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise NexusError("ledger", "the ledger cannot be opened", "the file cannot be written", "Check its permissions")

    monkeypatch.setattr(Ledger, "open", refuse)
    lines = list[str]()
    provider: Any = None
    assert run_server._Work.open(Settings(), tmp_path, lines.append, provider, lines.append) is None
    assert (
        len(lines) == 1
        and "schedules, services and waiting runs are not served. Correct this, then restart" in lines[0]
    )


def test_the_work_of_a_ledger_that_can_be_opened_later_begins_then(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()
    work = SimpleNamespace(door="the door", start=lambda: begun.append("work"))
    offers = [None, None, work]
    monkeypatch.setattr(run_server._Work, "open", lambda *given: offers.pop(0))
    monkeypatch.setattr(run_server, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(run_server, "PoolMethods", lambda *given: None)
    unused: Any = SimpleNamespace()
    run, server = run_server._Run(*[unused] * 8), unused
    run._open_work()
    asyncio.run(asyncio.wait_for(run._start_work(server), 120))
    assert begun == ["work"] and server.triggers == "the door" and not offers


def test_a_run_that_goes_on_is_not_said_to_wait() -> None:
    waits = Run(1, WAITING, "service", "ci", {}, {}, waits=Wait("service", "CI", {}))
    assert run_line(waits).endswith("service ci: waits for CI")
    assert run_line(replace(waits, state=RUNNING)) == "run-1 running service ci"
    asks = replace(waits, waits=Wait("approval", "approval: bash make", {}))
    assert run_line(asks).endswith("waits for approval: bash make (to answer: nexus runs resume run-1)")


def test_due_work_of_a_ledger_that_is_out_of_reach_is_reported_as_json_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(mode: str) -> Ledger:
        raise NexusError("ledger", "the ledger", "it cannot be reached", "Check the server")

    monkeypatch.setattr(serve, "open_ledger", refuse)
    with pytest.raises(NexusError, match="it cannot be reached"):
        serve.serve(ShellSource(partial(Ledger.open, None), is_json=True), once=True)
    assert json.loads(capfd.readouterr().out) == {"version": 1, "ok": False, "exit": 1, "runs": [], "held_back": None}
