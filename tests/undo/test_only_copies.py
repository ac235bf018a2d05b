"""An undo never removes the only copy of what was not of the turn: files moved in, the person's and other sessions'."""

from __future__ import annotations

import codecs
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from undo.test_looks import git, repository
from undo.world import World, files, tree

from nexus_cli.undo.coverage import REBUILT
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.plan_restore import MOVED_IN


@contextmanager
def followed(world: World, *, session: str = "", turn: int = 0) -> Iterator[list[str]]:
    """Follow what happens in here as a command of a session."""
    journal = ChangeJournal(world.data)
    names: list[str] = []
    begun = journal.begin(StepOwner(session or world.session, turn or world.turns), "bash", "c1", world.project)
    yield names
    names += journal.end(begun)
    journal.close()


def command(world: World, line: str) -> None:
    """A turn that runs one command."""
    world.turns += 1
    with followed(world):
        subprocess.run(["bash", "-c", line], cwd=world.project, check=True, timeout=20)


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1_700_000_000, 1_700_000_000), follow_symlinks=False)


@pytest.mark.matrix
def test_what_was_moved_in_from_where_nothing_is_followed_stays(world: World, tmp_path: Path) -> None:
    for has_git in (False, True):
        if has_git:
            repository(world.project)
            (world.project / ".gitignore").write_text("node_modules/\n")
        ignored = "node_modules"
        world.write("package-lock.json", "{}")
        outside = tmp_path / f"outside-{has_git}"
        outside.write_text("only copy outside\n")
        inside = world.write(f"{ignored}/model.bin", "only copy inside\n")
        link = world.path(f"{ignored}/current")
        link.symlink_to("model.bin")
        age(outside, inside, link)
        command(world, f"mv {ignored}/model.bin . && mv {ignored}/current . && mv {outside} taken && echo x > made")
        report = world.undo()
        kept = [{"path": path, "why": MOVED_IN, "aside": None} for path in ("current", "model.bin", "taken")]
        assert report["kept"] == kept and report["removed"] == ["made"]
        assert world.path("model.bin").read_text() == "only copy inside\n"
        assert world.path("taken").read_text() == "only copy outside\n"
        for path in ("model.bin", "taken", "current"):
            world.path(path).unlink()


@pytest.mark.matrix
def test_what_was_moved_or_copied_inside_is_undone(world: World) -> None:
    repository(world.project)
    world.write("big.bin", os.urandom(6_000_000))
    age(*(world.path(name) for name in ("src/a.py", "src/b.py", "run.sh", "notes.txt", "big.bin", ".env")))
    git(world.project, "status")
    before = files(tree(world.project))
    command(
        world,
        "git mv src/a.py a2.py && mv notes.txt n2 && mv big.bin b2 && cp -p .env .env2 && cp -a src src2 && rm run.sh",
    )
    report = world.undo()
    assert report["kept"] == []
    after = files(tree(world.project))
    assert {name: one for name, one in after.items() if not name.startswith(".git/")} == {
        name: one for name, one in before.items() if not name.startswith(".git/")
    }


@pytest.mark.matrix
def test_a_removed_folder_that_tools_fill_is_named(world: World) -> None:
    for has_git in (False, True):
        if has_git:
            repository(world.project)
            (world.project / ".gitignore").write_text("node_modules\n.venv\n__pycache__\n")
        world.write("package-lock.json", "{}")
        world.write("node_modules/mine.txt", "own\n")
        world.write("pkg/.venv/mine.txt", "own\n")
        world.write("pkg/.venv/pyvenv.cfg", "home = /usr\n")
        world.write("pkg/__pycache__/a.pyc", "made\n")
        command(world, "rm -rf node_modules pkg/__pycache__")
        assert world.undo(turn=world.turns)["not_covered"] == [{"path": "node_modules", "why": REBUILT}]
        command(world, "rm -rf pkg && mkdir pkg")
        assert {"path": "pkg/.venv", "why": REBUILT} in world.undo()["not_covered"]


