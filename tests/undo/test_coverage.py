"""What undo does not cover is named before the command, and afterwards if it may have changed."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from undo.test_looks import git
from undo.world import World, tree

from nexus_cli.tree import read_state
from nexus_cli.tree.read_state import StateReader
from nexus_cli.undo.coverage import PROJECT_ITSELF, REBUILT, describe_uncovered, names_outside
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.project_look import LINKED, SPECIAL_FILE
from nexus_cli.undo.records import MAX_LEVELS, TOO_DEEP


def run_command(world: World, work: Callable[[], object]) -> str:
    """A turn whose command does `work`; return what is said before it."""
    world.turns += 1
    journal = ChangeJournal(world.data)
    begun = journal.begin(StepOwner(world.session, world.turns), "bash", "c", world.project)
    work()
    journal.end(begun)
    journal.close()
    return describe_uncovered(begun.not_covered)


def test_a_large_file_is_named_before_the_command_and_after_it_if_it_was_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateReader, "is_late", True)  # there is no time to copy it
    large = world.write("data.db", "x" * 2_000_000)
    world.write("tiny.db", "x")
    named = run_command(world, lambda: world.write("its.txt"))
    assert named == f"undo will not cover data.db (2 MB, {LINKED}), tiny.db ({LINKED})", "small: the size is no reason"
    report = world.undo()
    assert report["removed"] == ["its.txt"] and not report["not_covered"]
    run_command(world, lambda: large.write_bytes(b"y"))
    report = world.undo()
    assert [one["path"] for one in report["not_covered"]] == ["data.db"] and not report["restored"]


def test_a_file_above_all_that_a_look_copies_is_copied_if_the_person_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_state, "MAX_COPIED_AT_ONCE", 1_000_000)
    world.write("data.db", "x" * 2_000_000)
    for most, what in ((3_000_000, "sha256"), (1_500_000, "link")):
        begun = ChangeJournal(world.data, most_file=most).begin(StepOwner(world.session, 1), "bash", "c", world.project)
        assert begun.look is not None and begun.look.states["data.db"].state.content.startswith(f"{what}:")
        assert bool(begun.not_covered) == (what == "link")


def test_a_socket_is_named_before_the_command(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(world.project / "s"))
        assert run_command(world, lambda: None) == f"undo will not cover s ({SPECIAL_FILE})"


def test_nothing_to_undo_is_said_only_after_a_whole_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.project))
    assert "all of the project (the home folder" in run_command(world, lambda: world.write("a"))
    report = world.undo()
    assert [one["path"] for one in report["not_covered"]] == [PROJECT_ITSELF] and not report["removed"]


@pytest.mark.matrix
def test_a_folder_of_a_tool_that_is_too_deep_to_search_may_have_changed(world: World) -> None:
    world.write("package.json", "{}")
    subprocess.run(["mkdir", "-p", "node_modules" + "/d" * 1200], cwd=world.project, check=True)
    time.sleep(0.1)
    try:
        run_command(world, lambda: None)
        assert [one["path"] for one in world.undo()["not_covered"]] == ["node_modules"]
    finally:  # pytest could not remove it
        subprocess.run(["rm", "-rf", "node_modules"], cwd=world.project, check=True)


@pytest.mark.matrix
def test_folders_that_are_too_deep_are_named_and_what_is_above_comes_back(world: World) -> None:
    """In the project and in git's own folder, which is copied but for them; nobody is stopped by them."""
    git(world.project, "init", "-q")
    world.write("a.py", "a\n")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "first")
    levels, deep = "d/" * MAX_LEVELS, world.project / ".git/refs/heads"
    world.write(f"{levels}last", "old\n")
    for folder in (world.project / levels, deep):
        subprocess.run(["mkdir", "-p", "d/" * 400], cwd=folder, check=True)
    before = {path: one for path, one in tree(world.project).items() if path == "a.py" or path.startswith("d")}
    try:
        said = run_command(world, lambda: subprocess.run(["rm", "-rf", "d", ".git"], cwd=world.project, check=True))
        assert said.count(TOO_DEEP) == 2 and ".git (" in said
        report = world.undo()
    finally:  # pytest could not remove it
        subprocess.run(["rm", "-rf", str(deep / "d")], check=True)
    assert [one["path"] for one in report["not_covered"]] == [f"{levels}d", ".git"]
    after = tree(world.project)
    lost = {path for path, one in before.items() if after.get(path) != one}
    assert lost == {path for path in before if path.startswith(f"{levels}d/")} and git(world.project, "log")


@pytest.mark.matrix
def test_what_a_command_moves_too_deep_comes_back_and_where_it_is_is_told(world: World) -> None:
    own = world.write("work/a.py", "own\n")
    levels = "d/" * (MAX_LEVELS + 5)
    run_command(
        world,
        lambda: subprocess.run(["sh", "-c", f"mkdir -p {levels}; mv work {levels}"], cwd=world.project, check=True),
    )
    report = world.undo()
    assert own.read_text() == "own\n" and (world.project / levels / "work/a.py").exists()
    assert [one["path"] for one in report["not_covered"]] == ["d/" * MAX_LEVELS + "d"], report


def test_folders_that_a_tool_fills_again_are_not_named_before_a_command() -> None:
    assert describe_uncovered({"node_modules": REBUILT}) == ""
    assert describe_uncovered({"a\nnexus: b": "9 MB"}) == "undo will not cover a nexus: b (9 MB)"
    many = {f"{number}.db": "9 MB" for number in range(5)}
    assert describe_uncovered(many) == "undo will not cover 0.db (9 MB), 1.db (9 MB), 2.db (9 MB) and 2 more"


@pytest.mark.parametrize(
    "command", ["rm -rf ~/x", "cd ../second && rm a", "echo >/srv/x", "cp a $HOME", "tee '/etc/x'"]
)
def test_a_command_that_names_a_path_outside_is_known(command: str) -> None:
    assert names_outside(command, "/q/p", ["/q/p", "/q/a"])


@pytest.mark.parametrize("command", ["rm -rf x", "/usr/bin/env a >/dev/null", "cat /q/p/a", "a/b", "rm ../a/x"])
def test_a_command_that_names_none_is_known(command: str) -> None:
    assert not names_outside(command, "/q/p", ["/q/p", "/q/a"])


def test_a_journal_keeps_what_was_not_covered_for_another_process(world: World, tmp_path: Path) -> None:
    world.turns = 1
    world.record((), not_covered=(("gone.db", "9 MB"),), began="2026-01-01T00:00:00Z")
    report = world.undo()
    assert report["not_covered"] == [{"path": "gone.db", "why": "9 MB"}] and report["unfollowed"] == ["gone.db: 9 MB"]
