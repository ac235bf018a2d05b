"""`/rewind` in a running session: what is listed, what goes back, what stays, and what the model is told."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext
from search import sample
from undo.world import World

from nexus_cli.commands import find
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.core.goals import list_goals
from nexus_cli.core.services import Jobs, Workers
from nexus_cli.reports.turn_changes import count_newest_turn
from nexus_cli.undo import undo_files
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.undo_turn import UndoRequest

BETWEEN = "1\n2\n3\n4\n5\n"


def work_of(context: FakeContext) -> World:
    return World(Path(os.path.realpath(context.session.folder)), places().data, context.session.id)


def turn(context: FakeContext, work: World, words: str, **files: str) -> None:
    context.turn(words)
    if files:
        work.turn(lambda: [work.write(name, text) for name, text in files.items()])


@pytest.fixture
def work(context: FakeContext) -> World:
    """Four turns: the second and fourth change `a`, the third talks only, the fourth makes `b`."""
    made = work_of(context)
    made.write("a", f"one\n{BETWEEN}two\n")
    turn(context, made, "look around")
    made.turns = 1
    turn(context, made, "change a", a=f"ONE\n{BETWEEN}two\n")
    turn(context, made, "explain")
    made.turns = 3
    turn(context, made, "change a, make b", a=f"ONE\n{BETWEEN}TWO\n", b="new\n")
    return made


def kill_turn(work: World, number: int, name: str, text: str) -> None:
    """Write a file in a command of turn `number` whose nexus process dies."""
    if (child := os.fork()) == 0:
        try:
            ChangeJournal(work.data).begin(StepOwner(work.session, number), "bash", "c9", work.project)
            work.write(name, text)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def shown(context: FakeContext) -> str:
    form, value = context.shown[-1]
    return str(find_form(form)(value, 100))


def sent(context: FakeContext) -> str:
    return str(context.provider.seen[-1])


@pytest.mark.matrix
def test_the_list_has_every_turn_with_what_it_changed(context: FakeContext, work: World) -> None:
    context.run("rewind")
    assert [one.label for one in context.offered] == [
        "#4  change a, make b",
        "#3  explain",
        "#2  change a",
        "#1  look around",
    ]
    changes = [one.detail.rsplit("  ", 1)[0].strip() for one in context.offered]
    assert changes == ["2 files (+2 -1)", "", "1 file (+1 -1)", ""]
    assert "Nothing was changed. /rewind [N]" in context.said[-1]
    context.run("undo 4")
    context.run("rewind")
    assert "2 files, undone" in context.offered[0].detail


@pytest.mark.matrix
def test_files_and_conversation_go_back_together(context: FakeContext, work: World) -> None:
    before = context.session.id
    context.run("rewind 2 both")
    assert shown(context).startswith("Undid turns 2 to 4: 1 file restored, 1 file removed.")
    assert work.path("a").read_text() == f"one\n{BETWEEN}two\n" and not work.path("b").exists()
    assert context.filled == "change a" and context.session.id != before
    assert "/resume" in context.said[-1] and "/redo" in context.said[-1]
    context.turn("otherwise")
    assert "look around" in sent(context) and "explain" not in sent(context) and "change a" not in sent(context)
    assert "the person" not in sent(context).split("look around")[-1]
    context.run("undo")
    assert "Nothing to undo" in shown(context)
    context.run(f"resume {before}")
    context.run("redo")
    context.run("redo")
    assert work.path("a").read_text() == f"ONE\n{BETWEEN}TWO\n" and work.path("b").read_text() == "new\n"


@pytest.mark.matrix
def test_the_conversation_alone_goes_back_and_the_model_is_told_which_files_stay(
    context: FakeContext, work: World
) -> None:
    context.run("rewind 3 conversation")
    assert work.path("b").exists() and "/redo" not in context.said[-1]
    context.turn("otherwise")
    assert "these files keep changes of later turns: a, b. Read a file again" in sent(context)
    context.run("undo")
    assert shown(context).startswith("Undid turn 2: 1 file restored.")
    assert work.path("a").read_text() == f"one\n{BETWEEN}TWO\n"


@pytest.mark.matrix
def test_files_alone_go_back_and_the_person_s_own_lines_stay(context: FakeContext, work: World) -> None:
    before = context.session.id
    work.write("a", f"ONE\n{BETWEEN}TWO\n".replace("3", "mine"))
    context.run("rewind 2 files")
    assert work.path("a").read_text() == f"one\n{BETWEEN}two\n".replace("3", "mine") and not work.path("b").exists()
    assert context.session.id == before and context.filled == ""
    context.turn("go on")
    assert sent(context).count("the person undid the file changes of turn") == 2


@pytest.mark.matrix
def test_an_undo_of_an_earlier_turn_is_told_after_a_rewind_too(context: FakeContext, work: World) -> None:
    context.run("undo 2")
    context.run("rewind 4 both")
    context.turn("otherwise")
    assert "undid the file changes of turn 2" in sent(context)
    assert "file changes of turn 4" not in sent(context)


@pytest.mark.matrix
def test_what_was_kept_is_told_in_the_rewound_session(context: FakeContext, work: World) -> None:
    work.write("b", "mine\n")
    context.run("rewind 4 both")
    assert "1 kept" in shown(context)
    context.turn("otherwise")
    assert "these files keep changes of later turns: b." in sent(context)


@pytest.mark.matrix
def test_the_choice_of_parts_follows_the_choice_of_a_turn(context: FakeContext, work: World) -> None:
    context.pick = lambda choices: choices[0].key
    context.run("rewind 2")
    assert [one.key for one in context.offered] == ["both", "conversation", "files"]
    assert not work.path("b").exists()


def test_without_changed_files_only_the_conversation_goes_back(context: FakeContext) -> None:
    context.turn("first")
    context.turn("second")
    context.pick = lambda choices: choices[0].key
    context.run("rewind")
    assert context.filled == "second" and context.offered[0].label == "#2  second"


@pytest.mark.matrix
def test_goals_go_back_with_the_conversation(context: FakeContext) -> None:
    context.turn("first")
    context.run("goal early")
    context.turn("second")
    context.run("goal late")
    context.run("rewind 2 conversation")
    goals = list_goals(context.session.engine.conversation)
    assert [goal.text for goal in goals if not goal.parent] == ["early"]


def test_a_turn_in_which_nexus_was_killed_is_listed_and_not_passed_over(context: FakeContext, work: World) -> None:
    context.turn("ruin c")
    kill_turn(work, 5, "c", "ruined\n")
    before = context.session.id
    context.run("rewind 5")
    assert [one.key for one in context.offered] == ["both", "conversation", "files"]
    assert context.offered[0].detail == "1 file (+1 -0), nexus was killed" and context.session.id == before
    assert count_newest_turn(context.session) == "1 file (+1 -0), nexus was killed: /undo 5 to revert"
    with pytest.raises(NexusError, match="nexus was killed in it"):
        context.run("rewind 5 both")
    context.run("undo 5")
    assert not work.path("c").exists()
    whose = "All changes until you used the session again, including your own, count as changes of this turn."
    why = f"nexus was killed during bash. {whose}"
    assert " ".join(shown(context).split()).endswith(f" {why}")
    context.run("rewind 5 both")
    assert context.session.id != before and context.filled == "ruin c" and work.path("b").exists()


@pytest.mark.matrix
def test_a_turn_in_which_nexus_was_killed_stays_and_is_told_of(context: FakeContext, work: World) -> None:
    context.turn("ruin c")
    kill_turn(work, 5, "c", "ruined\n")
    context.run("edit")
    context.turn("otherwise")
    assert "these files keep changes of later turns: c." in sent(context)


@pytest.mark.matrix
def test_a_turn_whose_changes_were_lost_with_its_process_is_listed(context: FakeContext, work: World) -> None:
    kill_turn(work, 3, "c", "ruined\n")
    shutil.rmtree(work.data / "undo/looks")
    context.run("rewind")
    assert context.offered[1].detail.rsplit("  ", 1)[0].strip() == "nexus was killed"


@pytest.mark.matrix
def test_a_rewind_asks_if_what_a_killed_turn_changed_is_unknown(context: FakeContext, work: World) -> None:
    context.turn("ruin c")
    kill_turn(work, 5, "c", "ruined\n")
    shutil.rmtree(work.data / "undo/looks")
    before = context.session.id
    context.run("rewind 5")
    assert [one.key for one in context.offered] == ["conversation"] and context.session.id == before
    context.run("rewind 5 conversation")
    assert context.session.id != before and work.path("c").read_text() == "ruined\n"


@pytest.mark.matrix
def test_a_fork_can_undo_a_turn_in_which_nexus_was_killed(context: FakeContext, work: World) -> None:
    context.turn("ruin c")
    kill_turn(work, 5, "c", "ruined\n")
    context.run("fork")
    context.run("undo 5")
    assert shown(context).startswith("Undid turn 5: 1 file removed") and not work.path("c").exists()


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample([Jobs, Workers], 3))
@pytest.mark.parametrize("part", ["both", "conversation"])
def test_nothing_is_undone_while_a_job_or_a_worker_runs(
    context: FakeContext, work: World, monkeypatch: pytest.MonkeyPatch, kind: type, part: str
) -> None:
    busy: Any = context.session.services[kind]
    monkeypatch.setattr(busy, "running", lambda: ["b1"])
    before = context.session.id
    with pytest.raises(NexusError, match="cannot leave the session: leaving would stop b1"):
        context.run(f"rewind 1 {part}")
    assert work.path("b").exists() and context.session.id == before and not context.shown
    context.run("rewind 1 files")
    assert not work.path("b").exists()


def test_an_empty_copy_that_cannot_be_opened_leaves_its_reason(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.turn("first")
    monkeypatch.setattr(context.session.services[Jobs], "running", lambda: ["j1"])
    with pytest.raises(NexusError, match="cannot leave the session: leaving would stop j1"):
        context.run("edit")
    assert [one.id for one in context.session.ledger.sessions()] == [context.session.id]


@pytest.mark.matrix
def test_a_fork_and_an_edited_message_can_undo_the_turns_that_they_have(context: FakeContext, work: World) -> None:
    context.run("fork copy")
    context.run("undo")
    assert shown(context).startswith("Undid turn 4")
    context.run("edit")
    context.run("undo")
    assert shown(context).startswith("Undid turn 2")


def test_what_was_undone_before_an_error_is_reported(
    context: FakeContext, work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restore(log: Any, request: UndoRequest, *more: Any) -> Any:
        if request.turn == 2:
            raise NexusError("internal", "nothing was undone", "no space left on device")
        return undo_files_restore(log, request, *more)

    undo_files_restore = undo_files.restore_files
    monkeypatch.setattr(undo_files, "restore_files", restore)
    with pytest.raises(NexusError, match="nothing was undone: no space left on device"):
        context.run("rewind 2 both")
    assert shown(context).startswith("Undid turn 4: 1 file restored, 1 file removed.")


def test_a_full_disk_before_the_first_undo_changes_nothing(
    context: FakeContext, work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path: path.read_bytes() for path in work.project.rglob("*") if path.is_file()}
    monkeypatch.setattr(undo_files, "read_begun_undos", full)
    with pytest.raises(NexusError, match="nothing was undone: no space left on device"):
        context.run("rewind 2 both")
    assert {path: path.read_bytes() for path in before} == before and not context.filled


def test_a_stop_ends_after_a_turn_and_leaves_the_conversation(
    context: FakeContext, work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(line: str) -> None:
        loop, task = (
            asyncio.get_running_loop(),
            asyncio.ensure_future(find("rewind", context.commands).invoke(context, line)),
        )

        def restore(*arguments: Any, **more: Any) -> Any:
            try:
                return undo_files_restore(*arguments, **more)
            finally:
                loop.call_soon_threadsafe(task.cancel)
                time.sleep(0.3)

        monkeypatch.setattr(undo_files, "restore_files", restore)
        await task

    undo_files_restore, before = undo_files.restore_files, context.session.id
    asyncio.run(stopped("2 both"))
    monkeypatch.undo()
    assert context.session.id == before and context.said[-1] == "Stopped. To continue: /rewind 2 both"
    assert work.path("a").read_text() == f"ONE\n{BETWEEN}two\n" and not work.path("b").exists()
    context.run("rewind 2 both")
    assert work.path("a").read_text() == f"one\n{BETWEEN}two\n" and context.session.id != before
