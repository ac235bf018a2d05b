"""A session goes on when its ledger does not: told once, in the words that fit, with numbers of its own from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from session.played import Answer, Played, opened, say, the_ledger

from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Event, Notice, TurnEnd
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Request
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.session.logger import LogConfig, SessionLogger
from nexus_cli.session.steady import SteadyLog

AT = "2026-01-13T14:30:00.000Z"
EPOCHS = [Epoch(number, None, "start", "m", "be brief", (), "{}", (), 0) for number in range(4)]


class Person:
    """A log over a ledger on disk that can be made to fail, and what was said about it."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self._path, self._patch = path, patch
        self._session: str | None = None

    def log(self, *, require_save: bool = False) -> SteadyLog:
        logger = SessionLogger(LogConfig(self._path, folder=self._path.parent), session=self._session)
        self._session = logger.session.id
        return SteadyLog(logger, require_save=require_save, warn=self.said.append)

    def break_down(self, *methods: str) -> None:
        def full(*arguments: object, **named: object) -> None:
            raise NexusError("ledger", "the ledger could not be written", "the disk is full")

        for method in methods:
            self._patch.setattr(Ledger, method, full)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(tmp_path / "data" / "ledger.db", monkeypatch)


def entry(number: int, role: Role = Role.USER) -> Entry:
    return Entry(number, AT, "person", Kind(str(role)), Message(role, f"words {number}"))


def dropped(log: SteadyLog) -> str:
    drop = log.next_drop()
    log.drop(Drop(drop, "result", 9, Cause.OUTPUT_CAP, AT, text=f"text of {drop}"))
    return drop


def test_numbers_of_a_resumed_session_go_on_after_the_ledger_failed(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    assert [dropped(log), dropped(log)] == ["d1", "d2"]
    log.started("c1a", "bash")
    log.logger.close()
    log = person.log()
    person.break_down("append")
    log.append(entry(2))
    assert (dropped(log), log.next_epoch(), log.last_id()) == ("d3", 1, 2)
    assert [log.recall(drop) for drop in ("d1", "d2", "d3")] == ["text of d1", "text of d2", "text of d3"]
    assert [drop.id for drop in log.drops()] == ["d1", "d2", "d3"]
    assert log.was_started("c1a"), "else a call of an earlier process would run again"


def test_a_main_lane_does_not_use_the_numbers_of_its_side_lanes_again(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    side = log.side("compact", None)
    side.begin_epoch(EPOCHS[side.next_epoch()], ())
    assert [side.next_drop(), dropped(log), side.next_drop()] == ["d1", "d2", "d3"]
    person.break_down("append")
    log.append(entry(2))
    assert (log.next_epoch(), log.next_drop()) == (2, "d4")
    side.append(entry(1))
    later = log.side("compact", 2)
    later.begin_epoch(EPOCHS[later.next_epoch()], ())
    assert (side.next_epoch(), log.next_epoch(), later.last_id()) == (3, 3, 2)
    assert [later.next_drop(), side.next_drop(), log.next_drop()] == ["d5", "d6", "d7"]
    assert len(person.said) == 1


@pytest.mark.parametrize("at_entry", [None, 1])
def test_a_side_lane_that_cannot_be_opened_is_kept_in_memory(person: Person, at_entry: int | None) -> None:
    log = person.log()
    log.append(entry(1))
    person.break_down("open_lane")
    side = log.side("compact", at_entry)
    side.append(entry((at_entry or 0) + 1))
    assert side.last_id() == (at_entry or 0) + 1 and not log.saving
    log.append(entry(2))
    assert [one.id for one in log.read(1, 9)] == [1, 2] and log.logger.last_id() == 1
    (told,) = person.said
    assert "the disk is full; the session goes on in memory and is lost when it ends" in told
    with pytest.raises(NexusError, match="disk is full"):
        person.log(require_save=True).side("compact", at_entry)


DELETED: list[Callable[[SteadyLog], object]] = [
    lambda log: log.append(entry(2)),
    lambda log: log.next_drop(),
    lambda log: log.side("compact", 1),
    lambda log: log.replied(entry(2, Role.ASSISTANT), 1, Usage(), "stop", True),
]


@pytest.mark.parametrize("act", DELETED)
def test_a_session_that_was_deleted_elsewhere_says_so_and_goes_on(
    person: Person, act: Callable[[SteadyLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, strict = person.log(), person.log(require_save=True)
    log.append(entry(1))
    monkeypatch.setattr(Ledger, "hold", lambda *_: True)  # as where files cannot be locked
    strict.logger.ledger.delete_session(log.logger.session.id)
    act(log)
    log.append(entry(log.last_id() + 1))
    (told,) = person.said
    assert "deleted by another process" in told and "in memory" in told and "cannot go on" not in told
    with pytest.raises(NexusError, match="deleted by another process") as caught:
        act(strict)
    assert caught.value.kind == "ledger"


def test_a_compaction_whose_lane_cannot_be_opened_is_made_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Request) -> Answer:
        return "Goal: as said. Next: go on" if "SUMMARY" in str(request.messages[-1]["content"]) else "answer " * 900

    def full(*arguments: object, **named: object) -> None:
        raise NexusError("ledger", "the ledger could not be written", "the disk is full")

    session = opened(Played(script), tmp_path)

    async def live() -> list[Event]:
        shown: list[Event] = []
        for words in ("one", "two", "three"):
            shown += [event async for event in session.run(f"{words} " * 500)]
        monkeypatch.setattr(Ledger, "open_lane", full)
        shown += await session.compact()
        shown += [event async for event in session.run("four")]
        await session.aclose()
        return shown

    events = asyncio.run(live())
    assert [event.ok for event in events if isinstance(event, CompactionDone)] == [True]
    assert all(event.outcome.ok for event in events if isinstance(event, TurnEnd)) and not session.saved
    (notice,) = [event.text for event in events if isinstance(event, Notice) and "disk" in event.text]
    assert "goes on in memory" in notice


def test_a_reply_and_what_it_used_are_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(*arguments: object) -> None:
        raise AssertionError("committed by itself")

    monkeypatch.setattr(Ledger, "received", apart)
    session = opened(Played(lambda request: "answer"), tmp_path)
    assert say(session, "words")[1].ok
    with the_ledger() as ledger:
        info = ledger.session(session.id)
        (row,) = ledger.manifests(info.main_lane)
        assert row.usage == Usage(100, 10, cost_usd=0.25) and row.finish == "stop" and row.reported
        assert ledger.read(info.main_lane, 2, 2)[0].message.content == "answer" and info.cost_usd == 0.25
