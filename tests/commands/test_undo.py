"""`/undo`, `/redo` and `/diff N` in a running session: what they show, and what the model is told."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext
from ledger.conftest import fail_writes
from undo.world import World

from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.undo import follow_changes
from nexus_cli.undo.follow_changes import StepOwner
from nexus_cli.undo.undo_files import restore_files


def work_of(context: FakeContext) -> World:
    """The session's folder; what turns change is recorded for the session."""
    return World(Path(os.path.realpath(context.session.folder)), places().data, context.session.id)


def shown(context: FakeContext, line: str) -> str:
    form, value = context.run(line).shown[-1]
    return str(find_form(form)(value, 100))


@pytest.fixture
def work(context: FakeContext) -> World:
    context.turn("change a and b")
    made = work_of(context)
    for name in ("a", "b"):
        made.write(name, "old\n")
    made.turn(lambda: [made.write("a", "new\n"), made.write("b", "new\n")])
    return made


@pytest.mark.matrix
def test_a_turn_is_taken_back_and_brought_back_and_the_model_told_the_result(context: FakeContext, work: World) -> None:
    assert shown(context, "undo").splitlines() == [
        "Undid turn 1: 2 files restored.",
        "  restored  a",
        "  restored  b",
    ]
    assert work.path("a").read_text() == "old\n"
    assert shown(context, "undo") == "Nothing to undo."
    assert shown(context, "redo").startswith("Redid turn 1: 2 files restored.")
    assert work.path("a").read_text() == "new\n"
    context.turn("go on")
    assert "the file changes of turn 1" not in str(context.provider.seen[-1])
    for name in ("undo", "redo", "undo"):
        shown(context, name)
    context.turn("and on")
    sent = str(context.provider.seen[-1])
    assert sent.count("undid the file changes of turn 1: a, b as before the turn") == 1 and "redid" not in sent
    shown(context, "redo")
    context.turn("and on")
    sent = str(context.provider.seen[-1])
    assert sent.count("redid the file changes of turn 1: a, b as after the turn") == 1
    assert sent.count("undid the file changes") == 1


@pytest.mark.matrix
def test_one_turn_or_one_path_is_taken_back(context: FakeContext, work: World) -> None:
    context.turn("more")
    work.turn(lambda: work.write("a", "newer\n"))
    assert shown(context, "undo b").splitlines()[1:] == ["  restored  b"]
    assert shown(context, "undo 2 a").startswith("Undid turn 2")
    assert shown(context, "undo 1").splitlines()[1:] == ["  restored  a"]
    assert (work.path("a").read_text(), work.path("b").read_text()) == ("old\n", "old\n")
    assert shown(context, "undo 2") == "Nothing to undo in turn 2."
    newest = f"turn 9: there is no such turn; the newest of session {context.session.id} is 2"
    with pytest.raises(NexusError, match=newest):
        context.run("undo 9")


@pytest.mark.matrix
def test_the_changes_of_a_turn_are_shown(context: FakeContext, work: World) -> None:
    value = context.run("diff 1 a").shown[-1][1]
    assert value["text"].startswith("--- a/a\n+++ b/a\n") and "-old\n+new\n" in value["text"] and value["unread"] == []
    assert context.run("diff none").said[-1] == "No changes to files are recorded for this session at this path."
    assert context.run("diff").shown[-1][1]["source"] in ("git", "session")


def test_the_changes_of_an_undone_turn_are_said_to_be_undone(context: FakeContext, work: World) -> None:
    context.run("diff 1")
    assert "Turn 1 was undone." not in context.said
    context.run("undo")
    assert "+new" in context.run("diff 1").shown[-1][1]["text"] and context.said[-1] == "Turn 1 was undone."
    context.run("redo")
    del context.said[:]
    context.run("diff 1")
    assert context.said == []


@pytest.mark.matrix
def test_what_is_kept_and_left_to_the_person_is_named(context: FakeContext, work: World) -> None:
    work.write("a", "mine\n")
    text = shown(context, "undo")
    assert "Undid turn 1: 1 file restored, 1 kept." in text
    assert "kept      a (changed since); earlier version: a.nexus-undo" in text
    assert " files: you undid turn 1: b; kept a" in shown(context, "timeline")
    context.turn("go on")
    assert "kept the person's version: a." in str(context.provider.seen[-1])


def test_what_may_be_the_persons_is_asked_about_and_no_answer_changes_nothing(
    context: FakeContext, work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.undo.undo_turn.find_unsure", lambda request: [f"{request.project}/mine.txt"])
    with pytest.raises(NexusError, match="/undo: cancelled"):
        context.run("undo")
    assert context.said[-1] == "Possibly yours (changed while a command ran): mine.txt."
    assert [choice.label for choice in context.offered] == ["no", "yes"] and work.path("a").read_text() == "new\n"
    context.pick = lambda choices: choices[0].key
    context.run("undo #1 a")
    assert (work.path("a").read_text(), work.path("b").read_text()) == ("old\n", "new\n")


@pytest.mark.matrix
def test_an_undo_made_before_the_session_was_resumed_is_told(context: FakeContext, work: World) -> None:
    context.run("undo")
    asyncio.run(context.reopen(context.options))
    context.turn("go on")
    assert str(context.provider.seen[-1]).count("undid the file changes of turn 1") == 1


def test_what_an_undo_did_is_reported_and_told_though_the_ledger_cannot_be_written(
    context: FakeContext, work: World
) -> None:
    ledger, said = context.session.ledger, list[str]()
    assert ledger is not None
    context.turn("more")
    fail_writes(ledger)
    assert shown(context, "undo 1") == "Undid turn 1: 2 files restored.\n  restored  a\n  restored  b"
    assert shown(context, "redo").startswith("Redid turn 1: 2 files restored.")
    assert shown(context, "undo").startswith("Undid turn 1: 2 files restored.") and context.said == []
    context.turn("go on")
    assert str(context.provider.seen[-1]).count("undid the file changes of turn 1: a, b as before the turn") == 1
    work.turns = 1
    report = restore_files(ledger.log(context.session.id), work.request(), said.append, redo=True)
    assert report["restored"] == ["a", "b"] and work.path("a").read_text() == "new\n"
    (line,) = said
    assert line.startswith(
        "this redo could not be recorded in the session: the file cannot be written. The model does not"
    )


@pytest.mark.matrix
def test_what_a_full_disk_kept_from_being_written_down_is_written_before_it_is_taken_back(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.turn("change a")
    work, journal = work_of(context), context.session.dispatcher.call_changes.journal
    work.write("a", "old\n")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    begun = journal.begin(StepOwner(context.session.id, 1), "bash", "c1", work.project)
    with monkeypatch.context() as patch:
        patch.setattr(follow_changes, "append_step", refuse)
        work.write("a", "new\n")
        journal.end(begun)
        with pytest.raises(NexusError, match="the last changes are not recorded yet: no space left"):
            context.run("undo")
    assert shown(context, "undo") == "Undid turn 1: 1 file restored.\n  restored  a"
    assert work.path("a").read_text() == "old\n"


def test_a_repository_that_came_back_is_counted_as_one() -> None:
    value = {
        "action": "undo",
        "turn": 1,
        "dry_run": False,
        "restored": [".git", "a", "b", "c/", "lib/.git"],
        "removed": ["d/.git"],
        "kept": [],
        "references": [],
        "head_moved": None,
        "unfollowed": [],
    }
    first, *rows = find_form("undo")(value, 100).splitlines()
    assert first == "Undid turn 1: 2 files, 1 folder and 2 repositories restored, 1 repository removed."
    assert rows[0] == "  restored  .git"
