"""The last exchange: what a person who comes back is told, also after a turn that ended badly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from session.played import Played, opened, say, the_ledger

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import SessionAct, TurnStart
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Message, Role
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.last_exchange import last_exchange
from nexus_cli.session.session import Session


def shown(session: str, folder: Path) -> JsonObject:
    resumed = opened(Played(lambda request: "x"), folder, session)
    try:
        return last_exchange(resumed)
    finally:
        asyncio.run(resumed.aclose())


@pytest.mark.matrix
def test_a_finished_turn_is_its_words_and_its_answer(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    assert say(session, "the words")[1].ok
    value = shown(session.id, tmp_path)
    assert (value["user"], value["assistant"], value["open"]) == ("the words", "the answer", [])
    assert value["finished"] and value["entries"] == 2 and value["turns"] == 1 and value["at"]


def test_a_replay_shows_the_lines_of_the_shell_that_a_message_took_along(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    counted = "\n".join(map(str, range(30)))
    first, second = (asyncio.run(session.share(*one)) for one in (("a > b", "x"), ("seq 30", counted)))
    assert say(session, f"the words\n\n{first}\n{second}")[1].ok
    resumed = opened(Played(lambda request: "x"), tmp_path, session.id)
    newest, before = newest_turns(resumed)
    asyncio.run(resumed.aclose())
    assert newest[0] == TurnStart("the words")
    lines = ("!a > b", "x"), ("!seq 30", counted)
    assert before == [SessionAct("command", line, "person", line, output=output) for line, output in lines]


def test_a_session_without_words_is_empty(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "x"), tmp_path)
    value = last_exchange(session)
    assert (value["session"], value["entries"], value["user"], value["finished"]) == (session.id, 0, "", True)


def test_a_session_without_a_ledger_has_nothing_to_tell() -> None:
    with pytest.raises(NexusError, match="this session has no ledger"):
        last_exchange(Session(Played(lambda request: "x")))


@pytest.mark.matrix
def test_only_the_newest_turn_is_told_however_long_it_is(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "old answer"), tmp_path)
    assert say(session, "old words")[1].ok
    with the_ledger() as ledger:
        lane, at = ledger.session(session.id).main_lane, format_utc(local_now())
        on(ledger, lane).append(Entry(3, at, "person", Kind.USER, Message(Role.USER, "new words")))
        for number in range(4, 504):
            text = f"answer {number}" if number % 2 else ""
            on(ledger, lane).append(Entry(number, at, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, text or "…")))
        on(ledger, lane).append(Entry(504, at, "person", Kind.STEER, Message(Role.USER, "and steering")))
    value = shown(session.id, tmp_path)
    assert value["user"] == "new words\n\nand steering" and value["assistant"] == "answer 503"
    assert not value["finished"], "the steering waits for an answer"


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["network", "length"])
def test_an_answer_that_is_missing_or_broke_off_is_not_finished(tmp_path: Path, kind: str) -> None:
    def fails(request: object) -> str:
        raise NexusError(kind, "it failed", "on purpose")

    session = opened(Played(fails), tmp_path)
    assert not say(session, "words")[1].ok
    value = shown(session.id, tmp_path)
    assert value["user"] == "words" and not value["finished"] and not value["assistant"]


@pytest.mark.matrix
def test_calls_without_a_result_are_told_with_what_became_of_them(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        return [("bash", {"command": "echo one"}), ("bash", {"command": "echo  two\n"})]

    session = opened(Played(script), tmp_path)

    def killed(*arguments: object) -> None:
        raise NexusError("internal", "the process", "was ended here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "run", killed)
        assert not say(session, "run them")[1].ok
    with the_ledger() as ledger:
        info = ledger.session(session.id)
        calls = ledger.log(info.id).read(2, 2)[0].message.tool_calls
        ledger.log(info.id).record_start(calls[0].id, "bash")
    value = shown(session.id, tmp_path)
    assert value["open"] == [
        {"name": "bash", "subject": "echo one", "started": True},
        {"name": "bash", "subject": "echo two", "started": False},
    ]
    assert not value["finished"]
    again = opened(Played(lambda request: "done"), tmp_path, session.id)
    assert again.is_open() and last_exchange(again)["open"] == value["open"]
    assert say(again, "")[1].ok
    assert shown(session.id, tmp_path)["finished"]
