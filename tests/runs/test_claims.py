"""Who drives a run: one process at a time. Losers record nothing; cancellation, time-outs, full disks lose nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from runs.stage import AT, Played, Reply, opened, put_clock, queue, run_due, say, sent, stored, waiting
from session.played import the_ledger

from nexus_cli.config.paths import places
from nexus_cli.core import clock
from nexus_cli.core.clock import local_now
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger
from nexus_cli.ledger import runs as run_table
from nexus_cli.reports.check_replay import check
from nexus_cli.runs import drive, runner

PATIENCE = 90.0


@pytest.fixture
def folder(_isolated: Path) -> Path:
    made = _isolated / "project"
    made.mkdir(exist_ok=True)
    return made


def until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def echo(request: Request) -> Reply:
    """Append a line, then report."""
    has_run = any(one["role"] == "tool" for one in request.messages)
    return "done" if has_run else [("bash", {"command": "echo x >> out"})]


def in_child(work: Any) -> int:
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return child


@pytest.mark.matrix
def test_runners_at_the_same_time_do_each_run_once(folder: Path) -> None:
    runs = [queue(f"work {number}", folder) for number in range(6)]
    children = [in_child(lambda: run_due(Played(echo))) for _ in range(3)]
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run_due(Played(echo))
    assert [stored(run.key).state for run in runs] == ["done"] * 6
    assert (folder / "out").read_text() == "x\n" * 6


class Held(Played):
    """A model that answers only when a file says so."""

    def __init__(self, reply: Any, go: Path) -> None:
        super().__init__(reply)
        self.go = go

    async def stream(self, request: Request) -> Any:
        (self.go.parent / "asked").touch()
        while not self.go.exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
        async for delta in super().stream(request):
            one: Delta = delta
            yield one


@pytest.mark.matrix
def test_a_loser_that_was_stopped_in_mid_request_records_nothing_and_starts_no_tool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (drive, runner):
        monkeypatch.setattr(module, "LEASE", 0.3)
    run = queue("work", folder)
    child = in_child(lambda: run_due(Held(echo, folder / "go")))
    until((folder / "asked").exists)
    os.kill(child, signal.SIGSTOP)
    try:
        time.sleep(0.4)
        (done,) = run_due(Played(echo))
        assert (done.state, done.report) == ("done", "done")
        with the_ledger() as ledger:
            before = ledger.log(done.session).last_id()
        (folder / "go").touch()
    finally:
        os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)
    assert (folder / "out").read_text() == "x\n"
    with the_ledger() as ledger:
        assert ledger.log(done.session).last_id() == before and check(ledger, done.session)["ok"]
    assert stored(run.key) == done


@pytest.mark.matrix
def test_a_run_that_a_live_process_works_on_is_left_alone_and_that_of_a_dead_one_is_not(folder: Path) -> None:
    run = queue("work", folder)
    child = in_child(lambda: run_due(Held(echo, folder / "go")))
    until((folder / "asked").exists)
    assert run_due(Played(echo)) == [] and stored(run.key).state == "running"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (done,) = run_due(Played(echo))
    assert (done.state, done.key) == ("done", run.key), "its lease has not ended, but its owner is gone"


def test_a_session_that_a_person_has_open_is_left_alone(folder: Path) -> None:
    provider = Played(waiting(("wait_for", {"file": "go", "event": "appears"})))
    session = opened(provider, folder)

    async def live() -> None:
        async for _ in session.run("wait for it"):
            pass
        (folder / "go").touch()
        assert await asyncio.to_thread(run_due, provider) == []
        await session.aclose()

    asyncio.run(live())
    assert [run.state for run in run_due(provider)] == ["done"]


@pytest.mark.matrix
def test_a_signal_that_comes_before_the_wait_is_not_lost(folder: Path) -> None:
    run = queue("work", folder)

    def reply(request: Request) -> Reply:
        if "RESUME" in sent(request):
            return "resumed"
        with the_ledger() as ledger:
            ledger.runs.signal(run.key, "person", {"text": "hurry"}, AT)
        return [("wait_for", {"time": "2 days"})]

    (done,) = run_due(Played(reply))
    assert (done.state, done.report, done.resumes) == ("done", "resumed", 1)


def test_a_time_out_ends_a_wait_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Played(waiting(("wait_for", {"file": "never", "event": "appears", "timeout": "1 hour"})))
    assert say(opened(provider, folder), "wait").exit == 3 and run_due(provider) == []
    put_clock(monkeypatch, 3601.0)
    (done,) = run_due(provider)
    assert done.state == "done" and "the wait timed out" in sent(provider.seen[-1])


@pytest.mark.matrix
def test_a_run_that_waits_again_takes_each_signal_once(folder: Path) -> None:
    def reply(request: Request) -> Reply:
        text = sent(request)
        if "b has appeared" in text:
            return "both"
        name = "b" if "a has appeared" in text else "a"
        return [("wait_for", {"file": name, "event": "appears"})]

    provider = Played(reply)
    run = queue("work", folder)
    assert [one.state for one in run_due(provider)] == ["waiting_reply"]
    (folder / "a").touch()
    assert [one.state for one in run_due(provider)] == ["waiting_reply"] and run_due(provider) == []
    (folder / "b").touch()
    (done,) = run_due(provider)
    assert (done.key, done.state, done.report, done.resumes) == (run.key, "done", "both", 2)


def cancel(run: Run) -> str:
    with the_ledger() as ledger:
        return ledger.runs.cancel(run.key, AT).state


@pytest.mark.matrix
def test_a_run_is_cancelled_while_it_is_queued_or_waits(folder: Path) -> None:
    run = queue("work", folder)
    assert cancel(run) == "queued" and run_due(Played(echo)) == []
    provider = Played(waiting(("wait_for", {"file": "go", "event": "appears"})))
    waits = queue("wait", folder)
    run_due(provider)
    assert cancel(waits) == "waiting_reply"
    (folder / "go").touch()
    assert run_due(provider) == [] and stored(waits.key).state == "cancelled"


@pytest.mark.matrix
def test_a_run_that_is_cancelled_while_it_works_starts_no_further_tool(folder: Path) -> None:
    run = queue("work", folder)

    def reply(request: Request) -> Reply:
        assert cancel(run) == "running"
        return [("bash", {"command": "echo x >> out"})]

    provider = Played(reply)
    (done,) = run_due(provider)
    assert done.state == "cancelled" and not (folder / "out").exists() and len(provider.seen) == 1


@pytest.mark.parametrize("once", [False, True])
async def test_a_run_that_is_cancelled_in_mid_request_stops_at_once(
    folder: Path, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "RENEWED", 3600.0)  # it does not wait for its claim to be renewed
    run = queue("work", folder)
    provider = Held(echo, folder / "never")

    stop = asyncio.Event()
    ledger = Ledger.open(places().ledger)
    served = runner.Runner(ledger, provider=provider, hooks={})
    serving: asyncio.Task[Any] = asyncio.create_task(served.run_due() if once else served.serve(stop))
    while not (folder / "asked").exists():  # noqa: ASYNC110  (a file, not an event)
        await asyncio.sleep(0.01)
    cancel(run)
    while served._tasks:  # noqa: ASYNC110  (a dictionary, not an event)
        await asyncio.sleep(0.01)
    stop.set()
    await serving
    await served.aclose()
    ledger.close()
    assert stored(run.key).state == "cancelled"


@pytest.mark.matrix
def test_a_disk_that_is_full_while_a_run_suspends_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = queue("work", folder)
    provider = Played(waiting(("wait_for", {"file": "go", "event": "appears"})))

    def full(*arguments: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(run_table, "_suspend", full)
        (stuck,) = run_due(provider)
        assert stuck.state == "running" and stuck.waits is None
        told = capsys.readouterr().out
        assert "the disk is full. Free some space" in told and "nexus: " not in told
    assert [one.state for one in run_due(provider)] == ["waiting_reply"], "it begins to wait when there is room again"
    (folder / "go").touch()
    (done,) = run_due(provider)
    assert (done.key, done.state, done.report) == (run.key, "done", "all is done")


def test_a_lease_is_by_the_clock_of_the_database_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = queue("work", folder)
    with the_ledger() as ledger:
        claimed = ledger.runs.claim(run.key, "there:1", 60.0, AT)
        assert claimed is not None and ledger.lock(run.id)
        real = local_now
        for hours in (-1, 1):
            monkeypatch.setattr(clock, "local_now", lambda hours=hours: real() + timedelta(hours=hours))
            monkeypatch.setattr(time, "time", lambda hours=hours: real().timestamp() + 3600 * hours)
            assert run_due(Played(echo)) == []
        assert ledger.runs.get(run.key).fence == claimed.fence


@pytest.mark.matrix
def test_a_wait_that_takes_the_place_of_another_is_not_ended_by_what_came_for_that_one(folder: Path) -> None:
    words = iter(["one", "two"])
    provider = Played(lambda request: "over" if "RESUME" in sent(request) else [("wait_for", {"file": next(words)})])
    session = opened(provider, folder)

    async def two_turns() -> None:
        async for _ in session.run("wait"):
            pass
        with the_ledger() as ledger:
            (run,) = ledger.runs.waiting()
            assert ledger.runs.signal_wait(run, "file", {"path": "one", "how": "has appeared", "size": 0}, AT)
        async for _ in session.run("rather wait for the other one"):
            pass
        assert "This replaces the earlier wait (one changes)." in session.context.messages[-1].content
        await session.aclose()

    asyncio.run(two_turns())
    assert run_due(provider) == [] and stored(1).state == "waiting_reply"
    (folder / "two").touch()
    (done,) = run_due(provider)
    assert done.report == "over" and "two has appeared" in sent(provider.seen[-1])


def test_a_run_ends_with_the_session_that_is_deleted(folder: Path) -> None:
    provider = Played(waiting(("wait_for", {"file": "go", "event": "appears"})))
    session = opened(provider, folder)
    say(session, "wait")
    with the_ledger() as ledger:
        ledger.delete_session(session.id)
    (folder / "go").touch()
    assert run_due(provider) == []
    assert (stored(1).state, stored(1).waits, stored(1).session) == ("cancelled", None, "")


@pytest.mark.parametrize(
    ("first", "second", "at_once"),
    [
        ({}, {}, 1),
        ({"allow": "edit"}, {"allow": "auto"}, 1),
        ({}, {"allow": "ask"}, 2),
        ({}, {"worktree": "two"}, 2),
    ],
)
def test_one_run_at_a_time_writes_in_a_folder(
    first: dict[str, Any], second: dict[str, Any], at_once: int, folder: Path
) -> None:
    runs = [queue("one", folder, **first), queue("two", folder, **second)]
    with the_ledger() as ledger:
        claimed = [ledger.runs.claim(run.key, "host:1", 60.0, AT) for run in runs]
    assert sum(one is not None for one in claimed) == at_once


@pytest.mark.matrix
def test_two_runs_that_switch_branches_in_one_folder_commit_each_on_its_own(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    identity = "git -c user.name=A -c user.email=a@example.com commit --allow-empty -qm"

    def branch(request: Request) -> Reply:
        name = "beta" if "beta" in sent(request) else "alpha"  # the second run is told the branch of the first
        switch = f"git checkout -q -B {name}; sleep 0.5; {identity} {name}"
        return "done" if any(one["role"] == "tool" for one in request.messages) else [("bash", {"command": switch})]

    runs = [queue(name, folder) for name in ("alpha", "beta")]
    run_due(Played(branch))
    assert [stored(run.key).state for run in runs] == ["done", "done"]
    for name in ("alpha", "beta"):
        said = subprocess.run(["git", "log", "-1", "--format=%s", name], cwd=folder, capture_output=True, check=True)
        assert said.stdout.decode().strip() == name
