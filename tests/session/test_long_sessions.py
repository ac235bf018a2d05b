"""What a rewrite of the window reads from the ledger: what is new, and what the person said; not the whole again."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conversation.planned import Conversation
from ledger.conftest import fail_writes
from search import sample
from session.played import MODEL, Played
from session.summed import SUMMARY, Summariser, asks_for_summary, done, ended, living, noted, turn

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.compaction.work_log import READ_AT_ONCE
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Entry, Epoch, ItemForm, Kind, Manifest, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, Role, ToolCall, from_record
from nexus_cli.core.request import Request
from nexus_cli.core.services import FixedValues
from nexus_cli.ledger import LaneLog, SessionLog, entries, memory_copy
from nexus_cli.session.acts.compaction import compaction
from nexus_cli.session.factory import open_session
from nexus_cli.session.logger import LogConfig, SessionLogger
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

AT = "2026-01-13T14:30:00.000Z"
EPOCH = Epoch(0, None, "start", "m", "be brief", (), "{}", (), 0)

EARLY, LATE = 900, 1500
"""Entries of the sessions that are compared: in both more was said and done than there is room for."""
STEPS = 9
REWRITES = 3
MESSAGES = 60
"""More of them have no room beside a summary or in a marker."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every record of an entry that was read from a ledger."""
    found: list[Any] = []

    def noted(record: Any) -> Message:
        found.append(record)
        return from_record(record)

    monkeypatch.setattr(entries, "from_record", noted)
    return found


def lived(session: Session, length: int) -> None:
    """Give the session a past of so many entries: what the person says, and then many calls."""
    lane = session.context.conversation
    while lane.last < length:
        number = lane.last
        words = f"In part {number} the port is {8000 + number}. " + "It is as it was before. " * 8
        lane.append(Kind.USER, Message(Role.USER, words), "person")
        for _ in range(STEPS):
            call = ToolCall(f"c{lane.last + 1}a", "bash", {"command": "true"})
            lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, tool_calls=(call,)), "agent")
            lane.append(Kind.TOOL, Message(Role.TOOL, "done", tool_call_id=call.id), "tool:bash")
        lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, "It is done."), "agent")


def reads(folder: Path, length: int, summary: str, read: list[Any]) -> int:
    """Entries that the last of some rewrites reads in a session that had so many before."""

    def script(request: Request) -> str:
        return summary if asks_for_summary(request) else "so it goes on with many a word " * 200

    async def live() -> int:
        asked = Options(folder, MODEL, allow="all", save=False)
        settings = Settings(models={MODEL: {"window": 16_000}})
        session = open_session(asked, settings, approver=None, provider=Played(script))
        try:
            lived(session, length)
            seen, took = 0, 0
            while seen < REWRITES:
                epoch, before = session.context.conversation.epoch.id, len(read)
                await turn(session, "go on")
                if session.context.conversation.epoch.id != epoch:
                    seen, took = seen + 1, len(read) - before
            return took
        finally:
            await session.aclose()

    return asyncio.run(live())


@pytest.mark.matrix
@pytest.mark.parametrize("summary", sample([SUMMARY, ""], 2), ids=["compaction", "truncation"])
def test_a_rewrite_reads_no_more_late_in_a_session_than_early(tmp_path: Path, summary: str, read: list[Any]) -> None:
    early, late = (reads(tmp_path, length, summary, read) for length in (EARLY, LATE))
    assert late <= early + MESSAGES
    assert late < READ_AT_ONCE + 3 * MESSAGES, "one piece of what is behind the summary, and what the person said"


def log_of(folder: Path, count: int, sent: int) -> SessionLogger:
    """A lane of so many entries, every second one the person's; the first of them were sent."""
    log = SessionLogger(LogConfig(folder=folder, save=False))
    for number in range(1, count + 1):
        role, actor = (Role.USER, "person") if number % 2 else (Role.ASSISTANT, "agent")
        log.append(Entry(number, AT, actor, Kind(str(role)), Message(role, f"words {number}")))
    log.begin_epoch(EPOCH, ())
    send(log, 1, 1, sent)
    return log


def send(log: LaneLog, step: int, first: int, last: int) -> None:
    """One request, up to entry `last`."""
    fixed = [FixedValues(number, f"sent {step}", 9, b"l" * 32) for number in range(first, last + 1)]
    log.record_request(Manifest(step, 0, last, {"model": "m"}, "ab" * 32, 9, AT), fixed, ())


