"""The notes of a session in memory: the kinds that were asked for, and later ones once somebody has noted some."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import AT, new, on

from nexus_cli.core.entry import Memo
from nexus_cli.ledger import Ledger, SessionLog, lanes
from nexus_cli.ledger.known_notes import KnownNotes


def note(kind: str, number: int) -> Memo:
    return Memo(kind, AT, 1, {"number": number})


def test_a_resumed_session_holds_the_later_notes_of_the_kinds_that_were_asked_for() -> None:
    ledger = Ledger.open(None)
    info: Any = new(ledger)
    log, lane = ledger.log(info.id), on(ledger, info.main_lane).lane
    known = KnownNotes(lane, is_new=False)
    pin, later = note("pin", 1), {2: note("work", 2), 3: note("pin", 3)}
    log.record_memo(pin)
    assert known.begin_later(ledger.db)() == {}, "nothing was asked for"
    assert known.of_kind(ledger.db, "pin") == [pin]
    log.record_memo(note("work", 0))
    assert known.begin_later(ledger.db)() == {}, "a kind that was not asked for may be long"
    assert [*KnownNotes(lane, is_new=True).begin_later(ledger.db)().values()] == [pin, note("work", 0)]
    known.add(later)
    assert known.of_kind(ledger.db, "pin") == [pin, later[3]]
    assert known.of_kind(ledger.db, "work") == [note("work", 0)], "they are read when they are asked for"
    fresh = KnownNotes(lane, is_new=True)
    fresh.add(later)
    assert fresh.of_kind(ledger.db, "work") == [later[2]], "nobody else has made any"
    ledger.close()


def test_a_kind_that_is_read_later_does_not_hide_what_was_noted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)
    other, real = Ledger.open(tmp_path / "ledger.db"), lanes.notes
    assert log.memos("pin") == []

    def held_up(*values: Any, **more: Any) -> Any:
        other.log(info.id).record_memo(note("pin", 1))
        other.log(info.id).record_memo(note("work", 2))
        return real(*values, **more)

    with monkeypatch.context() as patch:
        patch.setattr(lanes, "notes", held_up)
        assert log.memos("work") == [note("work", 2)]
    assert log.memos("pin") == [note("pin", 1)]
    other.close()
    log.close()
    ledger.close()


def test_what_others_note_while_a_session_is_opened_is_found_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)
    other, elsewhere = Ledger.open(tmp_path / "ledger.db"), new(ledger)
    with ledger.opening(info):
        for number, session in enumerate((info, elsewhere, info)):
            assert len(log.memos("pin")) == (number > 0)
            other.log(session.id).record_memo(note("pin", number))
        assert log.memos("pin") == [note("pin", 0), note("pin", 2)]
    assert log.memos("pin") == [note("pin", 0), note("pin", 2)]
    other.close()
    log.close()
    ledger.close()


def test_the_notes_in_a_file_are_read_again_only_after_somebody_else_has_noted_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
    asked, real = list[str](), ledger.db._ask

    def counted(sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if "memos m" in sql:
            asked.append(sql)
        return real(sql, values)

    monkeypatch.setattr(ledger.db, "_ask", counted)
    log.record_memo(note("pin", 1))
    for kind in ("pin", "limits", "plan", "pin"):
        assert [memo.value["number"] for memo in log.memos(kind)] == [1] * (kind == "pin")
    assert len(asked) == 1, "the kinds of an opening are read together"
    ledger.rename_session(info.id, "no note")
    assert len(log.memos("pin")) == len(asked) == 1
    log.record_memo(note("pin", 2))
    assert len(log.memos("pin")) == len(log.memos("pin")) == 2
    assert len(asked) == 1, "what was committed here is not read back"
    with closing(Ledger.open(tmp_path / "ledger.db")) as other:
        other.log(info.id).record_memo(note("pin", 3))
    assert len(log.memos("pin")) == len(log.memos("pin")) == 3
    assert len(asked) == 2
    log.close()
    ledger.close()


def test_notes_of_two_processes_are_in_the_order_of_their_commits(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)
    assert log.memos("pin") == []
    with closing(Ledger.open(tmp_path / "ledger.db")) as other:
        other.log(info.id).record_memo(note("pin", 1))
        log.record_memo(note("pin", 2))
        other.log(info.id).record_memo(note("pin", 3))
        log.record_memo(Memo("pin", AT, 1, {"number": 4, "words": ("a", "b")}))
    assert [memo.value["number"] for memo in log.memos("pin")] == [1, 2, 3, 4]
    assert log.memos("pin")[-1].value["words"] == ["a", "b"], "as another process reads it"
    with pytest.raises(ZeroDivisionError), ledger.db.write():
        lanes.record_note(ledger.db, log.lane, note("pin", 5))
        raise ZeroDivisionError
    log.record_memo(note("pin", 6))
    assert [memo.value["number"] for memo in log.memos("pin")] == [1, 2, 3, 4, 6], "what was rolled back is no note"
    log.close()
    ledger.close()
