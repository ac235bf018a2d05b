"""A process may be killed, or its disk be full, at any commit: what was confirmed is there, the rest is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger.conftest import on
from search import sample

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Calibration
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import LaneLog, Ledger, database
from nexus_cli.session.logger import LogConfig, SessionLogger

Check = Callable[[Ledger, str], bool]
USED = Usage(100, 20, 0, 0, 0, 0.5)


def steps(ledger: Ledger, log: LaneLog, make: SimpleNamespace) -> list[tuple[str, Callable[[], Any], Check]]:
    """Every way to commit: its name, what does it, and how a reader of session `id` sees that it was done."""
    me, lane = log.session_id, log.lane
    counted = b"c" * 32

    def main(of: Ledger, key: str = me) -> int:
        return of.session(key).main_lane

    def count() -> None:
        log.store_count("enc", counted, 9)
        log.calibrate("m", Calibration(1.5))
        log.record_memo(Memo("count", make.at, 2, {}))

    return [
        ("append", lambda: log.append(make.user(1)), lambda of, _: on(of, lane).last_id() >= 1),
        ("next_drop", log.next_drop, lambda of, _: of.log(me).next_drop() != "d1"),
        (
            "begin_epoch",
            lambda: log.begin_epoch(make.epoch(0, head=(make.slot(1),)), [make.drop("d1", entries=(1, 1))]),
            lambda of, _: on(of, lane).epoch(0).head == (make.slot(1),) and of.log(me).drops() != [],
        ),
        (
            "sending",
            lambda: log.record_request(make.manifest(1, 1), [make.fixed(1)], [b"l" * 32]),
            lambda of, _: (
                on(of, lane).cursor() >= 1
                and on(of, lane).step() >= 1
                and on(of, lane).line_hashes(0, 1) == ([b"l" * 32], [(1, make.fixed(1).line)])
            ),
        ),
        (
            "received",
            lambda: log.record_reply(None, 1, USED, "stop", True),
            lambda of, _: on(of, lane).requests()[0].usage == USED and of.session(me).cost_usd in (0.5, 1.0),
        ),
        ("next", lambda: log.record_request(make.manifest(2, 1), [], []), lambda of, _: on(of, lane).step() == 2),
        (
            "replied",
            lambda: log.record_reply(make.calling(2), 2, USED, "tool_calls", True),
            lambda of, _: (
                on(of, lane).read(2, 2) == [make.calling(2)]
                and on(of, lane).requests()[1].usage == USED
                and of.session(me).cost_usd == 1.0
            ),
        ),
        ("started", lambda: log.record_start("c1", "bash"), lambda of, _: on(of, lane).was_started("c1")),
        ("note", lambda: log.note("/p/a", "aa", "read"), lambda of, _: of.log(me).digest("/p/a") == "aa"),
        ("id", log.next_drop, lambda of, _: of.log(me).next_drop() not in ("d1", "d2")),
        ("drop", lambda: log.record_drop(make.drop("d2", "text")), lambda of, _: of.log(me).original("d2") == "text"),
        ("recall", lambda: log.count_recall("d2"), lambda of, _: of.log(me).drops()[1].recalls == 1),
        (
            "count",
            count,
            lambda of, _: of.calibration("m").factor == 1.5 and of.log(me).stored_count("enc", counted) == 9,
        ),
        ("lane", lambda: log.open_lane("side", 2), lambda of, _: on(of, lane + 1).last_id() == 2),
        (
            "fork",
            lambda: ledger.fork_session(me, at=make.at, name="fork"),
            lambda of, _: of.log(of.find_session("fork").id).last_id() == 2,
        ),
        ("rename", lambda: ledger.rename_session(me, "mine"), lambda of, _: of.session(me).name == "mine"),
        ("touch", lambda: ledger.touch_session(me, model="n"), lambda of, _: of.session(me).model == "n"),
        (
            "delete",
            lambda: ledger.delete_session(make.new(ledger, name="gone").id),
            lambda of, _: not [s for s in of.sessions() if s.name == "gone"],
        ),
    ]


def run(path: Path, make: SimpleNamespace, say: Callable[[str], None], at: int, when: str) -> None:
    """Do every step, and die before or after commit number `at`."""
    real, seen = database.commit, 0

    def commit(connection: sqlite3.Connection) -> None:
        nonlocal seen
        seen += 1
        if seen == at and when == "before":
            make.die()
        real(connection)
        if seen == at and when == "after":
            make.die()

    database.commit = commit  # the child's own copy of the module
    log = SessionLogger(LogConfig(path, folder=path.parent))
    say(f"session {log.session_id}")
    for name, act, _ in steps(log.ledger, log, make):
        act()
        say(name)


@pytest.mark.matrix
@pytest.mark.parametrize("when", sample(["before", "after"], 2))
def test_a_kill_around_any_commit_loses_nothing_that_was_confirmed(
    _isolated: Path, make: SimpleNamespace, when: str
) -> None:
    kills = 0
    for at in range(1, 100):
        path = _isolated / str(at) / "ledger.db"
        status, said = make.in_child(lambda say, path=path, at=at: run(path, make, say, at, when))
        _assert_sound(path, make, said)
        if status == 0:
            break
        assert status == -9
        kills += 1
    # The tables, the session, eighteen steps and one more session to delete.
    assert kills == 21


def _assert_sound(path: Path, make: SimpleNamespace, said: list[str]) -> None:
    ledger = Ledger.open(path)
    assert ledger.notices == []
    assert ledger.db.all("PRAGMA integrity_check") == [("ok",)]
    assert ledger.db.all("PRAGMA foreign_key_check") == []
    if said:
        session = said[0].split()[1]
        assert ledger.lock(session)
        log = ledger.log(session)
        checks = {name: check for name, _, check in steps(ledger, log, make)}
        assert [name for name in said[1:] if not checks[name](ledger, session)] == []
        assert log.read(1, 9) == on(ledger, log.lane).read(1, 9)
        replied = [row.usage is not None for row in on(ledger, log.lane).requests()[1:]]
        assert replied in ([], [log.last_id() >= 2]), "a reply without what it used, or the reverse"
        log.append(make.user(log.last_id() + 1, "goes on"))
    ledger.close()


@pytest.mark.matrix
def test_a_full_disk_writes_nothing_half_and_says_so(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    ledger.log(info.id).append(make.user(1))
    ledger.log(info.id).begin_epoch(make.epoch(0), [])
    counted = [row[0] for row in ledger.db.all("SELECT count(*) FROM blobs")]
    ((pages,),) = ledger.db.all("PRAGMA page_count")
    ledger.db.one(f"PRAGMA max_page_count = {pages + 1}")
    drop = make.drop(ledger.log(info.id).next_drop(), "".join(map(str, range(40_000))))
    acts: list[Callable[[], None]] = [
        lambda: ledger.log(info.id).record_drop(drop),
        lambda: ledger.log(info.id).begin_epoch(make.epoch(1, 0), [drop]),
        lambda: ledger.log(info.id).append(make.user(2, drop.text)),
    ]
    for act in acts:
        with pytest.raises(NexusError, match="disk is full") as caught:
            act()
        assert caught.value.kind == "ledger" and caught.value.exit_status == 1
    assert [row[0] for row in ledger.db.all("SELECT count(*) FROM blobs")] == counted
    assert ledger.log(info.id).current_epoch() == make.epoch(0) and ledger.log(info.id).last_id() == 1
    ledger.db.one("PRAGMA max_page_count = 1000000")
    ledger.log(info.id).record_drop(drop)
    assert ledger.log(info.id).original(drop.id) == drop.text


def test_a_commit_that_fails_is_undone_and_the_next_one_works(
    ledger: Ledger, path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = make.new(ledger).main_lane

    def commit(connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(database, "commit", commit)
        with pytest.raises(NexusError, match="disk reported an error"):
            on(ledger, lane).append(make.user(1))
    assert on(ledger, lane).read(1, 9) == []
    on(ledger, lane).append(make.user(1))
    assert on(ledger, lane).last_id() == 1