def test_a_conversation_reads_an_entry_once_and_none_of_its_own(tmp_path: Path, read: list[Any]) -> None:
    """Also as it was sent: with the preamble of its first request."""
    log = log_of(tmp_path, 4, sent=4)
    talk = Conversation.load(log, local_now, lambda message, preamble: 1, EPOCH, 4, [])
    talk.append(Kind.USER, Message(Role.USER, "words 5"), "person")
    assert [entry.id for entry in talk.read(3, 5)] == [3, 4, 5] and len(read) == 4
    talk.attach_preamble("sent 2")
    talk.freeze_request()
    assert [entry.preamble for entry in talk.read(1, 5)] == ["sent 1"] * 4 + ["sent 2"]
    assert len(read) == 4 and talk.read(4, 3) == []
    log.close()


def test_a_conversation_holds_no_entry_that_neither_its_window_shows_nor_its_run_has(
    tmp_path: Path, read: list[Any]
) -> None:
    """What a compaction or a search reads of the others is read again."""
    log = log_of(tmp_path, 6, sent=4)
    talk = Conversation.load(log, local_now, lambda message, preamble: 1, EPOCH, 4, [])
    assert talk.run == 5 and len(read) == 6
    first, second, third, *_ = talk.items
    talk.rewrite([replace(first, form=ItemForm.SUMMARY), second, replace(third, form=ItemForm.STUB)], "compaction", [])
    assert [talk.read(number, number)[0].id for number in (2, 5, 6)] == [2, 5, 6] and len(read) == 6
    assert [entry.id for entry in talk.read(1, 6)] == [1, 2, 3, 4, 5, 6] == [entry.id for entry in talk.read(1, 6)]
    assert len(read) == 6 + 4 + 4, "1 to 4, each time"
    talk.append(Kind.USER, Message(Role.USER, "words 7"), "person")
    talk.rewrite([WindowItem.of(talk.read(2, 2)[0])], "compaction", [])
    assert [entry.id for entry in talk.read(5, 7)] == [5, 6, 7] and len(read) == 16, "of the former run"
    log.close()


def test_a_deleted_session_is_not_read_from_memory(tmp_path: Path) -> None:
    log = log_of(tmp_path, 4, sent=4)
    assert len(log.read(1, 4)) == 4
    log.ledger.delete_session(log.session.id)
    with pytest.raises(NexusError):
        log.read(1, 4)
    log.close()


def test_what_the_person_said_is_read_alone_also_after_the_ledger_failed(tmp_path: Path, read: list[Any]) -> None:
    logger = log_of(tmp_path, 6, sent=6)
    log = SessionLog.for_session(logger.ledger, logger.session_id, require_save=False, warn=lambda text: None)
    assert list(log.user_messages(4)) == [(3, "words 3"), (1, "words 1")]
    fail_writes(logger.ledger)
    for number, actor in ((7, "person"), (8, "nexus"), (9, "person")):
        log.append(Entry(number, AT, actor, Kind.USER, Message(Role.USER, f"words {number}")))
    assert [entry for entry, _ in log.user_messages(9)] == [9, 7, 5, 3, 1]
    assert [entry for entry, _ in log.user_messages(8)] == [7, 5, 3, 1]
    assert next(log.user_messages(5)) == (5, "words 5")
    assert all(record["role"] == "user" for record in read)
    log.close()
    logger.close()


@pytest.mark.matrix
@pytest.mark.parametrize("is_resumed", sample([True, False], 2))
async def test_a_session_whose_ledger_has_lost_its_past_is_compacted(
    is_resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier summary is summarized again: the messages behind it cannot be read."""
    compacted = partial(compaction, "")

    def lose(*_: Any) -> None:
        raise NexusError("ledger", "it is damaged", "")

    async with living(tmp_path, Summariser(), *["go on"] * 6) as session:
        assert ended(await done(session, compacted())).ok
        name = session.id
        if is_resumed:
            await session.aclose()
        async with living(tmp_path, Summariser(), again=name) if is_resumed else nullcontext(session) as again:
            assert again.ledger is not None
            monkeypatch.setattr(memory_copy, "copy_session", lose)
            fail_writes(again.ledger)
            assert "is kept in memory only" in noted(await turn(again, "go on"))
            for _ in range(4):
                await turn(again, "go on")
            last = ended(await done(again, compacted()))
            assert last.ok and last.kept is not None and last.kept["source"] == "window", last.why
