"""What waits to be saved on a server, at the worst moments: a lost commit, another command, a second session of this
process, a change of level, a server that does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.test_outages import four_steps, wait_for
from laws.world import World, outcome, say, world
from ledger.postgres import Server
from program.nursery import run_born
from program.stage import until
from search import sample

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.core.approval import Allow, Answer, Question
from nexus_cli.core.entry import Entry, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event, Notice
from nexus_cli.ledger import Ledger, SessionLog, database, lanes, postgres_connection, server_journal
from nexus_cli.ledger.postgres import PostgresDatabase
from nexus_cli.ledger.server_journal import ServerJournal
from nexus_cli.ledger.unsaved_entries import unsaved_folder
from nexus_cli.session.acts.goal import set_goal
from nexus_cli.session.factory import open_session
from nexus_cli.session.session import Session
from nexus_cli.undo import undo_files

pytestmark = pytest.mark.usefixtures("quick")


def texts(ledger: Ledger, session: str) -> list[str]:
    return [one.message.content for one in ledger.log(session).read(1, 99)]


def answers(at: dict[int, Callable[[], object]]) -> Callable[[Any], dict[str, Any]]:
    """A model that answers `answer N`; before answer N, `at[N]` is called."""
    numbers = count(1)

    def answer(body: Any) -> dict[str, Any]:
        number = next(numbers)
        at.get(number, bool)()
        return {"text": f"answer {number}"}

    return answer


@pytest.mark.matrix
def test_a_request_is_recorded_under_its_epoch_after_the_commit_of_both_was_lost(
    place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = database.commit, list[list[str]]()

    def commit(connection: Any) -> None:
        waiting = [call.name for call in sessions[0].record._journal.waiting]  # type: ignore[attr-defined]
        if isinstance(connection, PostgresDatabase) and "record_request" in waiting and not lost:
            lost.append(waiting)
            with suppress(Exception):
                connection._pipeline.close()
            postgres.sql(f"SELECT pg_terminate_backend({connection._backend[0]})")
            time.sleep(0.1)
        real(connection)

    sessions: list[Session] = []
    with world(place, answers({}), ledger_url=url) as around:

        async def live() -> None:
            session = around.open()
            sessions.append(session)
            await say(session, "one")
            session.reload()
            monkeypatch.setattr(database, "commit", commit)
            assert outcome(await say(session, "two")).ok
            await session.aclose()

        asyncio.run(live())
        monkeypatch.setattr(database, "commit", real)
        assert lost == [["begin_epoch", "record_request"]]
        ledger = Ledger.open(url)
        assert_laws(ledger, sessions[0].id, around.server.requests)
        assert [row.manifest.epoch for row in ledger.log(sessions[0].id).requests()] == [0, 1]
        ledger.close()


def fork(around: World, session: Session) -> Session:
    assert session.ledger is not None
    made = undo_files.fork_session(session.ledger, session.id)
    return reopened(around, session, made.id)


def reopened(around: World, session: Session, name: str) -> Session:
    options = replace(session.options, resume=name)
    return open_session(options, around.settings, approver=None, clock=around.clock, earlier=session)


WAYS: dict[str, Callable[[World, Session], Session]] = {
    "fork": fork,
    "again": lambda around, session: reopened(around, session, session.id),
    "new, then again": lambda around, session: reopened(around, reopened(around, session, ""), session.id),
}


@pytest.mark.matrix
@pytest.mark.parametrize("way", sample(list(WAYS), 3, 1))
def test_a_session_of_this_process_has_what_another_had_not_saved_yet(
    way: str, place: Path, url: str, postgres: Server
) -> None:
    with world(place, answers({2: postgres.stop}), ledger_url=url) as around:

        async def live() -> str:
            session = around.open()
            wait_for(session, 0.0)
            await say(session, "one")
            assert not outcome(await say(session, "two")).ok
            with pytest.raises(NexusError):
                WAYS[way](around, session)
            postgres.start()
            other = WAYS[way](around, session)
            assert outcome(await say(other, "three")).ok
            await other.aclose()
            return other.id

        name = asyncio.run(live())
        ledger = Ledger.open(url)
        assert ledger.notices == [] and not list(unsaved_folder().glob("*"))
        assert texts(ledger, name) == ["one", "answer 1", "two", "answer 2", "three", "answer 3"]
        ledger.close()


@pytest.mark.matrix
def test_another_command_leaves_what_a_living_session_waits_for(
    place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file, although the server has released its lock."""
    monkeypatch.setattr(server_journal, "RETRY_SECONDS", 1.0)
    real, stopped = SessionLog.record_request, list[int]()

    def record_request(self: SessionLog, *values: Any) -> None:
        if not stopped:
            stopped.append(1)
            postgres.stop()
        real(self, *values)

    def look() -> None:
        while not list(unsaved_folder().glob("*.entries")):
            time.sleep(0.02)
        postgres.start()
        Ledger.open(url).close()

    with world(place, answers({}), ledger_url=url) as around:

        async def live() -> str:
            session = around.open()
            await say(session, "one")
            monkeypatch.setattr(SessionLog, "record_request", record_request)
            other = threading.Thread(target=look)
            other.start()
            assert outcome(await say(session, "two")).ok
            other.join()
            await session.aclose()
            return session.id

        name = asyncio.run(live())
        ledger = Ledger.open(url)
        assert [row.finish for row in ledger.log(name).requests()] == ["stop", "stop"]
        ledger.close()


