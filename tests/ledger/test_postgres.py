"""What a server has and a file has not: connections that are cut, texts that it cannot store, passwords, roles that see
their own."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from ledger.conftest import AT, drop, epoch, fixed, manifest, new, on, user
from ledger.postgres import Server

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import LedgerAwayError, NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.services import Calibration
from nexus_cli.ledger import Ledger, SessionLog, database, entries


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    """An empty ledger on the server."""
    made = postgres.new_database()
    yield made
    postgres.drop(made)


@pytest.fixture
def served(url: str) -> Iterator[Ledger]:
    """It, opened by its administrator."""
    ledger = Ledger.open(url)
    yield ledger
    ledger.close()


def cut(postgres: Server, ledger: Ledger) -> None:
    """End a ledger's connection from the side of the server, as a restart of it or of a router does."""
    row = ledger.db.one("SELECT pg_backend_pid()")
    assert row is not None
    postgres.sql(f"SELECT pg_terminate_backend({row[0]})")
    while postgres.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {row[0]}"):
        time.sleep(0.005)


@pytest.mark.matrix
def test_a_lost_connection_is_made_again_between_transactions_with_its_locks(postgres: Server, served: Ledger) -> None:
    session = new(served)
    assert served.lock(session.id)  # type: ignore[attr-defined]
    log = served.log(session.id)  # type: ignore[attr-defined]
    log.append(user(1))
    cut(postgres, served)
    log.append(user(2))
    cut(postgres, served)
    assert [entry.id for entry in log.read(1, 9)] == [1, 2]
    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    assert not other.lock(log.session_id), "the lock was taken again"
    other.close()


