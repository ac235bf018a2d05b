"""The server of the ledger goes away: in a session, before it, for good; the process too. It is waited for, nothing is
sent or run meanwhile, and all is there afterwards, once; every law holds over it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.world import World, outcome, say, world
from ledger.postgres import Server
from program.nursery import PIPE, born, run_born
from search import sample

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.core.errors import LedgerAwayError
from nexus_cli.core.event import CompactionDone, Event, Notice, ToolCallEvent
from nexus_cli.ledger import Ledger, database
from nexus_cli.ledger.postgres import PostgresDatabase
from nexus_cli.ledger.server_journal import ServerJournal
from nexus_cli.ledger.unsaved_entries import unsaved_folder
from nexus_cli.session.acts.goal import set_goal
from nexus_cli.session.session import Session

pytestmark = pytest.mark.usefixtures("quick")

Model = Callable[[Any], dict[str, Any]]


def ask(around: World, *words: str) -> subprocess.CompletedProcess[bytes]:
    """`nexus ask` in a process of its own."""
    return run_born(["ask", "-m", around.model, "--allow", "all", "--json", *(words or ("go",))], cwd=around.folder)


def ask_until_back(around: World, come_back: Callable[[], object]) -> subprocess.CompletedProcess[bytes]:
    """The same; the server comes back as soon as the process says that it waits for it."""
    arguments = ["ask", "-m", around.model, "--allow", "all", "--json", "go"]
    child = born(arguments, cwd=around.folder, env=dict(os.environ), stdout=PIPE, stderr=PIPE)
    assert child.stderr is not None
    told = b""
    while b"waiting for the server" not in told:
        piece = os.read(child.stderr.fileno(), 4096)
        assert piece, told
        told += piece
    come_back()
    stdout, stderr = child.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, child.wait(), stdout, told + stderr)


def wait_at_most(around: World, seconds: float) -> None:
    """Set `ledger.wait` in the person's settings."""
    with (around.folder.parent / "home/config/config.toml").open("a") as file:
        file.write(f"wait = {seconds}\n")


def bash(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "bash", "arguments": {"command": command}}]}


def wait_for(session: Session, seconds: float) -> None:
    journal = session.record._journal
    assert isinstance(journal, ServerJournal)
    journal.wait = seconds


def four_steps(at: dict[int, Callable[[], object]]) -> Model:
    """A model that runs four commands; before the answer to request n, `at[n]` is called."""
    numbers = count(1)

    def answer(body: Any) -> dict[str, Any]:
        number = next(numbers)
        at.get(number, bool)()
        return bash(f"echo {number} >> out; sleep 0.05") if number < 5 else {"text": "all four are done"}

    return answer


def check_all_is_there(around: World, session: str, *, ended: bool = True) -> list[str]:
    """What the next command finds, all of it sound; its notices."""
    ledger = Ledger.open(ledger_place())
    try:
        log = ledger.log(session)
        words = [entry.message.content for entry in log.read(1, log.last_id())]
        assert_laws(ledger, session, around.server.requests)
        sent = [row for row in log.requests() if row.finish != "ledger"]
        assert len(sent) == len(around.server.requests)
        if ended:
            assert [row.finish for row in sent] == ["tool_calls"] * 4 + ["stop"]
            assert len(words) == 10 and words[-1] == "all four are done", words
            assert ledger.session(session).known_usd == pytest.approx(sum(row.usage.cost_usd or 0 for row in rows(log)))
        assert not list(unsaved_folder().glob("*")), "nothing is left of the file"
        return ledger.notices
    finally:
        ledger.close()


def rows(log: Any) -> list[Any]:
    return [row for row in log.requests() if row.usage]


def the_session() -> str:
    """The session of the only file, which is private."""
    (path,) = unsaved_folder().glob("*.entries")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.stem.partition("-")[0]


@pytest.mark.matrix
@pytest.mark.parametrize("first", sample([1, 2, 5], 3, 1))
def test_a_server_that_is_away_for_three_seconds_is_waited_for(
    first: int, place: Path, url: str, postgres: Server
) -> None:
    """It goes while a reply arrives: of calls, which do not run meanwhile, or the last one."""
    back = threading.Timer(3.0, postgres.start)
    ran_at_stop: list[str] = []

    def stop() -> None:
        postgres.stop()
        ran_at_stop.append(ran())
        back.start()

    def ran() -> str:
        out = place / "project" / "out"
        return out.read_text() if out.exists() else ""

    with world(
        place, four_steps({first: stop, first + 1: lambda: ran_at_stop.append(ran())}), ledger_url=url
    ) as around:
        done = ask(around)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(b"waiting for the server (Ctrl+C to stop)") == 1, "told once"
        assert len(ran().split()) == 4, "each command ran once"
        check_all_is_there(around, json.loads(done.stdout)["session"])


