"""A session goes on when its ledger does not: told once, in the words that fit, with numbers of its own from there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import fail_writes
from session.played import Answer, Played, opened, say, the_ledger

from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Event, Notice, TurnEnd
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Request
from nexus_cli.core.services import Calibration, FixedValues
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import LaneLog, Ledger, SessionLog, database

AT = "2026-01-13T14:30:00.000Z"
EPOCHS = [Epoch(number, None, "start", "m", "be brief", (), "{}", (), 0) for number in range(4)]


class Person:
    """A log over a ledger on disk that can be made to fail, and what was said about it."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        self._path = path
        self._ledgers: list[Ledger] = []
        self.session = ""

    def log(self, *, require_save: bool = False) -> SessionLog:
        ledger = Ledger.open(self._path)
        self._ledgers.append(ledger)
        values: Any = {"folder": "/p", "project": "/p", "model": "m", "recipe": "chat", "at": AT}
        self.session = self.session or ledger.create_session(**values).id
        return SessionLog.for_session(ledger, self.session, require_save=require_save, warn=self.said.append)

    def break_down(self) -> None:
        for ledger in self._ledgers:
            fail_writes(ledger)

    def saved(self) -> LaneLog:
        return self._ledgers[0].log(self.session)

    def delete(self) -> None:
        self._ledgers[0].delete_session(self.session)

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    made = Person(tmp_path / "data" / "ledger.db")
    yield made
    made.close()


def entry(number: int, role: Role = Role.USER) -> Entry:
    return Entry(number, AT, "person", Kind(str(role)), Message(role, f"words {number}"))


def dropped(log: SessionLog) -> str:
    drop = log.next_drop()
    log.record_drop(Drop(drop, "result", 9, Cause.OUTPUT_CAP, AT, text=f"text of {drop}"))
    return drop


