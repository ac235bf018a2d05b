"""What could not be saved while a server was away: whose it is, and files that do not fit."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ledger.conftest import (
    AT,
    Work,
    calling,
    die,
    drop,
    epoch,
    fixed,
    in_child,
    manifest,
    new,
    result,
    slot,
    spawn,
    user,
)
from ledger.postgres import Server

from nexus_cli.core.entry import ItemForm, Memo
from nexus_cli.core.errors import LedgerAwayError
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.ledger import Ledger, SessionLog, postgres_connection, server_journal, unsaved_entries
from nexus_cli.ledger.postgres import PostgresDatabase
from nexus_cli.ledger.postgres_connection import hash_address
from nexus_cli.ledger.unsaved_entries import UnsavedCall, record_calls, unsaved_folder

DEEP = "[" * 100_000


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.new_database()
    yield made
    postgres.drop(made)


def keep_one(url: str) -> str:
    """A session with one entry on the server and another one in its file, whose process has ended."""
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    told: list[str] = []
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=told.append)
    log.append(user(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresDatabase, "write", _refuse)
        log.append(user(2))
        log.close()
    ledger.close()
    assert kept() == [f"{info.id}.entries"] and len(told) == 1
    return str(info.id)


def _refuse(database: object) -> Any:
    raise LedgerAwayError("the ledger cannot be reached", "it is away")


def kept() -> list[str]:
    """The names of the files, without their random part."""
    return sorted(f"{path.name.partition('-')[0]}{path.suffix}" for path in unsaved_folder().glob("*"))


def opened(url: str, session: str = "") -> tuple[list[str], list[str]]:
    """What a command tells of the files, and the entries of `session` that it finds."""
    ledger = Ledger.open(url)
    words = [one.message.content for one in ledger.log(session).read(1, 99)] if session else []
    ledger.close()
    return ledger.notices, words


def the_file() -> Path:
    (path,) = unsaved_folder().glob("*.entries")
    return path


def add_line(**line: Any) -> None:
    with the_file().open("a") as file:
        file.write(json.dumps({"lane": 1, "values": []} | line) + "\n")


def test_a_file_that_was_left_to_the_next_command_is_neither_removed_nor_closed_again(url: str) -> None:
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresDatabase, "write", _refuse)
        log.append(user(1))
        log.close()
        log.close()
        log.append(user(2))
        log.close()
    ledger.close()
    assert kept() == [f"{info.id}.entries"]
    assert opened(url, info.id)[1] == ["words 1"] and not kept()


def test_all_that_happened_is_kept_as_it_would_have_been_recorded(url: str) -> None:
    """A reply with its usage and calls, a result with its original, an epoch, a note, a seen file."""
    usage = Usage(100, 20, 60, 30, 5, 0.25, Cost(0.1, 0.05, 0.05, 0.05, 0.2))
    note = Memo("note", AT, 2, {"Message": {"x": [1, None, "\ud800"]}})
    head = (slot(1), slot(2, "a summary", ItemForm.SUMMARY))

    def work(log: SessionLog, patch: pytest.MonkeyPatch | None = None) -> None:
        log.append(user(1), [note])
        log.record_request(manifest(1, 1, log.next_epoch() - 1), [fixed(1)], [])
        if patch:
            patch.setattr(PostgresDatabase, "write", _refuse)
        log.record_reply(calling(2), 1, usage, "tool_calls", True, "body")
        log.record_start("c1", "bash")
        log.record_drop(drop(log.next_drop(), "the original \0"))
        log.append(result(3, "\ud800"), [note])
        log.note("/p/a.py", "digest", "read", AT)
        log.begin_epoch(epoch(1, 0, head, 3), [drop(log.next_drop(), None, (1, 3))], [note])
        log.record_memo(note)
        log.record_request(manifest(2, 3, 1), [fixed(3)], [])
        log.record_reply(None, 2, Usage(), "ledger", False)
        log.close()

    def recorded(session: str) -> tuple[Any, ...]:
        ledger = Ledger.open(url)
        log = ledger.log(session)
        rows = [(one.manifest.step, one.usage, one.finish, one.sent_body) for one in log.requests()]
        found = log.read(1, 9), log.memos(), log.drops(), log.original("d1"), log.seen_files(), log.current_epoch()
        cost = ledger.session(session).known_usd
        ledger.close()
        return *found, rows[:1], cost

    ledger, sessions = Ledger.open(url), list[str]()
    for kept_in_file in (False, True):
        info: Any = new(ledger)
        sessions.append(info.id)
        log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
        log.begin_epoch(epoch(0), [])
        with pytest.MonkeyPatch.context() as patch:
            work(log, patch if kept_in_file else None)
    ledger.close()
    assert kept() == [f"{sessions[1]}.entries"]
    plain, from_file = map(recorded, sessions)
    entries, settled = plain[0], from_file[0][:2]
    assert [*settled, replace(from_file[0][2], preamble="now", tokens=7)] == entries, "what was not sent is not settled"
    assert from_file[1:] == plain[1:] and len(plain[1]) == 4 and not kept()


@pytest.mark.matrix
def test_a_log_of_an_opening_that_fails_does_not_detach_the_log_in_use(url: str) -> None:
    """What waits in the session is saved before it is forked or locked again."""
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    log, _failed = (SessionLog.for_session(ledger, info.id, require_save=False, warn=print) for _ in range(2))
    log.defer(True)
    log.append(user(1))
    ledger.save(info.id)
    assert [one.message.content for one in ledger.log(info.id).read(1, 9)] == ["words 1"]
    log.close()
    assert not ledger.db.unsaved
    ledger.close()


@pytest.mark.matrix
def test_a_note_that_is_just_committed_is_not_read_twice(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that was not read yet, while a thread has committed its note and not yet taken it from what waits."""
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)
    log.defer(True)
    memo, read = Memo("work", AT, 0, {}), list[Memo]()
    log.record_memo(memo)
    reader, real = threading.Thread(target=lambda: read.extend(log.memos("work"))), ledger.db.write

    @contextmanager
    def write() -> Iterator[None]:
        with real():
            yield
        reader.start()
        reader.join(0.3)

    monkeypatch.setattr(ledger.db, "write", write)
    ledger.save(info.id)
    reader.join()
    assert read == [memo]
    monkeypatch.undo()
    log.close()
    ledger.close()


