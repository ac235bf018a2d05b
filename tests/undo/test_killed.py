"""A process that is killed while it follows a command: the next one finds what the command changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from search import sample
from undo.test_looks import OWNER, check_step, places_of, read_tree, repository

from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.undo import follow_changes
from nexus_cli.undo.follow_changes import ChangeJournal, settle_killed
from nexus_cli.undo.journal import journal_path, read_begun, read_steps
from nexus_cli.undo.project_look import LookedProject
from nexus_cli.undo.records import GIT_FOLDER, fields_of
from nexus_cli.undo.saved_look import SavedLook


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        work(*arguments, **named)
        die()

    return run


def run_killed(data: Path, root: Path, command: str, place: object, name: str, how: str) -> None:
    """Follow a command in a child that is killed `how` (before or after) it calls the function `name` of `place`."""
    child = os.fork()
    if child == 0:
        try:
            setattr(place, name, die if how == "before" else after(getattr(place, name)))
            journal = ChangeJournal(data)
            begun = journal.begin(OWNER, "bash", "c1", root)
            subprocess.run(["bash", "-c", command], cwd=root, check=False)
            journal.end(begun)
        finally:
            os._exit(7)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


COMMAND = "rm -rf src .env notes.txt; echo new > made.txt"
BEFORE_IT_RAN = [
    (ByteStore, "put", "before"),
    (ByteStore, "put", "after"),
    (LookedProject, "_look", "after"),
    (LookedProject, "save", "before"),
    (SavedLook, "save", "after"),
    (follow_changes, "begin_step", "before"),
]
WHILE_IT_RAN = [
    (follow_changes, "begin_step", "after"),
    (LookedProject, "end", "before"),
    (LookedProject, "end", "after"),
    (follow_changes, "compare_looks", "after"),
    (follow_changes, "append_step", "before"),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("place", "name", "how"), sample(BEFORE_IT_RAN, 3))
def test_killed_before_the_command(tmp_path: Path, place: object, name: str, how: str) -> None:
    root, data = places_of(tmp_path)
    before = read_tree(repository(root))
    run_killed(data, root, COMMAND, place, name, how)
    assert read_tree(root) == before
    assert settle_killed(data, "session") == [] and read_steps(data, "session") == []


@pytest.mark.matrix
@pytest.mark.parametrize("is_git", [True, False])
@pytest.mark.parametrize(("place", "name", "how"), sample(WHILE_IT_RAN, 3))
def test_killed_while_the_command_ran(tmp_path: Path, place: object, name: str, how: str, is_git: bool) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    if not is_git:
        subprocess.run(["rm", "-rf", str(root / ".git")], check=True)
    before = read_tree(root)
    run_killed(data, root, COMMAND, place, name, how)
    if name == "begin_step":
        subprocess.run(["bash", "-c", COMMAND], cwd=root, check=True)  # it outlived the process
    (step,) = settle_killed(data, "session")
    check_step(data, root, step, before, read_tree(root))
    assert read_steps(data, "session") == [step] and read_begun(data, "session") == []
    assert os.listdir(data / "undo/looks") == []
    assert settle_killed(data, "session") == []


@pytest.mark.matrix
def test_the_next_command_of_the_session_settles_it(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    run_killed(data, root, COMMAND, LookedProject, "end", "before")
    journal = ChangeJournal(data)
    journal.end(journal.begin(OWNER, "bash", "c2", root))
    (step,) = read_steps(data, "session")
    assert step.call == "c1" and "notes.txt" in {one.path for one in step.changes}


@pytest.mark.matrix
def test_a_step_that_runs_is_left_alone(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    journal = ChangeJournal(data)
    begun = journal.begin(OWNER, "bash", "c1", root)
    assert settle_killed(data, "session") == [] and len(read_begun(data, "session")) == 1
    (root / "notes.txt").unlink()
    assert journal.end(begun) == ["notes.txt"]
    assert len(read_steps(data, "session")) == 1 and read_begun(data, "session") == []


@pytest.mark.matrix
def test_a_look_that_is_lost_is_said(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    run_killed(data, root, COMMAND, LookedProject, "end", "before")
    subprocess.run(["rm", "-rf", str(data / "undo/looks")], check=True)
    (step,) = settle_killed(data, "session")
    assert step.unfollowed == follow_changes.KILLED and step.changes == ()


@pytest.mark.matrix
def test_what_was_changed_is_found_while_git_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    before = read_tree(repository(root))
    run_killed(data, root, COMMAND, LookedProject, "end", "before")
    with monkeypatch.context() as patched:
        patched.setattr(Git, "try_run", refuse)
        (step,) = settle_killed(data, "session")
    check_step(data, root, step, before, read_tree(root))


def refuse(*_: object, **__: object) -> None:
    raise GitError("git could not be started (changes that a command made in the repository have not been checked yet)")


@pytest.mark.matrix
@pytest.mark.parametrize("broken", [".git/HEAD", ".git/config"])
def test_a_command_that_breaks_the_repository_is_followed_all_the_same(tmp_path: Path, broken: str) -> None:
    root, data = places_of(tmp_path)
    before = read_tree(repository(root))
    journal = ChangeJournal(data)
    begun = journal.begin(OWNER, "bash", "c1", root)
    kept = (root / broken).read_bytes()
    subprocess.run(["bash", "-c", f"{COMMAND}; echo garbage > {broken}"], cwd=root, check=True)
    journal.end(begun)
    (root / broken).write_bytes(kept)
    (step,) = read_steps(data, "session")
    assert not step.unfollowed
    assert (GIT_FOLDER in {one.path for one in step.changes}) == (broken == ".git/HEAD")  # it makes the repository
    step = replace(step, changes=tuple(one for one in step.changes if one.path != GIT_FOLDER))
    check_step(data, root, step, before, read_tree(root))


@pytest.mark.matrix
def test_lines_that_were_cut_or_damaged_are_skipped(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    journal = ChangeJournal(data)
    for name in ("notes.txt", ".env"):
        begun = journal.begin(OWNER, "bash", "c1", root)
        (root / name).unlink()
        journal.end(begun)
        with journal_path(data, "session").open("ab") as file:
            file.write(b'{"id":1}\n\xff\xfe\n[]\n{"begun":[]}\n{"id":"cut')
    step = read_steps(data, "session")[-1]
    (row,) = json.loads(json.dumps(step, default=fields_of))["changes"][:1]
    with journal_path(data, "session").open("a") as file:
        for part in (
            {"changes": [5]},
            {"changes": None},
            {"changes": {"a": 1}},
            {"changes": [row | {"after": 5}]},
            {"references": ["HEAD"]},
        ):
            file.write(f"\n{json.dumps(fields_of(step) | {'changes': []} | part)}")
    steps = read_steps(data, "session")
    assert [one.path for step in steps for one in step.changes] == ["notes.txt", ".env"]
    assert journal_path(data, "session").stat().st_mode & 0o777 == 0o600