def test_numbers_of_a_resumed_session_go_on_after_the_ledger_failed(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    assert [dropped(log), dropped(log)] == ["d1", "d2"]
    log.record_start("c1a", "bash")
    log = person.log()
    person.break_down()
    log.append(entry(2))
    assert (dropped(log), log.next_epoch(), log.last_id()) == ("d3", 1, 2)
    assert [log.original(drop) for drop in ("d1", "d2", "d3")] == ["text of d1", "text of d2", "text of d3"]
    assert [drop.id for drop in log.drops()] == ["d1", "d2", "d3"]
    assert log.was_started("c1a"), "else a call of an earlier process would run again"


def test_a_main_lane_does_not_use_the_numbers_of_its_side_lanes_again(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    side = log.open_lane("compact")
    side.begin_epoch(EPOCHS[side.next_epoch()], ())
    assert [side.next_drop(), dropped(log), side.next_drop()] == ["d1", "d2", "d3"]
    person.break_down()
    log.append(entry(2))
    assert (log.next_epoch(), log.next_drop()) == (2, "d4")
    side.append(entry(1))
    later = log.open_lane("compact", 2)
    later.begin_epoch(EPOCHS[later.next_epoch()], ())
    assert (side.next_epoch(), log.next_epoch(), later.last_id()) == (3, 3, 2)
    assert [later.next_drop(), side.next_drop(), log.next_drop()] == ["d5", "d6", "d7"]
    assert len(person.said) == 1


@pytest.mark.parametrize("at_entry", [None, 1])
def test_a_side_lane_that_cannot_be_opened_is_kept_in_memory(person: Person, at_entry: int | None) -> None:
    log, strict = person.log(), person.log(require_save=True)
    log.append(entry(1))
    person.break_down()
    side = log.open_lane("compact", at_entry)
    side.append(entry((at_entry or 0) + 1))
    assert side.last_id() == (at_entry or 0) + 1 and not log.is_saving
    log.append(entry(2))
    assert [one.id for one in log.read(1, 9)] == [1, 2] and person.saved().last_id() == 1
    (told,) = person.said
    assert (
        "the file cannot be written; the session is kept in memory only and will be lost on exit, unless the " in told
    )
    assert "/export FILE" in told
    with pytest.raises(NexusError, match="cannot be written"):
        strict.open_lane("compact", at_entry)


def test_everything_that_was_recorded_is_there_after_the_failure(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    log.record_request(Manifest(1, 0, 1, {"model": "m"}, "ab" * 32, 9, AT), [FixedValues(1, "now", 4, b"l" * 32)], [])
    log.note("/p/a", "aa", "read")
    log.calibrate("m", Calibration(1.5, 1))
    log.record_memo(Memo("trigger", AT, 2, {"source": "stdin"}))
    person.break_down()
    log.record_reply(entry(2, Role.ASSISTANT), 1, Usage(5, 1), "stop", True)
    assert [(one.id, one.preamble) for one in log.read(1, 9)] == [(1, "now"), (2, "")]
    (row,) = log.requests()
    assert row.finish == "stop" and log.current_epoch() == log.epoch(0) == EPOCHS[0]
    assert log.digest("/p/a") == "aa" and log.calibration("m").reports == 1
    assert [memo.entry for memo in log.memos("trigger")] == [2], "noted before its message"
    assert person.saved().last_id() == 1 and len(person.said) == 1


def test_what_another_process_wrote_meanwhile_is_not_taken_for_ones_own(person: Person) -> None:
    log, other = person.log(), person.log()
    log.append(entry(1))
    other.append(entry(2, Role.ASSISTANT))
    other.record_start("c2a", "bash")
    log.append(entry(2))
    log.record_start("c2a", "bash")
    assert [one.message.role for one in log.read(1, 9)] == [Role.USER, Role.USER] and not log.is_saving
    assert other.is_saving and [one.message.role for one in other.read(1, 9)] == [Role.USER, Role.ASSISTANT]
    (told,) = person.said
    assert "another process continued the session" in told


DELETED: list[Callable[[SessionLog], object]] = [
    lambda log: log.append(entry(2)),
    lambda log: log.open_lane("compact", 1),
    lambda log: log.record_reply(entry(2, Role.ASSISTANT), 1, Usage(), "stop", True),
]


@pytest.mark.parametrize("act", DELETED)
def test_a_session_that_was_deleted_elsewhere_says_so_and_goes_on(
    person: Person, act: Callable[[SessionLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, strict = person.log(), person.log(require_save=True)
    log.append(entry(1))
    monkeypatch.setattr(Ledger, "lock", lambda *_: True)  # as where files cannot be locked
    person.delete()
    act(log)
    log.append(entry(log.last_id() + 1))
    (told,) = person.said
    assert "another process has deleted it" in told and "in memory" in told and "cannot go on" not in told
    with pytest.raises(NexusError, match="another process has deleted it") as caught:
        act(strict)
    assert caught.value.kind == "ledger"


@pytest.mark.matrix
async def test_a_compaction_whose_lane_cannot_be_opened_is_made_in_memory(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return "Goal: as said. Next: go on" if "SUMMARY" in str(request.messages[-1]["content"]) else "answer " * 900

    played = Played(script, usage=Usage(400, 10, cost_usd=0.25))
    session = opened(played, tmp_path)

    shown: list[Event] = []
    for words in ("one", "two", "three"):
        shown += [event async for event in session.run(f"{words} " * 500)]
    assert session.ledger is not None
    assert session.costs()[:2] == (0.75, 0.75)
    fail_writes(session.ledger)
    shown += await session.compact()
    shown += [event async for event in session.run("four")]
    spent = 0.25 * len(played.seen)
    assert spent > 1 and session.costs()[:2] == (spent, spent), "what is kept in memory counts too"
    await session.aclose()
    events = shown
    assert [event.ok for event in events if isinstance(event, CompactionDone)] == [True]
    assert all(event.outcome.ok for event in events if isinstance(event, TurnEnd)) and not session.saved
    (notice,) = [event.text for event in events if isinstance(event, Notice) and "ledger" in event.text]
    assert "is kept in memory only" in notice


def test_a_reply_and_what_it_used_are_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = database.commit

    def commit(connection: sqlite3.Connection) -> None:
        real(connection)
        replies = connection.execute("SELECT count(*) FROM entries WHERE kind = 'assistant'").fetchone()
        assert replies == connection.execute("SELECT count(*) FROM requests WHERE finish <> ''").fetchone()

    monkeypatch.setattr(database, "commit", commit)
    session = opened(Played(lambda request: "answer"), tmp_path)
    assert say(session, "words")[1].ok
    with the_ledger() as ledger:
        info = ledger.session(session.id)
        (row,) = ledger.log(info.id).requests()
        assert row.usage == Usage(200, 10, cost_usd=0.25) and row.finish == "stop" and row.reported
        assert ledger.log(info.id).read(2, 2)[0].message.content == "answer" and info.cost_usd == 0.25
