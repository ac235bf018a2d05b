"""A session that is resumed begins with the lines that it sent, or says that it cannot and begins anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, opened, say, the_ledger

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.render import Wire
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.request import Request
from nexus_cli.engine import turn
from nexus_cli.reports.check_replay import check
from nexus_cli.sections.reader import SectionReader
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import describe_run
from nexus_cli.session.session import Session


def test_a_resumed_session_begins_with_the_lines_that_it_sent(tmp_path: Path) -> None:
    first = Played(lambda request: "one")
    session = opened(first, tmp_path)
    assert say(session, "begin")[1].ok
    second = Played(lambda request: "two")
    events, outcome = say(opened(second, tmp_path, session.id), "go on")
    assert outcome.ok and not [event for event in events if isinstance(event, Notice)]
    assert second.seen[0][: len(first.seen[0])] == first.seen[0]


@pytest.mark.matrix
def test_a_session_that_was_reopened_has_its_effort_before_its_next_turn(tmp_path: Path) -> None:
    def open_with(effort: str, session: str = "") -> Session:
        options = Options(tmp_path, "openai/gpt-5", effort, resume=session)
        return open_session(options, Settings(), approver=None, provider=Played(lambda request: "one"))

    session = open_with("high")
    assert say(session, "begin")[1].ok
    for chosen, effort in (("", "high"), ("default", "")):
        again = open_with(chosen, session.id)
        assert (again.status().effort, again.engine.begins_epoch) == (effort, effort != "high")
        asyncio.run(again.aclose())


@pytest.mark.matrix
def test_what_a_turn_that_ended_before_its_request_had_to_tell_is_told_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before := tmp_path / "before").mkdir()
    session = opened(Played(lambda request: "one"), before)
    assert say(session, "begin")[1].ok
    before.rename(moved := tmp_path / "moved")

    async def killed(*arguments: Any) -> None:
        raise NexusError("internal", "the process", "it ended here")

    monkeypatch.setattr(turn, "call_model", killed)
    assert not say(opened(Played(lambda request: "never asked"), moved, session.id), "where are we?")[1].ok
    monkeypatch.undo()
    for _ in range(2):
        provider = Played(lambda request: "done")
        assert say(opened(provider, moved, session.id), "where are we?")[1].ok
        assert str(provider.seen[0]).count(f"the working folder is now {moved}, no longer {before}") == 1


@pytest.mark.matrix
def test_what_arises_while_the_sections_of_the_last_request_are_read_is_told_when_the_session_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, session = SectionReader.sections, opened(Played(lambda request: "one"), tmp_path)

    async def read_meanwhile(self: SectionReader, *arguments: Any) -> Any:
        found = await read(self, *arguments)
        await asyncio.sleep(0.005)
        session.engine.notices.keep("j1", "job j1 ended")
        await asyncio.sleep(0.005)
        return found

    session.engine.notices.tell("another notice")
    monkeypatch.setattr(SectionReader, "sections", read_meanwhile)
    assert say(session, "begin")[1].ok
    monkeypatch.undo()
    for _ in range(2):
        provider = Played(lambda request: "done")
        assert say(opened(provider, tmp_path, session.id), "go on")[1].ok
        assert str(provider.seen[0]).count("job j1 ended") == 1 == str(provider.seen[0]).count("another notice")


@pytest.mark.matrix
def test_a_session_of_a_moved_project_belongs_to_its_new_folder(tmp_path: Path) -> None:
    (before := tmp_path / "before").mkdir()
    session = opened(Played(lambda request: "one"), before)
    assert say(session, "begin")[1].ok
    before.rename(moved := tmp_path / "moved")
    again = opened(Played(lambda request: "two"), moved, session.id)
    assert f"this session worked in {before}, which no longer exists; it continues in {moved}" in again.notices
    assert say(again, "go on")[1].ok
    with the_ledger() as ledger:
        info = ledger.newest_session(str(moved))
        assert info is not None and (info.id, info.project) == (session.id, str(moved))
        assert ledger.newest_session(str(before)) is None and info.turns == 2


def test_a_model_is_told_of_a_move_that_an_earlier_opening_recorded(tmp_path: Path) -> None:
    (before := tmp_path / "before").mkdir()
    session = opened(Played(lambda request: "one"), before)
    assert say(session, "begin")[1].ok
    before.rename(moved := tmp_path / "moved")
    asyncio.run(opened(Played(lambda request: "never asked"), moved, session.id).aclose())
    for told in (True, False):
        provider = Played(lambda request: "done")
        assert say(opened(provider, moved, session.id), "where are we?")[1].ok
        assert (f"the working folder is now {moved}, no longer {before}" in str(provider.seen[0][-1])) is told


def test_each_change_of_the_folder_is_told_once_to_the_model_and_the_person(tmp_path: Path) -> None:
    (one := tmp_path / "one").mkdir()
    (two := tmp_path / "two").mkdir()
    session = opened(Played(lambda request: "begun"), one)
    assert say(session, "begin")[1].ok
    for before, now in ((one, two), (two, two), (two, one), (one, one)):
        provider = Played(lambda request: "done")
        again = opened(provider, now, session.id)
        changes = [f"this session worked in {before}; it continues in {now}"] if before != now else []
        assert again.notices == changes
        assert say(again, "where are we?")[1].ok
        told = f"the working folder is now {now}, no longer {before}"
        assert (told in str(provider.seen[0][-1])) == (before != now), provider.seen[0][-1]


def test_the_result_of_a_turn_that_nobody_waits_for_has_what_it_has_spent(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "one"), tmp_path)
    assert say(session, "begin")[1].ok
    value = session.failed_result(NexusError("aborted", "stopped", "received SIGINT"))
    assert (value["exit"], value["steps"], value["session"]) == (130, 1, session.id)
    assert value["usage"]["input"] > 0 and value["usage"]["cost_usd"] == session.costs()[0] != 0


def test_a_session_of_a_removed_worktree_says_that_returning_makes_a_new_one(tmp_path: Path) -> None:
    (tree := tmp_path / "tree").mkdir()
    (project := tmp_path / "project").mkdir()
    session = opened(Played(lambda request: "one"), tree, worktree="feat")
    assert say(session, "begin")[1].ok
    way = f"nexus -w feat -r {session.id}"
    back = opened(Played(lambda request: "two"), project, session.id)
    assert f"this session worked in worktree feat; it continues in {project} (to return: {way})" in back.notices
    assert say(back, "look")[1].ok
    tree.rmdir()
    told = f"this session worked in worktree feat, which was removed; it continues in {project}"
    again = opened(Played(lambda request: "three"), project, session.id)
    assert f"{told} (to create worktree feat again from the current project: {way})" in again.notices


@pytest.mark.parametrize("is_new", [True, False])
def test_facts_of_a_moved_project_go_with_it_unless_the_new_folder_has_sessions(tmp_path: Path, is_new: bool) -> None:
    (before := tmp_path / "before").mkdir()
    session = opened(Played(lambda request: "one"), before)
    assert say(session, "begin")[1].ok
    with the_ledger() as ledger:
        kept: Any = {"state": FactState.KEPT, "at": "2026-01-01T00:00:00.000Z", "actor": "person"}
        ledger.facts.add(MemorySlot.PROJECT, "Tests need a database", project=str(before), **kept)
    if is_new:
        before.rename(moved := tmp_path / "moved")
    else:
        before.rmdir()
        (moved := tmp_path / "other").mkdir()
        assert say(opened(Played(lambda request: "x"), moved), "own work")[1].ok
    again = opened(Played(lambda request: "two"), moved, session.id)
    assert any("1 fact of" in notice for notice in again.notices) == is_new
    with the_ledger() as ledger:
        assert [one.text for one in ledger.facts.read_kept(str(moved))] == ["Tests need a database"] * is_new


@pytest.mark.matrix
def test_a_session_that_waits_is_named_by_the_begin_of_its_first_message(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "one"), tmp_path)
    words = "begin " + "and go on " * 200
    assert say(session, words)[1].ok
    again = opened(Played(lambda request: "two"), tmp_path, session.id)
    run = describe_run(again)
    assert run["title"] == run["trigger"]["message"] == words[:1000]
    assert say(again, "go on")[1].ok


def test_a_session_that_another_version_rendered_otherwise_goes_on_under_a_new_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(Played(lambda request: "one"), tmp_path)
    assert say(session, "begin")[1].ok
    as_before = Wire._message

    def otherwise(self: Wire, *arguments: Any) -> dict[str, Any]:
        value = as_before(self, *arguments)
        return value | {"content": f"{value.get('content')} "} if value["role"] == "user" else value

    monkeypatch.setattr(Wire, "_message", otherwise)
    provider = Played(lambda request: "two")
    events, outcome = say(opened(provider, tmp_path, session.id), "go on")
    assert outcome.ok and [event.text for event in events if isinstance(event, Notice)]
    with the_ledger() as ledger:
        info = ledger.session(session.id)
        epoch = ledger.log(info.id).current_epoch()
        assert epoch is not None and epoch.cause == "reload"
        assert check(ledger, session.id, 2)["ok"]


def test_a_request_is_kept_with_the_arguments_that_it_was_sent_with(tmp_path: Path) -> None:
    sent: list[Request] = []

    def script(request: Request) -> str:
        sent.append(request)
        return "done"

    session = opened(Played(script), tmp_path)
    assert say(session, "begin")[1].ok
    assert say(opened(Played(script), tmp_path, session.id), "go on")[1].ok
    names = ("model", "max_output", "effort", "tool_choice", "cache_key", "previous_end")
    with the_ledger() as ledger:
        kept = [row.manifest.arguments for row in ledger.log(session.id).requests()]
    assert kept == [{name: getattr(request, name) for name in names} for request in sent]
    assert [(one["model"], one["max_output"] > 0, bool(one["cache_key"])) for one in kept] == [(MODEL, True, True)] * 2


def test_a_level_is_set_whole_even_if_it_cannot_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, withdrawn = opened(Played(lambda request: "one"), tmp_path), list[bool]()

    def fail(kind: str, value: Any) -> None:
        raise NexusError("ledger", "the ledger could not be written", "the disk is full")

    monkeypatch.setattr(session.dispatcher, "withdraw_questions", lambda: withdrawn.append(True))
    monkeypatch.setattr(session.engine.conversation, "memo", fail)
    monkeypatch.setattr(type(session.engine.conversation), "last", 1)
    with pytest.raises(NexusError):
        session.set_level("ask")
    assert withdrawn and session.status().allow == "ask", "questions and workers have the new level"
