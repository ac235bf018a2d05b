"""The notes of a session on a server: only the kinds that were asked for are held in memory."""

from __future__ import annotations

from typing import Any

from ledger.conftest import AT, new, on

from nexus_cli.core.entry import Memo
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.known_notes import KnownNotes


def note(kind: str, number: int) -> Memo:
    return Memo(kind, AT, 1, {"number": number})


def test_a_resumed_session_holds_the_later_notes_of_the_kinds_that_were_asked_for() -> None:
    ledger = Ledger.open(None)
    info: Any = new(ledger)
    lane = on(ledger, info.main_lane).lane
    known = KnownNotes(ledger.db, lane, is_new=False)
    pins, later = {1: note("pin", 1)}, {2: note("work", 2), 3: note("pin", 3)}
    assert [*known.of_kind("pin", lambda: dict(pins))] == [pins[1]]
    known.add(later)
    assert [*known.of_kind("pin", dict)] == [pins[1], later[3]]
    assert [*known.of_kind("work", dict)] == [], "they are read when they are asked for"
    fresh = KnownNotes(ledger.db, lane, is_new=True)
    fresh.add(later)
    assert [*fresh.of_kind("work", dict)] == [later[2]], "nobody else has made any"
    ledger.close()
