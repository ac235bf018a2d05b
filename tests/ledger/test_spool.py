"""Journals of an outage: whose they are, and those that cannot be written back."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ledger.conftest import AT, Work, die, drop, in_child, new, spawn, user
from ledger.postgres import Server

from nexus_cli.config.database_url import hash_address
from nexus_cli.core.entry import Memo
from nexus_cli.ledger import Ledger, failover_log, postgres_connection
from nexus_cli.ledger.failover_log import FailoverLog
from nexus_cli.ledger.sessions import SessionInfo
from nexus_cli.ledger.spool import Spool, spool_folder

DEEP = "[" * 100_000


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.new_database()
    yield made
    postgres.drop(made)


def keep_offline(url: str, **more: str) -> SessionInfo:
    """A session of one entry in a journal, whose process has ended."""
    ledger = Ledger.open_offline(url)
    info: Any = new(ledger, **more)
    log = FailoverLog(
        ledger.db, info.id, require_save=False, warn=pytest.fail, server=ledger.server, is_offline=ledger.is_offline
    )
    log.append(user(1))
    log.close()
    ledger.close()
    assert journals() == [f"{info.id}.jsonl"]
    return info  # type: ignore[no-any-return]


def journals() -> list[str]:
    """The names of the files, without their random part."""
    return sorted(f"{path.name.partition('-')[0]}{path.suffix}" for path in spool_folder().glob("*"))


def opened(url: str) -> tuple[list[str], list[str]]:
    """What a command tells of the journals, and the sessions that it finds."""
    ledger = Ledger.open(url)
    rows = ledger.db.all("SELECT id FROM sessions ORDER BY id")
    ledger.close()
    return ledger.notices, [row[0] for row in rows]


def add_line(**line: Any) -> None:
    (path,) = spool_folder().glob("*.jsonl")
    with path.open("a") as file:
        file.write(json.dumps({"lane": 1, "values": [], "result": None, "at": AT} | line) + "\n")


def test_a_journal_goes_to_the_server_and_role_that_it_was_made_for(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.sql("DROP ROLE IF EXISTS alice", "DROP ROLE IF EXISTS bob", "CREATE ROLE alice LOGIN SUPERUSER")
    postgres.sql("CREATE ROLE bob LOGIN SUPERUSER")
    first, second = (postgres.new_database().partition("?")[0].rpartition("/")[2] for _ in range(2))
    of_alice, of_bob, elsewhere, by_variables = (
        f"postgresql:///?host={postgres.folder}{more}"
        for more in (f"&user=alice&dbname={first}", f"&user=bob&dbname={first}", f"&user=alice&dbname={second}", "")
    )
    info = keep_offline(of_alice)
    for other in (of_bob, elsewhere):
        assert opened(other) == ([], [])
        assert journals() == [f"{info.id}.jsonl"], "neither taken nor set aside"
    monkeypatch.setenv("PGUSER", "bob")
    monkeypatch.setenv("PGDATABASE", first)
    assert opened(by_variables) == ([], [])
    monkeypatch.setenv("PGUSER", "alice")
    told, found = opened(by_variables)
    assert found == [info.id] and "1 session of an outage written back" in told[0] and not journals()


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
        {"lane": [1], "call": "next_drop"},
        {"call": "next_drop", "result": "d1", "at": 5},
        DEEP,
        7,
    ],
    ids=lambda line: str(line)[:60],
)
def test_a_bad_line_sets_its_journal_aside_once(line: Any, url: str) -> None:
    info = keep_offline(url)
    if isinstance(line, dict):
        add_line(**line)
    else:
        (path,) = spool_folder().glob("*.jsonl")
        path.write_text(f"{path.read_text()}{line}\n")
    (told,), found = opened(url)
    assert f"session {info.id} of an outage cannot be written back" in told and not found
    assert journals() == [f"{info.id}.refused"]
    assert opened(url) == ([], [])


def test_the_journal_of_a_newer_version_waits_for_it(url: str) -> None:
    info = keep_offline(url)
    (path,) = spool_folder().glob("*.jsonl")
    head, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps(json.loads(head) | {"version": 2}) + f"\n{rest}")
    (told,), found = opened(url)
    assert "newer nexus" in told and not found and journals() == [f"{info.id}.jsonl"]
    path.write_text(f"{head}\n{rest}")
    assert opened(url)[1] == [info.id]


def test_a_journal_writes_into_no_other_session(url: str) -> None:
    ledger = Ledger.open(url)
    victim: Any = new(ledger)
    assert ledger.lock(victim.id)
    info = keep_offline(url)
    lane = ledger.session(victim.id).main_lane + 1000
    ledger.db.one("SELECT setval('lanes_id_seq', ?)", lane)
    other: Any = new(ledger)
    assert ledger.lock(other.id)
    memo = {"Memo": {"kind": "note", "at": AT, "entry": 0, "value": {"plain": {"x": "planted"}}}}
    add_line(lane=other.main_lane, call="record_memo", values=[memo])
    told, found = opened(url)
    assert "cannot be written back" in told[0] and info.id not in found
    assert ledger.db.all("SELECT lane FROM memos") == []
    ledger.close()


def test_a_journal_under_the_name_of_another_session_is_set_aside(url: str) -> None:
    ledger = Ledger.open(url)
    victim: Any = new(ledger)
    assert ledger.lock(victim.id)
    path = Spool.create(url, replace(victim, id="01KAAAAAAAAAAAAAAAAAAAAAAA")).path
    head = json.loads(path.read_text())
    head["session"]["id"] = victim.id
    path.write_text(json.dumps(head) + "\n")
    add_line(lane=victim.main_lane, call="record_start", values=["c1", "bash"])
    path = path.rename(path.with_name("01KAAAAAAAAAAAAAAAAAAAAAAA-1.jsonl"))
    told, _ = opened(url)
    assert "cannot be written back" in told[0] and ledger.db.all("SELECT lane FROM started") == []
    ledger.close()


def test_a_note_of_a_journal_names_no_lane_of_another_session(url: str) -> None:
    """What was written back is noted in the session: a journal may not make up such a note."""
    ledger = Ledger.open(url)
    victim: Any = new(ledger)
    info = keep_offline(url)
    (path,) = spool_folder().glob("*.jsonl")
    kept = path.read_text()
    opened(url)
    made = ledger.log(info.id)
    made.record_memo(Memo("spooled", AT, 1, {"id": path.stem, "lines": 1, "lanes": [[1, victim.main_lane]]}))
    path.write_text(kept)
    add_line(call="record_start", values=["c1", "bash"])
    (told,), _ = opened(url)
    assert "cannot be written back" in told and ledger.db.all("SELECT lane FROM started") == []
    ledger.close()


def work_until_killed(url: str, offline: bool, seconds: float) -> Work:
    """A process that records without end, confirms each record, and is killed so long after its journal was begun."""

    def work(say: Callable[[str], None]) -> None:
        ledger = Ledger.open_offline(url) if offline else Ledger.open(url)
        info: Any = new(ledger)
        log = FailoverLog(
            ledger.db,
            info.id,
            require_save=False,
            warn=lambda line: None,
            server=ledger.server,
            is_offline=ledger.is_offline,
        )
        say(info.id)
        for number in range(1, 1_000_000):
            if log.is_spooling and threading.active_count() == 1:
                threading.Timer(seconds, die).start()
            log.append(user(number), [Memo("note", AT, number, {"number": number})])
            log.record_start(f"c{number}", "bash")
            log.record_drop(drop(log.next_drop(), f"text {number}"))
            say(str(number))
            time.sleep(0.01)

    return work


def write_back_until_killed(url: str, seconds: float) -> Work:
    def work(say: Callable[[str], None]) -> None:
        threading.Timer(seconds, die).start()
        while True:
            Ledger.open(url).close()

    return work


@pytest.mark.matrix
def test_processes_killed_at_any_moment_of_an_outage_are_written_back_exactly_once(
    url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten are killed while they record, and then five while they write the journals back."""
    monkeypatch.setattr(failover_log, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(postgres_connection, "PAUSE", 0.0)
    chance, ended = random.Random(), []
    ended += [spawn(work_until_killed(url, False, chance.uniform(0, 0.5))) for _ in range(5)]
    watching = Ledger.open(url)
    while len(watching.db.all("SELECT DISTINCT lane FROM entries WHERE id > 1")) < 5:
        time.sleep(0.02)
    watching.close()
    postgres.stop()
    try:
        ended += [spawn(work_until_killed(url, True, chance.uniform(0, 0.5))) for _ in range(5)]
        outcomes = [wait() for wait in ended]
    finally:
        postgres.start()
    for _ in range(5):
        in_child(write_back_until_killed(url, chance.uniform(0, 0.3)))
    ledger = Ledger.open(url)
    assert not [name for name in journals() if not name.endswith(".lock")], "none is left or set aside"
    for status, (session, *confirmed) in outcomes:
        assert status == -9, "killed, not failed"
        if not confirmed and ledger.db.one("SELECT 1 FROM sessions WHERE id = ?", session) is None:
            continue  # killed before its first record
        log = ledger.log(session)
        last = log.last_id()
        assert last - len(confirmed) in (0, 1), "at most the call that the kill interrupted is there, too"
        assert [entry.message.content for entry in log.read(1, last)] == [f"words {one}" for one in range(1, last + 1)]
        assert [memo.value["number"] for memo in log.memos("note")] == list(range(1, last + 1))
        started = [row[0] for row in ledger.db.all("SELECT call FROM started WHERE lane = ?", log.lane)]
        assert sorted(started) == sorted(f"c{one}" for one in range(1, len(started) + 1))
        drops = [one.id for one in log.drops()]
        assert drops == [f"d{one}" for one in range(1, len(drops) + 1)]
        assert {len(started), len(drops)} <= {len(confirmed), len(confirmed) + 1}
    ledger.close()
