"""A ledger file that cannot be written for a while: what was committed in memory is in the file afterwards, once, as if
it had never failed."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import combinations, count, pairwise
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import AT, calling, drop, epoch, fixed, in_child, new, result, user
from search import sample

from nexus_cli.core.entry import Epoch, Manifest, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Calibration
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import LaneLog, Ledger, SessionLog, file_journal, memory_copy
from nexus_cli.ledger.lane_log import SEEN_FILES_QUERY

NOTE = Memo("pin", AT, 1, {"text": "the same words"})
BEFORE = "before the failure"


class Disk:
    """A connection to a file on a disk that may be full: then a statement that begins with `at` fails."""

    def __init__(self, real: sqlite3.Connection, at: str = "COMMIT") -> None:
        self._real, self._at = real, at
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if self.is_full and sql.startswith(self._at):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._real.execute(sql, *values)


class Live:
    """A session in a ledger on such a disk, with a clock that counts; it returns to the file at the next commit."""

    def __init__(self, path: Path, at: str = "COMMIT", session: str = "") -> None:
        self.ledger = Ledger.open(path)
        disk: Any = Disk(self.ledger.db.connection, at)
        self.disk = self.ledger.db.connection = disk
        info: Any = self.ledger.session(session) if session else new(self.ledger)
        self.session, self.said = info.id, list[str]()
        self.log = SessionLog.for_session(self.ledger, info.id, require_save=False, warn=self.said.append)
        clock: Any = (f"2026-01-13T14:30:{number:02}+00:00" for number in count())
        self.log._now = lambda: next(clock)  # type: ignore[method-assign]
        self.lanes: list[LaneLog] = [self.log]

    def fill(self, is_full: bool) -> None:
        self.disk.is_full = is_full
        self.log._journal._retry_at = 0.0  # type: ignore[attr-defined]

    def close(self) -> None:
        self.log.close()
        self.ledger.close()


def open_side(live: Live) -> None:
    live.lanes.append(live.log.open_lane("compact", 1))


def open_inner(live: Live) -> None:
    live.lanes.append(live.lanes[1].open_lane("reflect", 2))


def send(live: Live, lane: int, step: int, last: int, number: int) -> None:
    manifest = Manifest(step, number, last, {"model": "m"}, "ab" * 32, 9, AT)
    live.lanes[lane].record_request(manifest, [fixed(last)], [])


def record_drop(live: Live) -> None:
    live.log.record_drop(drop(live.log.next_drop(), "a long text"))


ACTS: list[Callable[[Live], object]] = [
    lambda live: live.log.append(user(1), [NOTE, NOTE]),
    lambda live: live.log.begin_epoch(epoch(0), ()),
    lambda live: send(live, 0, 1, 1, 0),
    lambda live: live.log.calibrate("m", Calibration(1.5, 1)),
    lambda live: live.log.record_reply(calling(2), 1, Usage(5, 1, cost_usd=0.5), "tool_calls", True, "sent"),
    lambda live: live.log.record_start("c1", "bash", [NOTE]),
    lambda live: live.log.note("/p/a", "aa", "read"),
    lambda live: live.log.append(result(3)),
    lambda live: live.log.record_memo(NOTE),
    open_side,
    lambda live: live.lanes[1].append(user(2)),
    open_inner,
    lambda live: live.lanes[2].append(user(3, BEFORE)),
    lambda live: live.lanes[1].begin_epoch(replace(epoch(1), parent=0), [drop("d7", "left out")], [NOTE]),
    lambda live: send(live, 1, 1, 2, 1),
    record_drop,
    lambda live: live.log.calibrate("m", Calibration(1.7, 2)),
    lambda live: live.lanes[1].record_reply(None, 1, Usage(7, 1, cost_usd=0.25), "stop", True),
    lambda live: live.log.count_recall("d7"),
    lambda live: live.log.begin_epoch(replace(epoch(2), parent=1 - 1), ()),
    lambda live: live.log.append(user(4, "more"), [Memo("shown_text", AT, 4, {"text": "more, shown"})]),
    lambda live: live.log.note("/p/a", "bb", "created", AT),
]


def play(live: Live, first: int, last: int) -> dict[str, list[Any]]:
    """Do all of `ACTS`, with a full disk from `first` up to `last`; return what the file has afterwards."""
    for number, act in enumerate(ACTS):
        live.fill(first <= number < last)
        act(live)
    live.fill(False)
    live.close()
    return dump(live)


def dump(live: Live) -> dict[str, list[Any]]:
    """Return every row of the ledger of a session: its lanes by their place, without the id of the session."""
    with closing(Ledger.open(live.ledger.path)) as ledger:
        places = {lane: place for place, (lane,) in enumerate(ledger.db.all("SELECT id FROM lanes ORDER BY id"))}
        rows = {}
        for (table,) in ledger.db.all("SELECT name FROM sqlite_master WHERE type = 'table'"):
            names = [row[1] for row in ledger.db.all(f"PRAGMA table_info({table})")]
            is_lane = [name == "lane" or (table, name) in LANES for name in names]
            found = [[*zip(is_lane, row, strict=True)] for row in ledger.db.all(f"SELECT * FROM {table}")]
            rows[table] = [tuple(places.get(value) if lane else value for lane, value in row) for row in found]
        del rows["sqlite_sequence"], rows["counts"]
        rows["sessions"] = [row[2:] for row in rows["sessions"]]
        return rows


LANES = {("lanes", "id"), ("lanes", "parent"), ("sessions", "main")}
WINDOWS = list(combinations(range(len(ACTS) + 1), 2))


@pytest.mark.matrix
@pytest.mark.parametrize(("at", "windows"), sample([("COMMIT", WINDOWS[::15]), ("BEGIN IMMEDIATE", WINDOWS[7::15])], 2))
def test_the_file_is_that_of_a_session_that_never_failed(
    tmp_path: Path, at: str, windows: list[tuple[int, int]]
) -> None:
    whole = play(Live(tmp_path / "whole.db"), 0, 0)
    assert len(whole["memos"]) == 6 and whole["drops"] and whole["calibrations"][0][2] == 2
    for first, last in windows:
        live = Live(tmp_path / f"{first}-{last}.db", at)
        assert play(live, first, last) == whole, (first, last)
        assert live.log.is_saving
        told = [("memory only" in line, "entire session is saved" in line) for line in live.said]
        assert told in ([(True, False), (False, True)], []), "nothing is told if nothing was committed meanwhile"


def test_a_session_reads_all_that_it_recorded_before_meanwhile_and_after(tmp_path: Path) -> None:
    live = Live(tmp_path / "ledger.db")
    for number, act in enumerate(ACTS):
        live.fill(4 <= number < 14)
        act(live)
        read = [one.message.content for one in live.log.read(1, 99)]
        assert len(read) == live.log.last_id()
    assert [log.last_id() for log in live.lanes] == [4, 2, 3] and len(live.said) == 2
    assert [one.message.content for one in live.lanes[2].read(3, 3)] == [BEFORE]
    assert [log.agent for log in live.lanes] == ["main", "compact", "reflect"]
    assert live.log.memos("pin") == [NOTE] * 4 and live.log.next_drop() == "d2"
    assert [row[3] for row in live.ledger.db.all(SEEN_FILES_QUERY, live.log.lane, 9)] == [AT]
    live.close()


def test_two_sessions_that_opened_lanes_in_memory_both_return_and_fail_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    lives = [Live(path), Live(path)]
    for round_ in (1, 2):
        for live in lives:
            live.fill(True)
            live.log.append(user(round_))
            live.lanes.append(live.log.open_lane("compact", round_))
            live.lanes[-1].append(user(round_ + 1, f"side {round_}"))
        for live in lives:
            live.fill(False)
            live.log.note("/p/a", "aa", "read")
            assert live.log.is_saving
            live.lanes.append(live.log.open_lane("late"))
    for live in lives:
        live.close()
    with closing(Ledger.open(path)) as ledger:
        for live in lives:
            found = [(log.agent, log.last_id()) for log in ledger.logs(live.session)]
            assert found == [("main", 2), ("compact", 2), ("late", 0), ("compact", 3), ("late", 0)]


def test_the_file_is_tried_again_at_most_every_few_seconds_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_journal, "RETRY_SECONDS", 1000.0)
    live = Live(tmp_path / "ledger.db")
    live.fill(True)
    live.log.append(user(1))
    tried, real = list[float](), live.ledger.db.write

    def write() -> Any:
        tried.append(time.monotonic())
        return real()

    monkeypatch.setattr(live.ledger.db, "write", write)
    for number in range(2, 50):
        live.log.append(user(number))
    assert tried == []
    monkeypatch.setattr(file_journal, "RETRY_SECONDS", 0.2)
    live.log._journal._retry_at = 0.0  # type: ignore[attr-defined]
    number = 49
    while len(tried) < 3:
        number += 1
        live.log.append(user(number))
        time.sleep(0.01)
    assert all(late - early >= 0.2 for early, late in pairwise(tried)), tried
    live.disk.is_full = False
    live.log.close()
    assert live.log.is_saving and live.ledger.log(live.session).last_id() == number
    live.close()


@pytest.mark.matrix
def test_two_thousand_entries_return_in_linear_time(tmp_path: Path) -> None:
    def measure(entries: int) -> float:
        live = Live(tmp_path / f"{entries}.db")
        live.fill(True)
        live.log.begin_epoch(epoch(0), ())
        live.log._journal._retry_at = sys.float_info.max  # type: ignore[attr-defined]
        for number in range(1, entries + 1):
            live.log.append(user(number), [NOTE])
            send(live, 0, number, number, 0)
        live.disk.is_full = False
        began = time.process_time()
        live.log.close()
        took = time.process_time() - began
        assert live.ledger.log(live.session).last_id() == entries
        live.close()
        return took

    short, long = measure(500), measure(2000)
    assert long < 8 * short, (short, long)


def test_what_another_process_recorded_is_never_overwritten(tmp_path: Path) -> None:
    live = Live(tmp_path / "ledger.db")
    live.log.append(user(1))
    live.fill(True)
    live.log.append(user(2, "mine"))
    live.log.record_memo(NOTE)
    live.log.begin_epoch(epoch(0), ())
    other = Live(tmp_path / "ledger.db", session=live.session)
    other.log.append(user(2, "theirs"))
    other.log.begin_epoch(Epoch(0, None, "start", "theirs", "", (), "{}", (), 0), ())
    live.fill(False)
    live.log.append(user(3, "mine too"))
    live.log.close()
    saved = other.ledger.log(live.session)
    assert [one.message.content for one in saved.read(1, 9)] == ["words 1", "theirs"]
    assert saved.epoch(0).model == "theirs" and saved.memos() == [] and not live.log.is_saving
    assert len(live.said) == 1
    other.close()
    live.close()


def test_a_session_that_was_deleted_meanwhile_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Live(tmp_path / "ledger.db")
    live.log.append(user(1))
    live.fill(True)
    live.log.append(user(2))
    monkeypatch.setattr(Ledger, "lock", lambda *_: True)  # as where files cannot be locked
    with closing(Ledger.open(tmp_path / "ledger.db")) as other:
        other.delete_session(live.session)
    live.fill(False)
    live.log.append(user(3))
    live.log.close()
    assert not live.log.is_saving and live.ledger.sessions() == []
    live.close()


@pytest.mark.parametrize("is_room", [False, True])
def test_a_kill_leaves_the_file_as_it_was_or_whole(tmp_path: Path, is_room: bool) -> None:
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path)) as ledger:
        info: Any = new(ledger)

    def work(say: Callable[[str], None]) -> None:
        live = Live(path, session=info.id)
        live.log.append(user(1))
        live.fill(True)
        live.log.append(user(2))
        side = live.log.open_lane("compact", 1)
        side.append(user(2))
        live.fill(not is_room)
        live.log.append(user(3))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == (-signal.SIGKILL, [])
    again = Live(path, session=info.id)
    assert again.ledger.db.find_damage() == "" and again.log.last_id() == (3 if is_room else 1)
    assert len(again.ledger.logs(info.id)) == (2 if is_room else 1)
    again.log.append(user(again.log.last_id() + 1))
    assert again.said == []
    again.close()


def test_a_file_that_lost_its_past_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: Any) -> None:
        raise NexusError("ledger", "a text", "is damaged")

    live = Live(tmp_path / "ledger.db")
    live.log.append(user(1))
    monkeypatch.setattr(memory_copy, "copy_session", lose)
    live.fill(True)
    live.log.append(user(2))
    live.fill(False)
    live.log.append(user(3))
    live.log.close()
    assert not live.log.is_saving and live.ledger.log(live.session).last_id() == 1
    live.close()


def test_no_attempt_waits_for_a_file_that_another_process_writes(tmp_path: Path) -> None:
    live = Live(tmp_path / "ledger.db")
    live.fill(True)
    live.log.append(user(1))
    live.fill(False)
    with closing(sqlite3.connect(str(live.ledger.path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        real, live.ledger.db.write = live.ledger.db.write, None  # type: ignore[assignment, method-assign]
        live.log.append(user(2))
        live.ledger.db.write = real  # type: ignore[method-assign]
        assert not live.log.is_saving and live.log._journal._file is not None  # type: ignore[attr-defined]
        other.execute("ROLLBACK")
    live.log.append(user(3))
    assert live.log.is_saving
    live.close()


def test_what_was_put_off_is_kept_where_another_lane_is_read_in_memory(tmp_path: Path) -> None:
    live = Live(tmp_path / "ledger.db")
    live.log.append(user(1))
    open_side(live)
    live.fill(True)
    live.log.append(user(2))
    live.log._journal._retry_at = sys.float_info.max  # type: ignore[attr-defined]
    live.log.calibrate("m", Calibration(1.5, 1))
    live.lanes[1].read(1, 1)
    live.fill(False)
    live.close()
    assert len(dump(live)["calibrations"]) == 1


def test_any_number_of_statements_that_were_put_off_in_memory_is_kept(tmp_path: Path) -> None:
    live = Live(tmp_path / "ledger.db")
    live.fill(True)
    live.log.append(user(1))
    for number in range(300):
        live.log.calibrate(f"m{number}", Calibration(1.5, 1))
    live.fill(False)
    live.log.append(user(2))
    live.close()
    assert len(dump(live)["calibrations"]) == 300
