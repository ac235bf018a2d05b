"""What happened in a session, told by every report that replays it: in the same words, in its order, nothing empty."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus_cli.config.settings import Settings
from nexus_cli.core import event as e
from nexus_cli.core.entry import Entry, Epoch, Kind, Memo
from nexus_cli.core.event_json import event_value
from nexus_cli.core.memo_kinds import CUT_ANSWER, EVENT
from nexus_cli.core.message import Message, Role
from nexus_cli.core.typed_text import CONTINUE_MESSAGE, NOT_DONE
from nexus_cli.core.wire import WireRules
from nexus_cli.ledger import Ledger
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.event_texts import describe_event
from nexus_cli.reports.export import session_pieces
from nexus_cli.reports.page.session_page import session_page
from nexus_cli.reports.timeline import session_timeline

UNTIL = f"{NOT_DONE}`make test` exits 2. Work on until it exits 0."
HOOK = "[hook lint.sh: not finished]"
FAILED = e.Outcome(ok=False, error={"kind": "network", "message": "the connection was lost", "hint": "Try again"})


def at(second: int) -> str:
    return f"2026-01-13T14:30:{second:02}.000Z"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path / "ledger.db")
    yield made
    made.close()


@pytest.fixture
def session(ledger: Ledger) -> str:
    """A session in which a reply was cut, two messages of nexus came, and the turn failed after a retry."""
    made = ledger.create_session(folder="/f", project="/f", model="openai/m", recipe="ask", at=at(0))
    log = ledger.log(made.id)
    log.begin_epoch(Epoch(0, None, "start", "openai/m", "Hi.", (), WireRules().dumps(), (), 0, system_tokens=9), ())
    log.append(Entry(1, at(1), "person", Kind.USER, Message(Role.USER, "go"), tokens=1))
    log.record_memo(Memo(CUT_ANSWER, at(2), 1, {"text": "half of it", "why": "the stream ended"}))
    log.append(Entry(2, at(3), "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "all of it"), tokens=1))
    for number, words in enumerate((UNTIL, HOOK, CONTINUE_MESSAGE), 3):
        log.append(Entry(number, at(3 + number), "nexus", Kind.STEER, Message(Role.USER, words), tokens=1))
    for second, event in ((10, e.Notice("the disk is slow")), (11, e.Retry(1, 2.0, "busy")), (12, e.TurnEnd(FAILED))):
        kind, value = event_value(event)
        log.record_memo(Memo(EVENT, at(second), 5, {"type": kind, **value}))
    return made.id


def test_a_replay_has_retries_and_of_our_own_messages_what_the_screen_showed(ledger: Ledger, session: str) -> None:
    events = [past.event for past in Replay(ledger.log(session)).events()]
    assert [text for event in events if (text := describe_event(event))] == [
        "cut off: the stream ended; retrying",
        "`make test` exits 2",
        "continued",
        "the disk is slow",
        "retry 1 in 2 s: busy",
        "the connection was lost. Try again.",
    ]


def test_markdown_and_the_page_tell_what_the_screen_told(ledger: Ledger, session: str) -> None:
    info = ledger.session(session)
    markdown = "".join(session_pieces(ledger.log(session), info, "md"))
    page = re.sub(r"<[^>]+>", "", "".join(session_page(ledger, info, Settings())))
    for text in (markdown, page):
        places = [text.index(words) for words in ("half of it", "cut off: ", "all of it", UNTIL, HOOK, "disk is slow")]
        places += [text.index(words) for words in ("retry 1 in 2 s: busy", "the connection was lost. Try again.")]
        assert places == sorted(places) and text.count("the connection was lost") == 1


def test_the_timeline_has_a_row_for_a_turn_that_failed(ledger: Ledger, session: str) -> None:
    rows = session_timeline(ledger, session)["rows"]
    assert [(row["text"], row["at"]) for row in rows if row["kind"] == "ended"] == [
        ("the connection was lost. Try again.", at(12))
    ]