@pytest.mark.matrix
@pytest.mark.parametrize("first", sample([2, 3, 5], 3, 1))
def test_what_arrived_before_the_wait_ended_is_saved_by_the_next_command(
    first: int, place: Path, url: str, postgres: Server
) -> None:
    with world(place, four_steps({first: postgres.stop}), ledger_url=url) as around:
        wait_at_most(around, 0.5)
        try:
            done = ask(around)
            assert done.returncode == 1, done.stderr
            assert done.stderr.count(b"waiting for the server (Ctrl+C to stop)") == 1
            assert json.loads(done.stdout)["error"]["kind"] == "ledger"
            session = the_session()
            assert len(around.server.requests) == first, "nothing is sent meanwhile"
            assert session.encode() in done.stderr.splitlines()[-1], "the command that resumes it"
        finally:
            postgres.start()
        (told,) = check_all_is_there(around, session, ended=False)
        assert session in told and "is now saved" in told
        again = ask(around, "-r", session) if first < 5 else done
        assert first == 5 or again.returncode == 0, again.stderr
        assert (around.folder / "out").read_text().split() == ["1", "2", "3", "4"], "each command ran once"
        check_all_is_there(around, session)


@pytest.mark.matrix
@pytest.mark.parametrize("turn", sample([1, 2], 2))
def test_a_status_line_is_read_while_the_server_is_away(turn: int, place: Path, url: str, postgres: Server) -> None:
    """The server goes while a command of the first turn or of a later one runs, after something was left out."""
    read, numbers, away = list[bool](), count(1), threading.Event()

    def answer(body: Any) -> dict[str, Any]:
        number = next(numbers)
        if number % 5 == 0:
            return {"text": "done"}
        return bash(f"seq {number}0000; sleep 0.2") if number % 2 else bash("sleep 0.2")

    with world(place, answer, ledger_url=url) as around:

        async def show(session: Session) -> None:
            while True:  # as a screen does: beside the turn, in the same loop
                assert session.status()
                read.append(away.is_set())
                await asyncio.sleep(0.02)

        def stop(event: Event, _: int) -> None:
            if isinstance(event, ToolCallEvent) and len(around.server.requests) == 2 * turn and not away.is_set():
                away.set()
                postgres.stop()
                threading.Timer(3.0, postgres.start).start()

        async def live() -> None:
            session = around.open()
            screen = asyncio.create_task(show(session))
            for _ in range(turn):
                assert outcome(await say(session, "go", stop)).ok
            assert not screen.done(), screen
            screen.cancel()
            assert session.status().used and session.drops()
            await session.aclose()

        asyncio.run(live())
        assert away.is_set() and sum(read) > 20, "it was read all the time"


@pytest.mark.matrix
@pytest.mark.parametrize("end", sample([signal.SIGKILL, signal.SIGINT], 2))
def test_a_process_that_ends_while_it_waits_loses_nothing(
    end: signal.Signals, place: Path, url: str, postgres: Server
) -> None:
    def stop() -> None:
        postgres.stop()
        threading.Thread(target=kill).start()

    def kill() -> None:
        while not (found := list(unsaved_folder().glob("*.entries"))) or found[0].read_bytes().count(b"\n") < 1:
            time.sleep(0.01)
        processes = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
        os.kill(next(one for one in processes if one != os.getpid() and _holds(one, found[0])), end)

    with world(place, four_steps({2: stop}), ledger_url=url) as around:
        try:
            done = ask(around)
            assert done.returncode == (-end if end == signal.SIGKILL else 130), done.stderr
            session = the_session()
        finally:
            postgres.start()
        check_all_is_there(around, session, ended=False)
        assert ask(around, "-r", session).returncode == 0
        check_all_is_there(around, session)


