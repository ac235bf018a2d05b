"""Several processes on one ledger: no lock errors, no lost step, one owner of a session."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest
from ledger.conftest import on
from ledger.postgres import Server

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger, database, lock_owners, open_database
from nexus_cli.ledger.open_database import lock_folder

WRITERS = 4
EACH = 40


@pytest.mark.matrix
@pytest.mark.parametrize("before", [b"", b"garbage that is no database " * 400])
def test_many_processes_make_and_write_one_ledger(path: Path, make: SimpleNamespace, before: bytes) -> None:
    if before:
        path.parent.mkdir(parents=True)
        path.write_bytes(before)

    def work(number: int, say: Callable[[str], None]) -> None:
        ledger = Ledger.open(path)
        info = make.new(ledger, name=f"writer {number}")
        say("aside" if ledger.notices else "made")
        for entry in range(1, EACH + 1):
            ledger.log(info.id).append(make.user(entry, f"{number} wrote {entry}"))
        ledger.delete_session(make.new(ledger).id)
        ledger.close()

    results = make.together(WRITERS, work)
    assert [status for status, _ in results] == [0] * WRITERS
    assert sum(lines == ["aside"] for _, lines in results) == bool(before)
    assert len(list(path.parent.glob("*.broken-*[0-9]"))) == bool(before)
    ledger = Ledger.open(path)
    for number in range(WRITERS):
        lane = ledger.find_session(f"writer {number}").main_lane
        wrote = [entry.message.content for entry in on(ledger, lane).read(1, 999)]
        assert wrote == [f"{number} wrote {entry}" for entry in range(1, EACH + 1)]
    assert len(ledger.sessions()) == WRITERS
    assert ledger.db.all("PRAGMA integrity_check") == [("ok",)]
    ledger.close()


class Crowd:
    """Other processes that write in turn: `turns` of them commit while we wait, the last one keeps the lock or not.

    It is the clock of the wait too: 20 seconds pass between two tries.
    """

    def __init__(self, path: Path, turns: int, *, stays: bool = False) -> None:
        self.now, self.turns, self.stays = 0.0, turns, stays
        self.other = sqlite3.connect(path, isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 20
        if self.turns:
            self.turns -= 1
            self.other.execute(f"PRAGMA user_version = {self.other.execute('PRAGMA user_version').fetchone()[0]}")
            self.other.execute("COMMIT")
            if self.turns or self.stays:
                self.other.execute("BEGIN IMMEDIATE")


@pytest.fixture
def waiting(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Ledger, Crowd]]:
    """Returns a ledger, and the crowd in front of its lock."""

    def wait(turns: int, *, stays: bool = False) -> tuple[Ledger, Crowd]:
        monkeypatch.setattr(open_database, "POLL_SECONDS", 0.0)
        ledger, crowd = Ledger.open(path), Crowd(path, turns, stays=stays)
        monkeypatch.setattr(database, "time", crowd)
        return ledger, crowd

    return wait


def test_a_write_waits_for_as_long_as_others_commit(
    waiting: Callable[..., tuple[Ledger, Crowd]], make: SimpleNamespace
) -> None:
    ledger, crowd = waiting(12)
    assert make.new(ledger).id in [one.id for one in ledger.sessions()]
    assert crowd.now == 240, "eight times as long as one process alone may take"
    ledger.close()


def test_a_write_gives_up_once_nobody_has_committed_for_half_a_minute(
    waiting: Callable[..., tuple[Ledger, Crowd]], make: SimpleNamespace
) -> None:
    ledger, crowd = waiting(3, stays=True)
    with pytest.raises(NexusError, match="another process kept the ledger locked for 30 s"):
        make.new(ledger)
    assert 90 < crowd.now <= 120
    ledger.close()


def test_a_write_waits_as_long_where_not_even_the_number_of_commits_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while another process recovers the log."""
    connections = [sqlite3.connect(tmp_path / "any.db", timeout=0, isolation_level=None) for _ in range(2)]
    connections[1].execute("BEGIN EXCLUSIVE")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            connections[1].execute("ROLLBACK")

    monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    with database.Database(connections[0]).write():
        assert len(waited) == 3


def test_what_was_deleted_leaves_the_log_once_another_process_has_read(
    path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_database, "POLL_SECONDS", 0.0)
    ledger, other = Ledger.open(path), sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    info = make.new(ledger)
    ledger.log(info.id).append(make.user(1, "a secret of the person"))
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM sessions").fetchone()
    crowd = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: other.execute("ROLLBACK"))
    monkeypatch.setattr(database, "time", crowd)
    ledger.delete_session(info.id)
    assert path.with_name(f"{path.name}-wal").stat().st_size == 0
    ledger.close()


@pytest.mark.matrix
def test_processes_that_write_and_delete_at_once_lose_nothing_on_a_server(
    postgres: Server, make: SimpleNamespace
) -> None:
    url = postgres.new_database()

    def work(number: int, say: Callable[[str], None]) -> None:
        ledger = Ledger.open(url)
        info = make.new(ledger, name=f"writer {number}")
        for entry in range(1, EACH + 1):
            # Of four processes each says what another one says, too: texts are stored, found and deleted at once.
            ledger.log(info.id).append(make.user(entry, f"{(number + entry) % 3} wrote {entry}"))
            if entry % 10 == 0:
                other = make.new(ledger)
                ledger.log(other.id).append(make.user(1, f"{number % 2} wrote {entry}"))
                ledger.delete_session(other.id)
        ledger.close()

    assert [status for status, _ in make.together(WRITERS, work)] == [0] * WRITERS
    ledger = Ledger.open(url)
    for number in range(WRITERS):
        lane = ledger.find_session(f"writer {number}").main_lane
        wrote = [entry.message.content for entry in on(ledger, lane).read(1, 999)]
        assert wrote == [f"{(number + entry) % 3} wrote {entry}" for entry in range(1, EACH + 1)]
    assert len(ledger.sessions()) == WRITERS
    unused = "SELECT count(*) FROM blobs WHERE id NOT IN (SELECT blob FROM entries)"
    assert ledger.db.one(unused) == (0,)
    ledger.close()
    postgres.drop(url)