def test_a_project_that_its_own_command_removed_comes_back(world: World) -> None:
    world.write("a/b", "b\n")
    before = tree(world.project)
    command(world, f"cd .. && rm -rf {world.project}")
    assert world.undo()["restored"] == ["a/b"] and tree(world.project) == before
    repository(world.project)
    before = tree(world.project)
    command(world, f"cd .. && rm -rf {world.project}")
    report = world.undo()
    assert {".git", "a/b", "src/a.py", ".env", "link"} <= set(report["restored"])
    assert not report["kept"] and not report["unfollowed"]
    assert files(tree(world.project)) == files(before)


@pytest.mark.matrix
def test_folders_with_the_names_of_tools_come_back(world: World) -> None:
    for has_git in (False, True):
        if has_git:
            repository(world.project)
            (world.project / ".gitignore").write_text("build/\nnode_modules/\n__pycache__/\n")
        for name in "node_modules/x build/a.txt dist/b.txt vendor/c target/d .venv/e __pycache__/notes.txt".split():
            world.write(name, "by hand\n")
        before = files(tree(world.project))
        command(world, "rm -rf build dist vendor target .venv __pycache__ node_modules")
        world.undo()
        assert files(tree(world.project)) == before


@pytest.mark.matrix
def test_a_folder_of_a_tool_that_git_does_not_ignore_comes_back(world: World) -> None:
    repository(world.project)
    (world.project / ".gitignore").write_text("")
    world.write("composer.lock", "{}")
    world.write("vendor/own.php", "x\n")
    command(world, "rm -rf vendor")
    assert world.undo()["restored"] == ["vendor/own.php"]


def test_a_folder_that_tools_fill_is_named_if_something_in_it_may_have_changed(world: World) -> None:
    for name in (
        "package-lock.json",
        "node_modules/lib/i.js",
        "node_modules/j.js",
        "node_modules/.cache/x",
        "__pycache__/a.pyc",
    ):
        world.write(name, "x\n")
    command(world, "mkdir -p node_modules/.cache/y; touch __pycache__/b.pyc")
    assert world.undo()["not_covered"] == world.undo()["unfollowed"] == []
    command(world, "echo > node_modules/lib/i.js")
    report = world.undo()
    assert report["not_covered"] == [{"path": "node_modules", "why": REBUILT}]
    assert report["unfollowed"] == [f"node_modules: {REBUILT}"]
    assert not world.undo("package-lock.json")["not_covered"] and world.undo("node_modules")["not_covered"]


@contextmanager
def not_root(*folders: Path) -> Iterator[None]:
    """Without the rights of root; `folders` belong to who works then."""
    if os.geteuid():
        yield
        return
    codecs.lookup("ascii")  # its module may be where only root reads
    for folder in folders:
        subprocess.run(["chown", "-R", "65534:65534", str(folder)], check=True)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_a_closed_folder_held_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_git in (False, True):
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            folder = Path(os.path.realpath(place))
            world = World(folder / "project", folder / "data")
            world.project.mkdir()
            monkeypatch.setenv("HOME", place)
            monkeypatch.setenv("NEXUS_HOME", place)
            if has_git:
                repository(world.project)
            world.write("closed/deep/own.txt", "only copy\n")
            world.write("closed/other.txt", "only copy\n")
            with not_root(folder):
                world.path("closed").chmod(0)
                command(world, "chmod 700 closed; echo more >> closed/deep/own.txt; echo x > made; rm closed/other.txt")
                report = world.undo()
                assert report["removed"] == ["made"] and report["restored"] == ["closed/"], report
                assert world.path("closed").stat().st_mode & 0o777 == 0
                world.path("closed").chmod(0o700)
                assert world.path("closed/deep/own.txt").read_text() == "only copy\nmore\n"


