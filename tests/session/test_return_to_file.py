"""A session whose ledger failed for a moment: what was kept in memory is saved as soon as the ledger can be written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ledger.conftest import fail_writes
from session.played import Played, opened, the_ledger
from session.test_failover import EPOCHS, Person, dropped, entry
from session.test_failover import person as person

from nexus_cli.core.entry import Manifest, Memo
from nexus_cli.core.event import Notice
from nexus_cli.core.message import Role
from nexus_cli.core.services import FixedValues
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger, SessionLog

AT = "2026-01-13T14:30:00.000Z"


def repair(ledger: Ledger) -> None:
    """Let a ledger that `fail_writes` broke be written again."""
    ledger.db.connection.execute("PRAGMA query_only = OFF")


def test_the_next_turn_saves_what_was_recorded_while_the_ledger_failed(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "answer"), tmp_path)
    told: list[str] = []

    async def turn(words: str) -> None:
        told.extend([event.text async for event in session.run(words) if isinstance(event, Notice)])

    async def live() -> None:
        await turn("one")
        fail_writes(session.ledger)
        await turn("two")
        assert not session.saved
        repair(session.ledger)
        await turn("three")
        assert session.saved
        fail_writes(session.ledger)
        await turn("four")
        repair(session.ledger)
        await session.aclose()
        assert session.saved

    asyncio.run(live())
    assert [("memory only" in line, "whole session is saved" in line) for line in told if "ledger" in line] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    with the_ledger() as ledger:
        log = ledger.log(session.id)
        texts = [one.message.content for one in log.read(1, 99)]
        assert texts == ["one", "answer", "two", "answer", "three", "answer", "four", "answer"]
        assert [row.finish for row in log.requests()] == ["stop"] * 4


def test_every_kind_of_record_and_the_lanes_that_were_opened_meanwhile_are_saved(person: Person) -> None:
    log = person.log()
    log.append(entry(1))
    log.begin_epoch(EPOCHS[0], ())
    person.break_down()
    log.append(entry(2))
    side, empty = log.open_lane("compact", 2), log.open_lane("reflect")
    side.append(entry(3))
    inner = side.open_lane("inner", 3)
    inner.append(entry(4))
    side.begin_epoch(EPOCHS[1], ())
    side.record_request(Manifest(1, 1, 3, {"model": "m"}, "ab" * 32, 9, AT), [FixedValues(3, "now", 4, b"l" * 32)], [])
    side.record_reply(None, 1, Usage(5, 1), "stop", True)
    log.note("/p/a", "aa", "read")
    log.record_memo(Memo("trigger", AT, 2, {"source": "stdin"}))
    log.record_start("c2a", "bash")
    assert dropped(log) == "d1" and not log.is_saving
    log.defer(True)
    assert not log.is_saving, "the ledger still fails"
    for ledger in person._ledgers:
        repair(ledger)
    log.defer(False)
    assert log.is_saving and len(person.said) == 2
    empty.append(entry(1))
    inner.append(entry(5))
    log.append(entry(3))
    assert [one.id for one in inner.read(1, 9)] == [1, 2, 3, 4, 5]
    saved = person.saved()
    assert (saved.last_id(), saved.digest("/p/a"), saved.was_started("c2a")) == (3, "aa", True)
    assert saved.original("d1") == "text of d1" and [memo.entry for memo in saved.memos("trigger")] == [2]
    assert [one.agent for one in (side, inner, empty)] == ["compact", "inner", "reflect"]
    found = [SessionLog._log_of(log, one.lane) for one in (side, inner, empty)]
    assert [one.last_id() for one in found] == [3, 5, 1] and [row.finish for row in found[0].requests()] == ["stop"]
    again = person.log()
    assert (again.next_drop(), again.next_epoch()) == ("d2", 2)
    person.break_down()
    log.append(entry(4))
    assert log.open_lane("late").lane not in {side.lane, inner.lane, empty.lane} and len(person.said) == 3


@pytest.mark.parametrize("deletes", [True, False])
def test_a_session_that_was_deleted_or_continued_elsewhere_stays_in_memory(
    person: Person, deletes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = person.log(), person.log()
    log.append(entry(1))
    monkeypatch.setattr(Ledger, "lock", lambda *_: True)  # as where files cannot be locked
    if deletes:
        person.delete()
    else:
        other.append(entry(2, Role.ASSISTANT))
        other.append(entry(3))
    log.append(entry(2))
    log.append(entry(3))
    log.defer(True)
    log.defer(False)
    log.close()
    assert not log.is_saving and len(person.said) == 1
