"""What runs wait for outside: servers and disks that do not answer hold up nothing else."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from ledger.postgres import Server
from runs.stage import AT, MODEL, SETTINGS, Played, last, opened, put_clock, run_due, say, sent, stored

from nexus_cli.config.paths import places
from nexus_cli.core import bounded_call
from nexus_cli.core.run import DONE, Run, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.runs import watch_waits
from nexus_cli.runs.runner import Runner
from nexus_cli.tools import wait_conditions
from nexus_cli.tools.wait_conditions import look

BREAK = 0.02


@contextmanager
def server_that_never_ends(under_way: Event) -> Iterator[str]:
    """A server that answers 200 and sends headers without end; after some it sets `under_way`."""
    door = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with suppress(OSError):
            line, _ = door.accept()
            with closing(line):
                line.sendall(b"HTTP/1.1 200 OK\r\n")
                for number in count():  # a client takes a hundred
                    line.sendall(b"X-More: 1\r\n")
                    if number == 9:
                        under_way.set()
                    time.sleep(BREAK if number < 20 else 5.0)

    thread = Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}/"
    finally:
        door.close()


def test_a_server_that_sends_without_end_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = Event()

    class Timer(Thread):
        def __init__(self, seconds: float, end: Callable[[], None]) -> None:
            super().__init__()
            self.end = end

        def run(self) -> None:
            under_way.wait()
            self.end()

        def cancel(self) -> None:
            under_way.set()

    monkeypatch.setattr(bounded_call, "Timer", Timer)
    with server_that_never_ends(under_way) as url:
        status, text = wait_conditions.request_page(url, 0)
    assert status in (200, None) and text == "", "the first line was read, or had no time to be"


@pytest.mark.matrix
def test_a_look_that_takes_long_holds_up_no_other_run(_isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(request: Any) -> Any:
        if "Continue from here" in sent(request):
            return "done"
        name = "snail" if last(request).endswith("the snail") else "hare"
        return [("wait_for", {"file": name, "event": "appears"})]

    provider, folder, seen = Played(reply), _isolated / "project", []
    folder.mkdir(exist_ok=True)
    for words in ("wait for the snail", "wait for the other"):
        assert say(opened(provider, folder), words).exit == 3
    may_end = Event()

    def slow_look(kind: str, value: Any) -> Any:
        seen.append(value["path"])
        if value["path"].endswith("snail"):
            assert may_end.wait(120)
        return look(kind, value)

    monkeypatch.setattr(watch_waits, "look", slow_look)
    monkeypatch.setattr(watch_waits, "PATIENCE", 0.01)
    (folder / "hare").touch()
    (folder / "snail").touch()

    async def both() -> None:
        with closing(Ledger.open(places().ledger)) as ledger:
            runner = Runner(ledger, provider=provider, settings=SETTINGS)
            work = asyncio.create_task(runner.run_due())
            while ledger.runs.get(2).state != DONE:
                assert not work.done()
                await asyncio.sleep(BREAK)
            assert ledger.runs.get(1).state == "waiting_reply", "its look has not ended"
            may_end.set()
            assert [run.key for run in await work] == [2, 1] and len(seen) == 2
            await runner.aclose()

    asyncio.run(both())


def queue_plan(provider: Played, folder: Path, **options: Any) -> Run:
    """A run of a plan, driven until it ends or waits."""
    folder.mkdir(exist_ok=True)
    with closing(Ledger.open(places().ledger)) as ledger:
        given = {"folder": str(folder), "model": MODEL, **options}
        key = ledger.runs.queue("plan", "wait", {"type": "plan", "instruction": "wait"}, given, AT)
    run_due(provider)
    return stored(key or 0)


@pytest.mark.matrix
def test_a_rule_of_the_work_lets_exactly_its_addresses_be_waited_for(_isolated: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    allowed, other = f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{port}/"

    def reply(request: Any) -> Any:
        if "not permitted" in sent(request):
            return [("wait_for", {"url": allowed, "timeout": "1 hour"})]
        return [("wait_for", {"url": other})]

    run = queue_plan(Played(reply), _isolated / "project", allow="auto", rules=[f"wait_for({allowed})"])
    assert run.state == "waiting_reply" and run.waits and run.waits.value == {"url": allowed}, run
    gives_up = Played(lambda request: "Refused." if "not permitted" in sent(request) else reply(request))
    refused = queue_plan(gives_up, _isolated / "project", allow="auto", rules=["wait_for(**)", "wait_for"])
    assert refused.state == "done", refused
    assert f"- wait_for {other}: not permitted: the call uses the network" in refused.report


@pytest.mark.matrix
def test_the_time_has_come_only_when_it_has(_isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(request: Any) -> Any:
        return sent(request).partition("You waited")[2] or [("wait_for", {"time": "2 hours", "timeout": "1 hour"})]

    provider = Played(reply)
    run = queue_plan(provider, _isolated / "project")
    assert run.state == "waiting_reply"
    put_clock(monkeypatch, 3601.0)
    run_due(provider)
    report = stored(run.key).report
    assert "the wait timed out" in report and "the time was reached" not in report


@pytest.mark.matrix
def test_a_wait_without_a_limit_has_that_of_the_settings(_isolated: Path) -> None:
    provider = Played(lambda request: [("wait_for", {"file": "never"})])
    run = queue_plan(provider, _isolated / "project")
    assert run.waits and run.waits.until and 604_700 < run.waits.until - time.time() < 604_900
    assert stored(run.key).state == "waiting_reply"


def test_what_waits_on_another_machine_is_left_to_it(postgres: Server, tmp_path: Path) -> None:
    url = postgres.new_database()
    with closing(Ledger.open(url)) as ledger:
        here = {"folder": str(tmp_path)}
        keys = [ledger.runs.queue("service", "work", {}, one, AT) for one in ({"folder": "/of/another"}, here, here)]
        for key, machine in zip(keys[1:], ("another", wait_conditions.this_machine()), strict=True):
            assert key is not None
            value = {"path": str(tmp_path / "log"), "event": "changes", "before": [1, 2, 3], "machine": machine}
            ledger.runs.wait(ledger.runs.get(key), Wait("file", "log changes", value), AT)
        asyncio.run(watch_waits.WaitWatch().look(ledger))
        assert [len(ledger.runs.signals(key or 0)) for key in keys] == [0, 0, 1], "a file is looked at where it is"
        ledger.runs.signal(keys[1] or 0, "person", {}, AT)
        tried = list[int]()

        def hold_back(ledger: Ledger, run: Run) -> str:
            tried.append(run.key)
            return "not now"

        runner = Runner(ledger, holds_back=hold_back)
        assert asyncio.run(runner.run_due()) == [] and tried == keys[2:]
    postgres.drop(url)