def edit(world: World, name: str, text: str, *, session: str = "", turn: int = 0) -> None:
    """An edit by a tool."""
    journal = ChangeJournal(world.data)
    before = journal.read_targets([world.path(name)])
    owner = StepOwner(session or world.session, turn or world.turns)
    begun = journal.begin_edit(owner, "edit_file", "c2", world.project, before)
    world.write(name, text)
    journal.record_edit(world.project, begun)


@pytest.mark.matrix
@pytest.mark.parametrize("has_git", [False, True])
def test_edits_of_another_session_while_a_command_runs_are_not_its_own(world: World, has_git: bool) -> None:
    for name in ("theirs", "then-mine", "mine-first", "mode"):
        world.write(name, "0\n")
    if has_git:
        repository(world.project)
    world.turns = 1
    with followed(world) as names:
        world.write("mine", "mine\n")
        world.write("mine-first", "one\n")
        edit(world, "theirs", "first theirs\n", session="other", turn=1)
        edit(world, "theirs", "theirs\n", session="other", turn=1)
        edit(world, "then-mine", "theirs\n", session="other", turn=1)
        edit(world, "mine-first", "one and theirs\n", session="other", turn=1)
        edit(world, "mode", "theirs\n", session="other", turn=1)
        world.path("mode").chmod(0o755)
        world.write("then-mine", "theirs, then mine\n")
    assert names == ["mine", "mine-first", "mode", "then-mine"]
    report = world.undo()
    assert report["removed"] == ["mine"] and world.path("theirs").read_text() == "theirs\n"
    assert world.path("then-mine").read_text() == "theirs\n"
    assert world.path("mode").read_text() == "theirs\n" and world.path("mode").stat().st_mode & 0o777 == 0o644
    assert [(one["path"], one["aside"]) for one in report["kept"]] == [("mine-first", "mine-first.nexus-undo")]
    assert world.path("mine-first").read_text() == "one and theirs\n"


@pytest.mark.matrix
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("command", ["sh gen.sh", "sh gen.sh > theirs"])
def test_what_a_command_of_another_session_half_wrote_meanwhile_is_left_unless_that_names_it(
    world: World, is_first: bool, command: str
) -> None:
    world.write("mine", "0\n")
    world.write(".gitignore", "local\n")
    repository(world.project)
    mine, other = ChangeJournal(world.data), ChangeJournal(world.data)
    theirs = StepOwner("other", 1), f"bash {command}", "c2", world.project
    if is_first:
        begun_other = other.begin(*theirs)
    begun = mine.begin(StepOwner(world.session, 1), "bash echo > mine", "c1", world.project)
    if not is_first:
        begun_other = other.begin(*theirs)
    world.write("theirs", "half\n")
    world.write("mine", "1\n")
    world.write("local", "of whom?\n")
    world.write(".pytest_cache/v", "of a tool\n")
    mine.end(begun, "echo > mine")
    world.write("theirs", "whole\n")
    world.write("more", "whole\n")
    other.end(begun_other, command)
    mine.close()
    other.close()
    world.turns = 1
    report = world.undo()
    assert report["restored"] == ["mine"] and [one["path"] for one in report["kept"]] == ["local", "theirs"]
    assert report["removed"] == [".pytest_cache/v"]
    assert (world.path("theirs").read_text(), world.path("mine").read_text()) == ("whole\n", "0\n")
    world.session = "other"
    report, is_named = world.undo(), "theirs" in command
    assert report["removed"] == (["more", "theirs"] if is_named else ["more"])
    assert [one["path"] for one in report["kept"]] == ["local", "theirs"][: 2 - is_named]
    assert not world.undo(takes_unsure=True)["kept"] and not world.path("theirs").exists()


