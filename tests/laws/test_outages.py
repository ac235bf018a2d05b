"""The server of the ledger goes away: in a session, for all of it, before it; the process too. All is there afterwards,
once, and every law holds over it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.world import World, outcome, say, world
from ledger.postgres import Server
from program.nursery import run_born
from search import sample

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Notice
from nexus_cli.ledger import Ledger, database, failover_log, postgres_connection
from nexus_cli.ledger.postgres import PostgresDatabase
from nexus_cli.ledger.spool import spool_folder

Model = Callable[[Any], dict[str, Any]]


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.new_database()
    yield made
    if postgres.process.poll() is not None:
        postgres.start()
    postgres.drop(made)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_log, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(postgres_connection, "PAUSE", 0.0)


def ask(around: World) -> subprocess.CompletedProcess[bytes]:
    """`nexus ask` in a process of its own."""
    return run_born(["ask", "-m", around.model, "--allow", "all", "--json", "go"], cwd=around.folder)


def bash(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "bash", "arguments": {"command": command}}]}


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
        assert len(log.requests()) == len(around.server.requests)
        if ended:
            assert [row.finish for row in log.requests()] == ["tool_calls"] * 4 + ["stop"]
            assert len(words) == 10 and words[-1] == "all four are done", words
            assert ledger.session(session).known_usd == pytest.approx(sum(row.usage.cost_usd or 0 for row in rows(log)))
        assert not list(spool_folder().glob("*")), "nothing is left of the journal"
        return ledger.notices
    finally:
        ledger.close()


def rows(log: Any) -> list[Any]:
    return [row for row in log.requests() if row.usage]


def the_session() -> str:
    """The only journal's session; its file is private."""
    (path,) = spool_folder().glob("*.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.name.partition("-")[0]


@pytest.mark.matrix
def test_a_server_that_is_away_for_three_seconds_loses_nothing(place: Path, url: str, postgres: Server) -> None:
    back = threading.Timer(3.0, postgres.start)

    def stop() -> None:
        postgres.stop()
        back.start()

    at: dict[int, Callable[[], object]] = {2: stop, 4: back.join}
    with world(place, four_steps(at), ledger_url=url) as around:
        done = ask(around)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(b"until the server answers") == 1, "told once"
        check_all_is_there(around, json.loads(done.stdout)["session"])


@pytest.mark.matrix
@pytest.mark.parametrize("first", sample([0, 1, 3, 5], 4, 1))
def test_a_server_that_stays_away_has_everything_with_the_next_command(
    first: int, place: Path, url: str, postgres: Server
) -> None:
    with world(place, four_steps({first: postgres.stop}), ledger_url=url) as around:
        if not first:
            postgres.stop()
        try:
            done = ask(around)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count(b"until the server answers") == 1
            session = the_session()
        finally:
            postgres.start()
        assert json.loads(done.stdout)["session"] == session
        (told,) = check_all_is_there(around, session)
        assert "1 session of an outage written back" in told
        listed = run_born(["sessions", "list", "--all"], cwd=around.folder).stdout.decode()
        assert session[-6:] in listed and "go" in listed


@pytest.mark.matrix
@pytest.mark.parametrize("first", sample([0, 2], 2))
def test_a_kill_in_an_outage_loses_nothing_that_was_journaled(
    first: int, place: Path, url: str, postgres: Server
) -> None:
    def kill() -> None:
        (path,) = spool_folder().glob("*.lock")
        holder = next(
            int(one.name)
            for one in Path("/proc").iterdir()
            if one.name.isdigit() and int(one.name) != os.getpid() and _holds(one, path)
        )
        os.kill(holder, signal.SIGKILL)

    with world(place, four_steps({first: postgres.stop, 4: kill}), ledger_url=url) as around:
        if not first:
            postgres.stop()
        try:
            done = ask(around)
            assert done.returncode == -signal.SIGKILL
            session = the_session()
        finally:
            postgres.start()
        check_all_is_there(around, session, ended=False)
        with_three = Ledger.open(ledger_place())
        log = with_three.log(session)
        assert [entry.message.role for entry in log.read(1, 99)] == ["user", *["assistant", "tool"] * 3]
        assert [row.finish for row in log.requests()] == ["tool_calls"] * 3 + [None]
        with_three.close()


def _holds(process: Path, path: Path) -> bool:
    try:
        return any(os.readlink(one) == str(path) for one in (process / "fd").iterdir())
    except OSError:
        return False


def test_a_journal_is_written_back_once(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({2: postgres.stop}), ledger_url=url) as around:
        try:
            ask(around)
            session = the_session()
            (path,) = spool_folder().glob("*.jsonl")
            copy = shutil.copy(path, place / "journal")
        finally:
            postgres.start()
        check_all_is_there(around, session)
        shutil.copy(copy, path)  # as after a kill between the commit and the removal of the file
        check_all_is_there(around, session)


@pytest.mark.matrix
def test_a_journal_that_another_process_made_unfit_is_set_aside(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({2: postgres.stop}), ledger_url=url) as around:
        try:
            ask(around)
            session = the_session()
            (path,) = spool_folder().glob("*.jsonl")
            path.rename(hidden := place / "journal")
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
        assert "cannot be written back" in told and str(path.with_suffix(".refused")) in told
        assert path.with_suffix(".refused").read_bytes() == hidden.read_bytes()
        ledger.close()


@pytest.mark.matrix
def test_the_journal_of_another_ledger_stays(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({1: postgres.stop}), ledger_url=url) as around:
        try:
            ask(around)
        finally:
            postgres.start()
        other = postgres.new_database()
        Ledger.open(other).close()
        postgres.drop(other)
        check_all_is_there(around, the_session())


def test_a_journal_that_cannot_be_made_is_told(place: Path, url: str, postgres: Server) -> None:
    with world(place, four_steps({}), ledger_url=url) as around:
        spool_folder().parent.mkdir(parents=True)
        spool_folder().write_text("no folder")
        postgres.stop()
        try:
            done = ask(around)
        finally:
            postgres.start()
        assert done.returncode == 0 and b"kept in memory and lost when it ends" in done.stderr, done.stderr


def say_in_turn(around: World, before: Mapping[str, Callable[[str], object]]) -> tuple[str, list[str], list[bool]]:
    """One session that is told `one` to `four`, with something done before some; its id, the notices of a journal, and
    whether it called itself saved after each."""

    async def live() -> tuple[str, list[str], list[bool]]:
        session, told, saved = around.open(), list[str](), list[bool]()
        for words in ("one", "two", "three", "four"):
            before.get(words, bool)(session.id)
            events = await say(session, words)
            assert outcome(events).ok
            told += [one.text for one in events if isinstance(one, Notice) and " continues in " in one.text]
            saved.append(session.saved)
        await session.aclose()
        return session.id, told, saved

    return asyncio.run(live())


def test_a_session_that_another_process_continued_in_an_outage_says_so(place: Path, url: str, postgres: Server) -> None:
    def continue_elsewhere(session: str) -> None:
        postgres.start()
        other = Ledger.open(url)
        assert other.lock(session)
        log = other.log(session)
        log.append(replace(log.read(1, 1)[0], id=log.last_id() + 1))
        other.close()

    with world(place, lambda body: {"text": "answer"}, ledger_url=url) as around:
        before = {"two": lambda session: postgres.stop(), "three": continue_elsewhere}
        name, told, saved = say_in_turn(around, before)
        assert saved == [True, True, False, False]
        away, refused = told
        assert "until the server answers" in away and "cannot be written back" in refused
        ledger = Ledger.open(url)
        assert "cannot be written back" in ledger.notices[0]
        (aside,) = spool_folder().glob("*.refused")
        assert all(words in aside.read_text() for words in ("two", "three", "four")), "all of it was kept"
        assert name in aside.name
        ledger.close()


@pytest.mark.parametrize("room", sample([True, False], 2))
def test_what_a_full_disk_kept_out_of_the_journal_is_written_back_from_memory(
    room: bool, place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `room`, there is some again before the server answers, and the process ends before."""
    real = os.write

    def write(file: int, data: bytes) -> int:
        if b'"call"' in data[:40]:
            real(file, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    def fill(session: str) -> None:
        monkeypatch.setattr(os, "write", write)

    def go_on(session: str) -> None:
        if room:
            monkeypatch.setattr(os, "write", real)
        else:
            postgres.start()

    with world(place, lambda body: {"text": "answer"}, ledger_url=url) as around:
        before = {"two": lambda session: postgres.stop(), "three": fill, "four": go_on}
        name, told, saved = say_in_turn(around, before)
        assert saved == [True, True, False, not room] and len(told) == 2 and "No space left" in told[1]
        if room:
            postgres.start()
        ledger = Ledger.open(url)
        words = [entry.message.content for entry in ledger.log(name).read(1, 99)]
        assert words == ["one", "answer", "two", "answer", "three", "answer", "four", "answer"]
        assert_laws(ledger, name, around.server.requests)
        assert not list(spool_folder().glob("*"))
        ledger.close()


@pytest.mark.matrix
@pytest.mark.parametrize("offline", sample([True, False], 2, 1))
def test_a_long_session_with_compactions_survives_outages(
    offline: bool, place: Path, url: str, postgres: Server
) -> None:
    """A session as the REPL has it: two outages, the second to its end, and lanes of compactions."""

    def answer(body: Any) -> dict[str, Any]:
        said = str(body["messages"][-1]["content"])
        return {"text": "Goal: as said. Next: go on" if "SUMMARY" in said else "answer " * 300}

    with world(place, answer, ledger_url=url) as around:
        if offline:
            postgres.stop()

        async def live() -> tuple[str, list[str]]:
            session = around.open()
            told = list(session.notices)
            for number in range(8):
                if number in (1, 5) and not offline:
                    postgres.stop()
                if number == 3 and not offline:
                    postgres.start()
                events = await say(session, f"words {number} " * 200)
                assert outcome(events).ok and session.saved
                told += [event.text for event in events if isinstance(event, Notice) and "server" in event.text]
                if number in ((2, 6) if offline else (4,)):
                    assert any(isinstance(event, CompactionDone) and event.ok for event in await session.compact())
                if number == 3:
                    assert bool(list(spool_folder().glob("*.jsonl"))) == offline, "written back at once if it can be"
            await session.aclose()
            return session.id, told

        try:
            name, told = asyncio.run(live())
        finally:
            postgres.start()
        assert len(told) == (1 if offline else 2)
        ledger = Ledger.open(ledger_place())
        assert_laws(ledger, name, around.server.requests)
        sent = sum(len(log.requests()) for log in ledger.logs(name))
        assert sent == len(around.server.requests) and ledger.session(name).turns == 8
        ledger.close()


@pytest.mark.parametrize("nth", sample([1, 3, 5], 3, 1))
def test_a_commit_that_took_place_though_its_answer_was_lost_is_not_repeated(
    nth: int, place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, connect, away = database.commit, PostgresDatabase._connect, list[bool]()

    def commit(connection: Any) -> None:
        real(connection)
        if next(counts) % 7 == nth and not any(away) and isinstance(connection, PostgresDatabase):
            away.append(True)
            connection._server.close()
            raise NexusError("ledger", "the ledger could not be written", "it may have been recorded or not")

    def refuse(self: PostgresDatabase) -> Any:
        if any(away):
            raise NexusError("ledger", "the ledger cannot be reached", "it is away")
        return connect(self)

    def come_back() -> None:
        away[:] = [False] * len(away)

    counts = count()
    with world(place, four_steps(dict.fromkeys(range(1, 6), come_back)), ledger_url=url) as around:
        monkeypatch.setattr(database, "commit", commit)
        monkeypatch.setattr(PostgresDatabase, "_connect", refuse)

        async def live() -> str:
            session = around.open()
            ended = outcome(await say(session, "go"))
            assert ended.ok, (ended.error, (place / "home/log/nexus.log").read_text())
            come_back()
            await session.aclose()
            return session.id

        name = asyncio.run(live())
        monkeypatch.setattr(database, "commit", real)
        come_back()  # the last commit of the session may be the one
        check_all_is_there(around, name)
    assert len(away) > 1