class SlowEnd:
    """A connection on which the server has said that it ends, and that it closes a moment later."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.closed = self.broken = False
        self.pgconn, self.fileno = self, self.ours.fileno
        self.theirs.send(b"E")
        threading.Timer(0.1, self.theirs.close).start()

    def consume_input(self) -> None:
        self.closed = not self.ours.recv(1)


@pytest.mark.matrix
def test_a_server_that_ends_a_connection_has_a_moment_to_close_it(
    served: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    ending = SlowEnd()
    with monkeypatch.context() as patch:
        patch.setattr(served.db, "_server", ending)
        patch.setattr(served.db, "_reconnect", lambda: made.append(ending.closed))
        served.db._reconnect_if_lost()  # type: ignore[attr-defined]
    assert made == [True]


def test_a_session_that_another_process_took_meanwhile_is_not_written(
    postgres: Server, served: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexus_cli.ledger import postgres as module

    monkeypatch.setattr(module, "PATIENCE", 0.2)
    log = served.log(new(served).id)  # type: ignore[attr-defined]
    assert served.lock(log.session_id)
    cut(postgres, served)
    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    assert other.lock(log.session_id)
    for _ in range(2):
        with pytest.raises(NexusError, match="another process has taken over session"):
            log.append(user(1))
    assert other.log(log.session_id).last_id() == 0
    other.close()


@pytest.mark.matrix
def test_a_transaction_that_is_cut_is_not_half_there(postgres: Server, served: Ledger) -> None:
    log = served.log(new(served).id)  # type: ignore[attr-defined]
    log.append(user(1))
    with pytest.raises(NexusError, match=r"could not be|it is unknown") as caught, served.db.write():
        served.db.run("UPDATE sessions SET name = 'half'")
        cut(postgres, served)
        served.db.run("UPDATE sessions SET name = 'whole'")
    assert caught.value.kind == "ledger" and log.session.name == ""
    log.append(user(2))


def cut_connection(postgres: Server, connection: Any) -> None:
    """End a connection from the side of the server."""
    pid = getattr(connection, "_server", connection).info.backend_pid
    postgres.sql(f"SELECT pg_terminate_backend({pid})")
    while postgres.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
        time.sleep(0.005)


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_outcome_is_unknown_says_so(
    postgres: Server, served: Ledger, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    log = served.log(new(served).id)  # type: ignore[attr-defined]
    real = database.commit

    def commit(connection: Any) -> None:
        monkeypatch.setattr(database, "commit", real)
        if when == "after":
            real(connection)
        cut_connection(postgres, connection)
        connection.execute("COMMIT")

    monkeypatch.setattr(database, "commit", commit)
    with pytest.raises(LedgerAwayError, match="it is unknown whether the ledger was written"):
        log.append(user(1))
    assert log.last_id() == (1 if when == "after" else 0)
    log.append(user(log.last_id() + 1))


def test_every_text_with_a_nul_comes_back(served: Ledger) -> None:
    text = "a\0b \U0010ffff \U0010ffff0 \U0010ffff1"
    log = served.log(new(served, folder=f"/p/{text}", name=text).id)  # type: ignore[attr-defined]
    log.append(user(1, text, preamble=text), [Memo("k", AT, 1, {"text": text})])
    log.begin_epoch(epoch(0, effort=text), [drop(log.next_drop(), text)])
    log.note(f"/p/{text}", "aa", "read")
    fact = served.facts.add(MemorySlot.USER, "likes tabs", state=FactState.KEPT, at=AT, actor="person", quote=text)
    log.calibrate(text, Calibration(1.5))
    log.record_request(manifest(1, 1), [fixed(1, text)], [])
    again = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    back = again.log(log.session_id)
    (entry,) = back.read(1, 9)
    assert (entry.message.content, entry.preamble) == (text, text)
    assert back.memos("k")[0].value == {"text": text} and back.current_epoch() == epoch(0, effort=text)
    assert back.original("d1") == text and back.files() == [(f"/p/{text}", "read")]
    assert again.calibration(text).factor == 1.5 and again.facts.get(fact.id).quote == text
    assert again.find_session(text).folder == f"/p/{text}" and back.session.first_text == text
    again.close()


def test_a_password_is_never_shown(url: str) -> None:
    secret = "s3cr3t/pass@word"
    for bad in (
        url.replace("nexus@", f"nexus:{secret}@").replace("?", "_missing?"),
        url.replace("nexus@", "nobody_there:s3cr3t@"),
        f"{url}&password=s3cr3t&nonsense=1",
        "postgresql://nexus:s3cr3t@127.0.0.1:1/x",
        "postgresql://nexus:s3cr3t/x",
    ):
        with pytest.raises(NexusError) as caught:
            Ledger.open(bad)
        assert caught.value.kind == "ledger" and "s3cr3t" not in caught.value.line and "\n" not in caught.value.line
        assert "word@" not in caught.value.line


@pytest.mark.matrix
def test_without_psycopg_it_is_one_line_and_a_file_needs_none() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from nexus_cli.ledger import Ledger\n"
        "Ledger.open(None).close()\n"
        "try: Ledger.open('postgresql://x/y')\n"
        "except Exception as error: print(error.line)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "psycopg cannot be imported" in done.stdout and "psycopg[binary]>=3.2" in done.stdout
    code = "import sys; from nexus_cli.ledger import Ledger; Ledger.open(None); print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_processes_that_open_a_new_database_at_once_make_its_tables_once(postgres: Server) -> None:
    postgres.sql("CREATE DATABASE fresh")
    failed: list[BaseException] = []

    def opening() -> None:
        try:
            Ledger.open(postgres.url("fresh")).close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=opening) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    postgres.sql("UPDATE schema_version SET steps = 99", database="fresh")
    with pytest.raises(NexusError, match="a newer nexus wrote the ledger"):
        Ledger.open(postgres.url("fresh"))
    postgres.sql("DROP TABLE schema_version", database="fresh")
    with pytest.raises(NexusError, match="another program"):
        Ledger.open(postgres.url("fresh"))
    postgres.drop(postgres.url("fresh"))


def test_a_server_that_only_reads_is_looked_at_and_not_opened(postgres: Server, served: Ledger) -> None:
    session = new(served)
    readers = served.db._url + "&options=-c%20default_transaction_read_only%3Don"  # type: ignore[attr-defined]
    with pytest.raises(NexusError, match="is read-only"):
        Ledger.open(readers)
    look = Ledger.open_for_reading(readers)
    assert not look.writes and [one.id for one in look.sessions()] == [session.id]  # type: ignore[attr-defined]
    with pytest.raises(NexusError, match="is read-only"):
        look.rename_session(session.id, "other")  # type: ignore[attr-defined]
    look.close()


def test_a_session_that_is_only_looked_at_outlives_a_lost_connection(postgres: Server, served: Ledger) -> None:
    """As a rehearsal does: its notes are read outside of any transaction."""
    session: Any = new(served)
    memo = Memo("goal", AT, 0, {})
    served.log(session.id).record_memo(memo)
    served.record_in_memory()
    log = SessionLog.for_session(served, session.id, require_save=False, warn=print)
    assert log.memos("goal") == [memo]
    cut(postgres, served)
    assert log.memos("goal") == [memo]
    log.close()


@pytest.mark.matrix
def test_a_session_that_could_not_be_created_leaves_no_lock(served: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(database, "commit", stop)
        served.create_session(folder="/p", project="/p", model="m", recipe="chat", at=AT, locks=True)
    find = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database"
    assert not served.db.all(f"{find} WHERE datname = current_database())")
    made = served.create_session(folder="/p", project="/p", model="m", recipe="chat", at=AT, locks=True)
    assert served.locked_sessions() == [made.id]


def test_a_change_wakes_who_waits_for_it(served: Ledger) -> None:
    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    assert other.db.wait_for_change(5.0), "at first something may have been missed"
    assert not other.db.wait_for_change(0.01)
    threading.Timer(0.05, lambda: served.runs.queue("plan", "t", {}, {}, AT)).start()
    assert other.db.wait_for_change(120.0), "what is over without a change is False"
    other.close()


def together(*works: Callable[[], Any]) -> None:
    """Run functions at the same time; raise what one of them raised."""
    failed: list[BaseException] = []

    def guarded(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.matrix
def test_a_reply_and_a_wait_at_the_same_time_never_miss_one_another(served: Ledger) -> None:
    from nexus_cli.core.run import AGENT, HUMAN, Wait

    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    person, agent = served.spaces.entity("Husam", HUMAN), served.spaces.entity("Ana", AGENT)
    space = served.spaces.create("Alpha", AT, members=[person, agent])
    for _ in range(20):
        asked = served.spaces.post(space, agent, "well?", AT, waits=True).message
        key = served.runs.queue("ask", "t", {}, {}, AT)
        assert key is not None
        run = served.runs.get(key)
        value = {"space": space.key, "message": asked.key, "from": [person.key], "sender": agent.key}
        together(
            partial(served.runs.wait, run, Wait("reply", "a reply", value), AT),
            partial(other.spaces.post, space, person, "yes", AT),
        )
        assert served.runs.signals(run.key), "a run that waits for a message that is there"
        served.runs.cancel(run.key, AT)
    other.close()


@pytest.mark.matrix
def test_runners_claim_each_run_once(served: Ledger) -> None:
    runners = [Ledger.open(served.db._url) for _ in range(3)]  # type: ignore[attr-defined]
    for _ in range(30):
        served.runs.queue("plan", "t", {}, {}, AT)
    claimed: list[int] = []

    def claim(runner: Ledger) -> None:
        for run in runner.runs.due():
            if runner.runs.claim(run.key, "there", 60.0, AT):
                claimed.append(run.key)

    together(*(partial(claim, runner) for runner in runners))
    assert sorted(claimed) == [run.key for run in reversed(served.runs.list_runs())] and len(claimed) == 30
    for runner in runners:
        runner.close()


@pytest.mark.matrix
def test_of_two_writers_of_one_lane_the_second_is_refused(served: Ledger) -> None:
    log = served.log(new(served).id)  # type: ignore[attr-defined]
    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    refused = []

    def append(ledger: Ledger, text: str) -> None:
        try:
            on(ledger, log.lane).append(user(1, text))
        except NexusError as error:
            refused.append(error.message)

    together(lambda: append(served, "one"), lambda: append(other, "two"))
    assert len(refused) == 1 and "another process" in refused[0]
    assert len(log.read(1, 9)) == 1 and log.session.entries == 1
    other.close()


@pytest.mark.matrix
def test_a_text_that_comes_into_use_while_its_session_is_deleted_stays(served: Ledger) -> None:
    gone, stays = new(served).id, new(served).id  # type: ignore[attr-defined]
    served.log(gone).append(user(1, "what both say"))
    other = Ledger.open(served.db._url)  # type: ignore[attr-defined]
    deleting = threading.Thread(target=served.delete_session, args=(gone,))
    with other.db.write():
        entries.append(other.db, other.session(stays).main_lane, user(1, "what both say"))
        deleting.start()
        deleting.join(0.2)
    deleting.join()
    assert other.log(stays).read(1, 1)[0].message.content == "what both say" and len(other.sessions()) == 1
    other.close()