@pytest.mark.matrix
def test_what_a_session_notes_after_another_command_looked_is_kept(place: Path, url: str, postgres: Server) -> None:
    with world(place, answers({2: postgres.stop}), ledger_url=url) as around:

        async def live() -> str:
            session = around.open()
            wait_for(session, 0.0)
            await say(session, "one")
            await say(session, "two")
            postgres.start()
            Ledger.open(url).close()
            postgres.stop()
            set_goal(session.engine.conversation, "finish", ())
            assert session.saved
            await session.aclose()
            postgres.start()
            return session.id

        name = asyncio.run(live())
        ledger = Ledger.open(url)
        assert "is now saved" in ledger.notices[0]
        assert len(ledger.log(name).memos("goal")) == 1 and texts(ledger, name)[-1] == "answer 2"
        ledger.close()


class Allower:
    """Allows each call, after it has done something."""

    def __init__(self, before: Callable[[], object]) -> None:
        self.before = before

    async def ask(self, question: Question) -> Answer:
        self.before()
        return Allow()


def write_once(body: Any) -> dict[str, Any]:
    """A model that writes `made.txt` when it is asked for the first time."""
    if body["messages"][-1]["role"] == "tool":
        return {"text": "done"}
    return {"calls": [{"name": "write_file", "arguments": {"path": "made.txt", "content": "x"}}]}


def test_a_call_that_waits_for_the_server_does_not_run_at_a_level_that_denies_it(
    place: Path, url: str, postgres: Server
) -> None:
    with world(place, write_once, ledger_url=url) as around:

        async def live() -> None:
            def change() -> None:
                postgres.stop()
                asyncio.get_running_loop().call_later(0.5, come_back)

            def come_back() -> None:
                session.set_level("plan")
                postgres.start()

            session = around.open(allow="ask")
            session.dispatcher.approver = Allower(change)
            assert outcome(await say(session, "write it")).ok
            assert not (around.folder / "made.txt").exists()
            await session.aclose()

        asyncio.run(live())


def test_a_call_whose_start_could_not_be_saved_has_no_unknown_outcome(place: Path, url: str, postgres: Server) -> None:
    with world(place, write_once, ledger_url=url) as around:

        async def live() -> None:
            session, stops = around.open(allow="ask"), [postgres.stop]
            wait_for(session, 0.1)
            session.dispatcher.approver = Allower(lambda: stops.pop()() if stops else None)
            assert not outcome(await say(session, "write it")).ok
            assert not (around.folder / "made.txt").exists()
            postgres.start()
            assert outcome(await say(session, "")).ok
            assert (around.folder / "made.txt").read_text() == "x"
            await session.aclose()

        asyncio.run(live())