@pytest.mark.matrix
def test_drop_ids_are_unique_over_processes(place: LedgerPlace, make: SimpleNamespace) -> None:
    ledger = Ledger.open(place)
    info = make.new(ledger)
    ledger.close()  # connections must not cross a fork

    def work(number: int, say: Callable[[str], None]) -> None:
        mine = Ledger.open(place)
        for _ in range(10):
            say(mine.log(info.id).next_drop())
        mine.close()

    given = [line for _, lines in make.together(WRITERS, work) for line in lines]
    assert sorted(given, key=lambda drop: int(drop[1:])) == [f"d{n}" for n in range(1, 10 * WRITERS + 1)]


@pytest.mark.matrix
def test_threads_of_one_process_share_a_ledger(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for entry in range(20):
                ledger.log(info.id).note(f"/p/{number}/{entry}", "aa", "read")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and len(ledger.log(info.id).files()) == 20 * WRITERS


@pytest.mark.matrix
def test_a_session_has_one_owner_until_that_process_ends(place: LedgerPlace, make: SimpleNamespace) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            other = Ledger.open(place)
            session = make.new(other).id
            os.write(tell, session.encode() if other.lock(session) else b"not held")
            signal.pause()
        finally:
            os._exit(1)
    try:
        identity = os.read(told, 100).decode()
        ledger = Ledger.open(place)
        assert ledger.session(identity).id == identity
        assert not ledger.lock(identity)
        with pytest.raises(NexusError, match="another process is using it"):
            ledger.delete_session(identity)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    assert ledger.lock(identity) and ledger.lock(identity)
    second = Ledger.open(place)
    assert not second.lock(identity)
    ledger.close()
    assert second.lock(identity)
    second.delete_session(identity)
    second.close()


def test_who_looks_for_owners_keeps_nobody_from_a_session(
    path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, second = Ledger.open(path), Ledger.open(path)
    session = make.new(ledger).id
    looking = open(lock_folder(path) / f"{session}.lock", "wb")  # noqa: SIM115  (closed in the middle of a lock)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert ledger.find_locked([session]) == [] and ledger.find_owners() == {}
    monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())
    assert ledger.lock(session) and looking.closed
    assert second.find_locked([session]) == [session] == list(second.find_owners()) and not second.lock(session)
    ledger.close()
    second.close()


def test_a_child_forked_during_a_look_keeps_nobody_from_a_session(
    path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, children, lock = Ledger.open(path), list[int](), fcntl.flock
    session = make.new(ledger).id
    assert ledger.lock(session)
    ledger.close()

    def flock(file: IO[bytes], how: int) -> None:
        lock(file, how)
        if how & fcntl.LOCK_SH:
            children.append(os.dup(file.fileno()))  # as a fork would

    second = Ledger.open(path)
    monkeypatch.setattr(fcntl, "flock", flock)
    assert second.find_locked([session]) == [] and children
    monkeypatch.setattr(fcntl, "flock", lock)
    monkeypatch.setattr(lock_owners, "LOCK_RETRY_SECONDS", 0.0)
    assert second.lock(session)
    second.close()
    for handle in children:
        os.close(handle)


def test_a_session_can_be_locked_while_others_look_all_the_time(path: Path, make: SimpleNamespace) -> None:
    ledger = Ledger.open(path)
    session, is_over = make.new(ledger).id, threading.Event()

    def look() -> None:
        while not is_over.is_set():
            ledger.find_locked([session])
            ledger.find_owners()

    others = [threading.Thread(target=look) for _ in range(2)]
    for one in others:
        one.start()
    failed = 0
    for _ in range(200):
        failed += not ledger.lock(session)
        ledger.unlock(session)
    is_over.set()
    for one in others:
        one.join()
    assert failed == 0
    ledger.close()


def test_a_ledger_in_memory_holds_everything(make: SimpleNamespace) -> None:
    ledger = Ledger.open(None)
    assert ledger.lock(make.new(ledger).id) and ledger.path is None
    ledger.close()


def test_the_second_writer_of_a_session_is_told(ledger: Ledger, place: LedgerPlace, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    second = Ledger.open(place)
    on(ledger, lane).append(make.user(1))
    with pytest.raises(NexusError, match="another process continued the session") as caught:
        on(second, lane).append(make.user(1, "something else"))
    assert "Fork it" in caught.value.hint
    on(second, lane).append(make.user(2))
    second.close()


def test_a_session_is_deleted_with_all_its_workers_or_not_at_all(make: SimpleNamespace, place: LedgerPlace) -> None:
    ledger, other = Ledger.open(place), Ledger.open(place)
    root = make.new(ledger).id
    first, second = (make.new(ledger, spawner=root).id for _ in range(2))
    assert other.lock(second)
    with pytest.raises(NexusError, match=f"another process is using its worker {second}"):
        ledger.delete_session(root)
    assert [one.id for one in ledger.workers(root)] == [first, second]
    assert other.lock(root) and other.lock(first), "nothing stays locked"
    other.delete_session(root)
    assert ledger.workers(root) == []
    ledger.close()
    other.close()