def test_a_session_whose_file_cannot_be_saved_is_not_locked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, other = Ledger.open(url), Ledger.open(url)
    info: Any = new(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(unsaved_entries, "save_kept_entries", lambda *_: _refuse(None))
        with pytest.raises(LedgerAwayError):
            ledger.lock(info.id)
    assert not ledger.is_locked(info.id) and other.lock(info.id)
    other.close()
    ledger.close()


@pytest.mark.matrix
def test_a_file_that_cannot_be_made_leaves_no_lock(url: str) -> None:
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    told: list[str] = []
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=told.append)
    real = os.open

    def full(path: Any, *rest: Any, **named: Any) -> int:
        if str(path).endswith(".entries"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresDatabase, "write", _refuse)
        patch.setattr(os, "open", full)
        log.append(user(1))
        assert not log.is_saving and "cannot be kept on this machine" in told[0]
    assert kept() == []
    log.append(user(2))
    log.close()
    ledger.close()
    assert opened(url, info.id)[1] == ["words 1", "words 2"], "the server answered again"


@pytest.mark.matrix
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_session_goes_on_if_its_file_can_be_written_no_more(error: int, url: str) -> None:
    """Nor removed, where the file system is mounted again to be read alone."""
    ledger = Ledger.open(url)
    info: Any = new(ledger)
    told: list[str] = []
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=told.append)

    def fail(*_: Any, **named: Any) -> int:
        raise OSError(error, os.strerror(error))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresDatabase, "write", _refuse)
        log.append(user(1))
        assert log.is_saving
        patch.setattr(os, "write", fail)
        if error == errno.EROFS:
            patch.setattr(Path, "unlink", fail)
        log.append(user(2))
        assert not log.is_saving and "cannot be kept on this machine" in told[-1]
    log.append(user(3))
    log.close()
    ledger.close()
    assert opened(url, info.id)[1] == ["words 1", "words 2", "words 3"] and not list(unsaved_folder().glob("*.refused"))


