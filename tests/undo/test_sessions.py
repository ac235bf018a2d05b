"""What a session does to files is in its journal: edits, commands, `!` lines, workers, applied worktrees."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from session.played import Played, opened, say
from undo.test_looks import bytes_of, repository
from undo.world import World
from workers.crew import Crew, crewed, doing, handing, run
from worktrees.repository import make_project

from nexus_cli.config.file_lock import read_held
from nexus_cli.config.paths import places
from nexus_cli.core.event import Notice
from nexus_cli.engine.calls.call_changes import UNSAVED
from nexus_cli.session.session import Session
from nexus_cli.tree.file_state import ABSENT, FileState
from nexus_cli.ui.repl.shell_line import Shell, ShellLine
from nexus_cli.undo import follow_changes
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import append_step, read_begun, read_steps
from nexus_cli.undo.records import FileChange, Step
from nexus_cli.undo.undone_steps import without_worktree_steps


def play(folder: Path, *batches: list[tuple[str, dict[str, Any]]], session: str = "", **options: Any) -> Session:
    """Play one turn whose replies are these calls."""
    waiting = list(batches)
    made = opened(Played(lambda request: waiting.pop(0) if waiting else "done"), folder, session, **options)
    assert say(made, "go")[1].ok
    return made


def steps_of(session: Session | str) -> list[Step]:
    return read_steps(places().data, session if isinstance(session, str) else session.id)


@pytest.mark.matrix
def test_edits_are_followed_wherever_they_are(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.txt"
    project.mkdir()
    repository(project)
    outside.write_text("old\n")
    edits = [{"old": "old", "new": "new"}]
    session = play(
        project,
        [("read_file", {"path": str(outside)}), ("read_file", {"path": "src/a.py"})],
        [("edit_file", {"path": str(outside), "edits": edits})],
        [("write_file", {"path": "new/deep.txt", "content": "made\n"})],
        [("edit_file", {"path": "src/a.py", "edits": [{"old": "not there", "new": ""}]})],
    )
    found = [(step.root, step.what, step.changes[0]) for step in steps_of(session)]
    assert [one[:2] for one in found] == [
        (os.path.realpath(tmp_path), f"edit_file {outside}"),
        (os.path.realpath(project), "write_file new/deep.txt"),
    ]
    data, change, made = places().data, found[0][2], found[1][2]
    assert change.path == "outside.txt" and bytes_of(data, tmp_path, change.before)[2] == b"old\n"
    assert bytes_of(data, tmp_path, change.after)[2] == b"new\n"
    assert (made.path, made.before.kind) == ("new/deep.txt", ABSENT)


@pytest.mark.matrix
def test_steps_have_the_number_of_their_turn_also_when_resumed(tmp_path: Path) -> None:
    session = play(tmp_path, [("bash", {"command": "echo 1 > a.txt"})])
    play(tmp_path, [("bash", {"command": "true"})], session=session.id)
    play(tmp_path, [("bash", {"command": "echo 3 > a.txt"})], session=session.id)
    assert [(step.turn, step.changes[0].path) for step in steps_of(session)] == [(1, "a.txt"), (3, "a.txt")]


def test_a_session_that_is_not_saved_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("private\n")
    waiting: list[Any] = ["done", [("bash", {"command": f"echo {one} > a.txt"}) for one in (1, 2)]]
    made = opened(Played(lambda request: waiting.pop()), tmp_path, save=False)
    events, outcome = say(made, "go")
    assert outcome.changed == ("a.txt",)
    assert [one.text for one in events if isinstance(one, Notice)].count(UNSAVED) == 1
    left = [path for path in (places().data / "undo").rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.matrix
async def test_a_line_of_the_person(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "done"), repository(tmp_path))
    view = SimpleNamespace(put=lambda text: None, invalidate=lambda: None)
    shell = Shell(cast(Any, view), lambda title, text: None, lambda block, what: None)
    line = ShellLine.of("!!rm notes.txt")
    assert line is not None

    await shell.run(line, tmp_path, session)
    await session.aclose()
    (step,) = steps_of(session)
    assert (
        step.what == "!rm notes.txt" and bytes_of(places().data, tmp_path, step.changes[0].before)[2] == b"only copy\n"
    )


@pytest.mark.matrix
def test_what_a_worker_changes_belongs_to_the_turn_of_its_parent(tmp_path: Path) -> None:
    repository(tmp_path)
    work = doing([("bash", {"command": "rm notes.txt"})], "done")
    session = crewed(Crew({"ONE": work, "root": handing({"task": "ONE"})}), tmp_path)
    assert run(session, "root")[1].ok
    (step,) = steps_of(session)
    assert (step.turn, step.what, step.changes[0].path) == (1, "w1: bash rm notes.txt", "notes.txt")


@pytest.mark.matrix
def test_an_applied_worktree(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    work = doing([("write_file", {"path": "shared.txt", "content": "x"})], "written")
    hand, take = [("agent", {"task": "ONE", "worktree": True})], [("agents", {"action": "apply", "agent": "w1"})]
    session = crewed(Crew({"ONE": work, "root": doing(hand, take, "done")}), project)
    assert run(session, "root")[1].ok and (project / "shared.txt").read_text() == "x"
    assert [one.what for one in steps_of(session)] == ["w1: write_file shared.txt", "apply w1"]
    (change,) = steps_of(session)[-1].changes
    assert (change.path, change.before.kind) == ("shared.txt", ABSENT)


def test_calls_that_end_at_the_same_time_are_each_recorded_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, count, append = ChangeJournal(world.data), 6, append_step
    owner = StepOwner(world.session, 1)
    with ThreadPoolExecutor(count) as pool:
        work = [pool.submit(journal.begin, owner, f"bash {n}", f"c{n}", world.project) for n in range(count)]
        begun = [one.result() for one in work]
    (lock,) = (world.data / "undo/looks").glob("*.lock")
    assert json.loads(read_held(lock) or "") == [[world.session, str(world.project)]] * count
    world.write("a", "its\n")

    def append_slowly(*values: Any) -> None:
        time.sleep(0.02)
        append(*values)

    monkeypatch.setattr(follow_changes, "append_step", append_slowly)
    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(journal.end, begun)).count(["a"]) >= 1
    assert read_held(lock) == b"[]"
    journal.close()
    assert not lock.exists()
    steps = [step.id for step in read_steps(world.data, world.session)]
    assert len(steps) == len({*steps}) and not read_begun(world.data, world.session)


def test_workers_in_the_worktree_of_their_session_are_undone_with_it(tmp_path: Path) -> None:
    mine, theirs = (str(tmp_path / "worktrees" / name) for name in ("mine", "theirs"))
    written = FileChange("a.py", FileState(ABSENT), FileState("file", 0o644, "sha256:1"))
    done = [("edit_file b.py", mine), ("w1: edit_file a.py", mine), ("w2: edit_file a.py", theirs)]
    steps = [
        Step(id=what, session="s", turn=1, call="", what=what, at="", root=root, changes=(written,))
        for what, root in done
    ]
    assert [step.what for step in without_worktree_steps(steps, tmp_path)] == ["edit_file b.py", "w1: edit_file a.py"]