@pytest.mark.matrix
def test_a_call_whose_start_was_not_saved_counts_as_not_started_after_ctrl_c(
    place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl+C comes in the pause between two attempts to reach the server."""
    real = SessionLog.record_start

    def record_start(log: SessionLog, call_id: str, name: str, memos: Sequence[Memo] = ()) -> None:
        real(log, call_id, name, memos)
        postgres.stop()

    with world(place, four_steps({}), ledger_url=url) as around:

        async def live() -> str:
            session, sleep = around.open(), asyncio.sleep
            monkeypatch.setattr(SessionLog, "record_start", record_start)

            async def pause(seconds: float) -> None:
                session.cancel("person")
                await sleep(60)

            monkeypatch.setattr(asyncio, "sleep", pause)
            assert outcome(await say(session, "go")).exit == 130
            monkeypatch.setattr(asyncio, "sleep", sleep)
            postgres.start()
            await session.aclose()
            return session.id

        name = asyncio.run(live())
        with closing(Ledger.open(url)) as ledger:
            call = ledger.log(name).read(2, 2)[0].message.tool_calls[0]
            assert not ledger.log(name).was_started(call.id)
        assert not (around.folder / "out").exists()


def test_a_server_that_does_not_answer_is_left_and_the_reply_is_kept(
    place: Path, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_journal, "_SHORT_WAIT", 0.5)
    monkeypatch.setattr(postgres_connection, "CONNECT_SECONDS", 2)

    def send(number: int) -> None:
        listed = subprocess.run(["pgrep", "-P", str(postgres.process.pid)], capture_output=True, text=True).stdout
        for process in (postgres.process.pid, *map(int, listed.split())):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    with world(place, answers({1: lambda: send(signal.SIGSTOP)}), ledger_url=url) as around:

        async def live() -> str:
            session = around.open()
            told: list[Event] = []

            def waits() -> bool:
                is_told = any(isinstance(event, Notice) and "waiting for the server" in event.text for event in told)
                return is_told and session.context.conversation.items[-1].message.content == "answer 1"

            async def leave() -> None:
                """Stop the turn while its reply waits for the server."""
                assert await asyncio.to_thread(until, waits)
                session.cancel("person")

            leaving = asyncio.create_task(leave())
            saying = say(session, "one", lambda event, number: told.append(event))
            ended = outcome(await asyncio.wait_for(saying, 300))
            await leaving
            assert ended.exit == 130 and session.saved
            send(signal.SIGCONT)
            await session.aclose()
            return session.id

        try:
            name = asyncio.run(live())
        finally:
            send(signal.SIGCONT)
        ledger = Ledger.open(url)
        assert texts(ledger, name) == ["one", "answer 1"]
        ledger.close()


@pytest.mark.matrix
def test_no_note_is_missing_while_it_is_saved_and_none_of_another_process_for_long(
    place: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lanes._read_notes

    def slow(rows: Any) -> dict[int, Memo]:
        found = real(rows)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)
        return found

    monkeypatch.setattr(lanes, "_read_notes", slow)
    with world(place, four_steps({}), ledger_url=url) as around:

        async def live() -> None:
            session, seen = around.open(), list[int]()
            record = session.record
            journal = record._journal
            assert isinstance(journal, ServerJournal)

            async def watch() -> None:
                while True:
                    await asyncio.sleep(0.005)
                    if journal.defers and journal.known_notes.is_fresh:
                        seen.append(len(record.memos("decision")))

            watching = asyncio.ensure_future(watch())
            await say(session, "one")
            watching.cancel()
            assert seen[-1] == 4 and all(before <= after for before, after in pairwise(seen))
            other = Ledger.open(url)
            other.log(session.id).record_memo(
                Memo("undone_files", "2026-01-13T08:31:00.000Z", 2, {"told": "x", "turn": 1})
            )
            other.close()
            await say(session, "two")
            assert len(record.memos("undone_files")) == 1
            await session.aclose()

        asyncio.run(live())


@pytest.mark.matrix
@pytest.mark.parametrize("is_late", [False, True], ids=["behind the opening", "as the message is recorded"])
def test_an_undo_that_another_process_notes_before_a_message_is_saved_is_told_with_it(
    is_late: bool, place: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_journal, "_FRESH_SECONDS", 600.0)
    real = SessionLog.append

    def undo(session: str) -> None:
        shell = Ledger.open(url)
        log = shell.log(session)
        told = {"told": "the person took back a.py", "turn": 1}
        log.record_memo(Memo("undone_files", "2026-01-13T08:31:00.000Z", log.last_id(), told))
        shell.close()

    def append(self: SessionLog, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        if entry.message.content == "two" and is_late:
            undo(self.session_id)
        real(self, entry, memos)

    monkeypatch.setattr(SessionLog, "append", append)
    with world(place, answers({}), ledger_url=url) as around:

        async def live() -> None:
            session = around.open()
            await say(session, "one")
            await session.aclose()
            session = around.open(session.id)
            if not is_late:
                undo(session.id)
            await say(session, "two")
            await say(session, "three")
            await session.aclose()

        asyncio.run(live())
        sent = around.server.requests
        assert [str(one.body["messages"]).count("took back a.py") for one in sent] == [0, 1, 1]


@pytest.mark.matrix
@pytest.mark.parametrize("is_served", [False, True], ids=["file", "server"])
def test_what_another_process_pins_during_a_turn_is_told_with_the_next_step(
    is_served: bool, place: Path, url: str
) -> None:
    def run(*words: str) -> None:
        done = run_born(["pin", *words], cwd=around.folder)
        assert done.returncode == 0, done.stderr

    def pin_and_remove() -> None:
        for words in (("add", "at once gone"), ("remove", "p2"), ("add", "1")):
            run(*words)

    at: dict[int, Callable[[], object]] = {
        1: lambda: run("add", "use tabs"),
        3: lambda: run("remove", "p1"),
        4: pin_and_remove,
    }
    with world(place, four_steps(at), ledger_url=url if is_served else "") as around:

        async def live() -> None:
            session = around.open()
            assert outcome(await say(session, "one")).ok
            assert session.engine.compactor.pin("no tabs")[0] == "p4"
            assert [one.text for one in list_pins(session.context.conversation)] == ["one", "no tabs"]
            await say(session, "two")
            await session.aclose()
            with closing(Ledger.open(ledger_place())) as ledger:
                assert_laws(ledger, session.id, around.server.requests)

        asyncio.run(live())
        sent = [str(one.body["messages"]) for one in around.server.requests]
        told = [
            [one.count(f"this; it applies from now on: {text}") for one in sent] for text in ("use tabs", "no tabs")
        ]
        assert told == [[0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]] and "at once gone" not in str(sent)