def _holds(process: int, path: Path) -> bool:
    try:
        return any(os.readlink(one) == str(path) for one in Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.matrix
def test_what_was_kept_is_saved_once(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({2: postgres.stop}), ledger_url=url) as around:
        wait_at_most(around, 0.2)
        try:
            ask(around)
            session = the_session()
            (path,) = unsaved_folder().glob("*.entries")
            copy = shutil.copy(path, place / "kept")
        finally:
            postgres.start()
        check_all_is_there(around, session, ended=False)
        shutil.copy(copy, path)  # as after a kill between the commit and the removal of the file
        check_all_is_there(around, session, ended=False)


@pytest.mark.matrix
def test_what_another_process_made_unfit_is_set_aside(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({2: postgres.stop}), ledger_url=url) as around:
        wait_at_most(around, 0.2)
        try:
            ask(around)
            session = the_session()
            (path,) = unsaved_folder().glob("*.entries")
            path.rename(hidden := place / "kept")
        finally:
            postgres.start()

        async def go_on() -> None:
            other = around.open(session)
            await say(other, "from elsewhere")
            await other.aclose()

        asyncio.run(go_on())
        shutil.copy(hidden, path)
        ledger = Ledger.open(ledger_place())
        (told,) = ledger.notices
        assert "was not saved" in told and str(path.with_suffix(".refused")) in told
        assert path.with_suffix(".refused").read_bytes() == hidden.read_bytes()
        ledger.close()


@pytest.mark.parametrize("returns", sample([True, False], 2))
def test_a_server_that_is_away_at_the_start_is_waited_for(
    returns: bool, place: Path, url: str, postgres: Server
) -> None:
    with world(place, four_steps({}), ledger_url=url) as around:
        postgres.stop()
        wait_at_most(around, 300 if returns else 0.3)
        try:
            done = ask_until_back(around, postgres.start) if returns else ask(around)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count(b"waiting for the server (Ctrl+C to stop)") == 1
            strict = ask(around, "--require-save", "go") if not returns else done
        finally:
            if not postgres.answers():
                postgres.start()
        if returns:
            check_all_is_there(around, json.loads(done.stdout)["session"])
        else:
            assert b"the session is kept in memory and lost when it ends" in done.stderr
            assert strict.returncode == 1 and b"cannot be opened" in strict.stderr


def test_a_second_writer_ends_with_one_line_and_sends_nothing(place: Path, url: str, postgres: Server) -> None:
    """A process is stopped, loses its connection and with it the session's lock; another one takes over; the first goes
    on."""
    sent_by_other: list[int] = []

    def take_over() -> None:
        admin = Ledger.open(url)
        admin.db.all(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname ="
            " current_database()"
        )
        session = admin.sessions()[0].id
        while not admin.lock(session):
            time.sleep(0.02)
        log = admin.log(session)
        log.append(replace(log.read(1, 1)[0], id=log.last_id() + 1))
        admin.close()
        sent_by_other.append(len(around.server.requests))

    with world(place, four_steps({2: take_over}), ledger_url=url) as around:
        done = ask(around)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert len(around.server.requests) == sent_by_other[0], "nothing is sent"
        assert (around.folder / "out").read_text().split() == ["1"], "and nothing runs"
        (line, *_) = [one for one in done.stderr.decode().splitlines() if "another process continued" in one]
        assert "nexus sessions fork" in line


@pytest.mark.matrix
def test_a_long_session_with_compactions_survives_outages(place: Path, url: str, postgres: Server) -> None:
    """A session as the REPL has it: an outage in a turn, two between turns, one in a compaction."""
    stopped: list[str] = []

    def answer(body: Any) -> dict[str, Any]:
        said = str(body["messages"][-1]["content"])
        stops = "SUMMARY" if "SUMMARY" in said else "words 2 " if "words 2 " in said else ""
        if stops and stops not in stopped:
            stopped.append(stops)
            postgres.stop()
            threading.Timer(0.5, postgres.start).start()
        return {"text": "Goal: as said. Next: go on" if "SUMMARY" in said else "answer " * 300}

    with world(place, answer, ledger_url=url) as around:

        async def live() -> tuple[str, list[str]]:
            session, told = around.open(), list[str]()
            for number in range(8):
                if number == 4:
                    postgres.stop()
                    set_goal(session.engine.conversation, "finish", ())
                    assert session.saved, "in its file"
                    told += session.take_notices()
                    postgres.start()
                if number == 5:
                    postgres.stop()
                    threading.Timer(0.5, postgres.start).start()
                events = await say(session, f"words {number} " * 200)
                assert outcome(events).ok and session.saved, outcome(events).error
                told += [event.text for event in events if isinstance(event, Notice) and "server" in event.text]
                if number == 6:
                    events = await session.compact()
                    assert any(isinstance(event, CompactionDone) and event.ok for event in events)
                    told += [event.text for event in events if isinstance(event, Notice) and "server" in event.text]
            await session.aclose()
            return session.id, told

        name, told = asyncio.run(live())
        assert len(told) == 4, told
        ledger = Ledger.open(ledger_place())
        assert_laws(ledger, name, around.server.requests)
        sent = sum(len(log.requests()) for log in ledger.logs(name))
        assert sent == len(around.server.requests) and ledger.session(name).turns == 8
        assert [memo.value for memo in ledger.log(name).memos("goal")]
        ledger.close()


@pytest.mark.parametrize("nth", sample([1, 3, 5], 3, 1))
def test_a_commit_that_took_place_though_its_answer_was_lost_is_not_repeated(
    nth: int, place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is away for three attempts after such a commit."""
    real, connect, away = database.commit, PostgresDatabase._connect, [0]
    counts, outages = count(), list[int]()

    def commit(connection: Any) -> None:
        real(connection)
        if next(counts) % 7 == nth and isinstance(connection, PostgresDatabase):
            away[0] = 3
            outages.append(3)
            connection._server.close()
            raise LedgerAwayError("the ledger could not be written", "the change may or may not be recorded")

    def refuse(self: PostgresDatabase) -> Any:
        if away[0]:
            away[0] -= 1
            raise LedgerAwayError("the ledger cannot be reached", "it is away")
        return connect(self)

    with world(place, four_steps({}), ledger_url=url) as around:
        monkeypatch.setattr(PostgresDatabase, "_connect", refuse)

        async def live() -> str:
            session = around.open()
            monkeypatch.setattr(database, "commit", commit)
            ended = outcome(await say(session, "go"))
            assert ended.ok, (ended.error, (place / "home/log/nexus.log").read_text())
            monkeypatch.setattr(database, "commit", real)
            await session.aclose()
            return session.id

        check_all_is_there(around, asyncio.run(live()))
    assert len(outages) > 1