@pytest.mark.matrix
def test_a_file_goes_to_the_server_and_role_that_it_was_made_for(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.sql("DROP ROLE IF EXISTS alice", "DROP ROLE IF EXISTS bob", "CREATE ROLE alice LOGIN SUPERUSER")
    postgres.sql("CREATE ROLE bob LOGIN SUPERUSER")
    first, second = (postgres.new_database().partition("?")[0].rpartition("/")[2] for _ in range(2))
    of_alice, of_bob, elsewhere, by_variables = (
        f"postgresql:///?host={postgres.folder}{more}"
        for more in (f"&user=alice&dbname={first}", f"&user=bob&dbname={first}", f"&user=alice&dbname={second}", "")
    )
    session = keep_one(of_alice)
    for other in (of_bob, elsewhere):
        assert opened(other)[0] == []
        assert kept() == [f"{session}.entries"], "neither taken nor set aside"
    monkeypatch.setenv("PGUSER", "bob")
    monkeypatch.setenv("PGDATABASE", first)
    assert opened(by_variables)[0] == []
    monkeypatch.setenv("PGUSER", "alice")
    told, words = opened(by_variables, session)
    assert words == ["words 1", "words 2"] and "is now saved" in told[0] and not kept()


def test_a_password_or_a_limit_in_the_address_does_not_make_it_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    plain = hash_address("postgresql://ann@host:5432/work")
    same = ("postgres://ann:secret@host/work?connect_timeout=3", "postgresql://host/work?user=ann&sslmode=require")
    assert {hash_address(one) for one in same} == {plain}
    others = ("ann@host:5433/work", "ann@host/play", "bob@host/work", "ann@other/work", "ann@host,other/work")
    assert len({plain, *(hash_address(f"postgresql://{one}") for one in others)}) == 6
    monkeypatch.setenv("PGUSER", "bob")
    monkeypatch.setenv("PGPORT", "6000")
    assert hash_address("postgresql://ann@host:5432/work") == plain, "the address comes before the variables"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line",
    [
        {"call": "record_from_the_future"},
        {"call": "db"},
        {"call": "close"},
        {"call": "record_memo", "values": [5]},
        {"call": "append", "values": [None]},
        {"call": ["append"]},
        {"lane": [1], "call": "record_start"},
        {"call": "record_start", "values": ["c1", "bash"]},
        {"call": "note", "values": [5]},
        DEEP,
        7,
    ],
    ids=lambda line: str(line)[:60],
)
def test_a_bad_line_sets_its_file_aside_once(line: Any, url: str) -> None:
    session = keep_one(url)
    if isinstance(line, dict):
        add_line(**line)
    else:
        the_file().write_text(f"{the_file().read_text()}{line}\n")
    (told,), words = opened(url, session)
    assert f"session {session} was not saved" in told and words == ["words 1"]
    assert kept() == [f"{session}.refused"]
    assert opened(url)[0] == []