@pytest.mark.parametrize("how", ["killed", "apply", "names all"])
def test_what_another_session_left_to_the_person_stays(world: World, how: str) -> None:
    world.write("notes", "old\n")
    mine, other = ChangeJournal(world.data), ChangeJournal(world.data)
    begun = mine.begin(StepOwner(world.session, 1), "bash ruff format .", "c1", world.project)
    begun_other = other.begin(StepOwner("other", 1), "bash make", "c2", world.project)
    begun_other.started -= 5
    world.write("notes", "of the person\n")
    other.end(begun_other, "make")
    other.close()
    if how == "killed" and mine._lock is not None:
        mine._lock.release()
    else:
        mine.end(begun, "ruff format ." if how == "names all" else "")
    world.turns = 1
    world.undo(turn=1)
    assert world.path("notes").read_text() == "of the person\n"


@pytest.mark.parametrize("is_running", [False, True])
def test_a_session_in_another_project_makes_nothing_unsure(world: World, tmp_path: Path, is_running: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine, other = ChangeJournal(world.data), ChangeJournal(world.data)
    begun = mine.begin(StepOwner(world.session, 1), "bash sh gen.sh", "c1", world.project)
    begun_other = other.begin(StepOwner("other", 1), "bash make", "c2", elsewhere)
    begun_other.started -= 5
    (elsewhere / "notes").write_text("of the person\n")
    if not is_running:
        other.end(begun_other, "make")
    world.write("new", "its\n")
    mine.end(begun, "sh gen.sh")
    world.turns = 1
    assert world.undo()["removed"] == ["new"]


def test_two_workers_of_a_turn_that_change_one_folder_at_once_are_taken_back_whole(world: World) -> None:
    for name in "abc":
        world.write(name, "0\n")
    before = files(tree(world.project))
    world.turns = 1
    with followed(world):
        world.write("a", "1\n")
        with followed(world):
            world.write("b", "2\n")
            edit(world, "c", "edited\n")
        world.write("b", "2 and more\n")
    report = world.undo()
    assert report["kept"] == [] and files(tree(world.project)) == before


@pytest.mark.matrix
@pytest.mark.parametrize("last", ["theirs\n", "mine again\n"])
def test_the_original_of_what_a_command_and_then_another_session_changed_can_be_reached(
    world: World, last: str
) -> None:
    world.write("a", "original\n")
    world.turns = 1
    with followed(world) as names:
        world.write("a", "mine\n")
        edit(world, "a", "theirs\n", session="other", turn=1)
        world.write("a", last)
    assert names == ["a"]
    (kept,) = world.undo()["kept"]
    assert world.path("a").read_text() == last and world.path(kept["aside"]).read_text() == "original\n"


@pytest.mark.parametrize("last", ["edited\n", "by the command\n"])
def test_the_original_of_what_a_command_and_then_an_edit_of_the_turn_changed_comes_back(
    world: World, last: str
) -> None:
    world.write("a", "original\n")
    world.turns = 1
    with followed(world):
        world.write("a", "by the command first\n")
        with followed(world):
            edit(world, "a", "edited\n")
        world.write("a", last)
    report = world.undo()
    assert (report["restored"], report["kept"]) == (["a"], []) and world.path("a").read_text() == "original\n"
    assert world.redo()["restored"] == ["a"] and world.path("a").read_text() == last


def test_an_undo_while_a_command_runs_is_not_its_change(world: World) -> None:
    world.write("a", "0\n")
    world.turn(lambda: world.write("a", "1\n"))
    world.turns = 2
    with followed(world):
        world.undo(turn=1)
        world.write("b", "2\n")
    assert world.undo()["removed"] == ["b"] and world.path("a").read_text() == "0\n"
    assert world.redo()["restored"] == ["b"]


def test_what_was_recorded_while_the_first_look_was_taken_is_not_of_the_command(world: World) -> None:
    world.turns = 1
    early = datetime.now(UTC).isoformat(timespec="milliseconds")
    edit(world, "a", "1\n")
    journal = ChangeJournal(world.data)
    begun = journal.begin(StepOwner(world.session, 1), "bash", "", world.project)
    begun.step = replace(begun.step, at=early)
    edit(world, "a", "1\n2\n")
    journal.end(begun)
    assert world.undo()["removed"] == ["a"]