def test_equal_notes_of_a_commit_that_failed_are_each_recorded_once(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    note = Memo("pin", AT, 1, {"text": "the same words"})
    values = ("append", (user(1), ())), ("record_memo", (note,)), ("record_memo", (note,))
    calls = [UnsavedCall(info.main_lane, *value) for value in values]
    for _ in range(2):  # the second time the outcome of the first commit is unknown
        with ledger.db.write():
            record_calls(ledger.db, info.id, calls, was_tried=True)
    assert ledger.log(info.id).memos("pin") == [note, note] and ledger.log(info.id).last_id() == 1
    ledger.close()


def test_a_file_writes_into_no_other_session(url: str) -> None:
    """Neither by the lane of a line nor under the name of another session."""
    ledger = Ledger.open(url)
    victim: Any = new(ledger)
    assert ledger.lock(victim.id)
    session = keep_one(url)
    memo = {"kind": "note", "at": AT, "entry": 0, "value": {"x": "planted"}}
    add_line(lane=victim.main_lane, call="record_memo", values=[memo])
    (told,), _ = opened(url)
    assert "was not saved" in told
    (aside,) = unsaved_folder().glob("*.refused")
    ledger.unlock(victim.id)
    aside.rename(unsaved_folder() / f"{victim.id}-{hash_address(url)}-1.entries")
    (told,), _ = opened(url)
    assert f"session {victim.id}" in told and "was not saved" in told
    assert ledger.db.all("SELECT lane FROM memos") == [] and session not in told
    ledger.close()


def work_until_killed(url: str, seconds: float) -> Work:
    """A process that records without end, confirms each record, and is killed so long after its server went away."""

    def work(say: Callable[[str], None]) -> None:
        ledger = Ledger.open(url)
        info: Any = new(ledger)
        log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
        say(info.id)
        for number in range(1, 1_000_000):
            if kept() and threading.active_count() == 1:
                threading.Timer(seconds, die).start()
            log.append(user(number), [Memo("note", AT, number, {"number": number})])
            log.record_start(f"c{number}", "bash")
            log.record_drop(drop(log.next_drop(), f"text {number}"))
            say(str(number))
            time.sleep(0.01)

    return work


def save_until_killed(url: str, seconds: float) -> Work:
    def work(say: Callable[[str], None]) -> None:
        threading.Timer(seconds, die).start()
        while True:
            Ledger.open(url).close()

    return work


@pytest.mark.matrix
def test_processes_killed_at_any_moment_of_an_outage_are_saved_exactly_once(
    url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five are killed while they record, and then five while they save what was kept."""
    monkeypatch.setattr(server_journal, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(postgres_connection, "PAUSE", 0.0)
    chance = Random()
    ended = [spawn(work_until_killed(url, chance.uniform(0, 0.5))) for _ in range(5)]
    watching = Ledger.open(url)
    while len(watching.db.all("SELECT DISTINCT lane FROM entries WHERE id > 1")) < 5:
        time.sleep(0.02)
    watching.close()
    postgres.stop()
    try:
        outcomes = [wait() for wait in ended]
    finally:
        postgres.start()
    for _ in range(5):
        in_child(save_until_killed(url, chance.uniform(0, 0.3)))
    ledger = Ledger.open(url)
    assert not kept(), "none is left or set aside"
    for status, (session, *confirmed) in outcomes:
        assert status == -9, "killed, not failed"
        log = ledger.log(session)
        last = log.last_id()
        assert last - len(confirmed) in (0, 1), "at most the call that the kill interrupted is there, too"
        assert [entry.message.content for entry in log.read(1, last)] == [f"words {one}" for one in range(1, last + 1)]
        assert [memo.value["number"] for memo in log.memos("note")] == list(range(1, last + 1))
        started = [row[0] for row in ledger.db.all("SELECT call FROM started WHERE lane = ?", log.lane)]
        assert sorted(started) == sorted(f"c{one}" for one in range(1, len(started) + 1)), "those that were saved"
        drops = [one.id for one in log.drops()]
        assert drops == [f"d{one}" for one in range(1, len(drops) + 1)]
        assert len(drops) in (len(confirmed), len(confirmed) + 1) and len(started) <= len(drops) + 1
    ledger.close()
