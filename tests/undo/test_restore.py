"""What an undo does to files: earlier states come back, what the person did since stays, and a redo takes it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from search import sample
from undo.test_looks import git
from undo.world import World, files, tree

from nexus_cli.commands.undo import undo_text
from nexus_cli.config.worktree_record import worktrees_root
from nexus_cli.core.errors import NexusError
from nexus_cli.tree.file_state import ABSENT_STATE, FileState
from nexus_cli.undo.follow_changes import KILLED_MEANWHILE, ChangeJournal, StepOwner
from nexus_cli.undo.plan_restore import BETWEEN
from nexus_cli.undo.records import FileChange, ReferenceChange


@pytest.mark.matrix
def test_a_turn_that_went_wrong_is_taken_back_whole_and_brought_back(world: World) -> None:
    world.write("src/a.py", "print(1)\n", 0o755)
    world.write("src/deep/b.py", "b\n")
    world.write(".env", "KEY=1\n", 0o600)
    world.path("link").symlink_to("src/a.py")
    before = tree(world.project)

    def wreck() -> None:
        shutil.rmtree(world.path("src"))
        world.path(".env").unlink()
        world.path("link").unlink()
        world.path("link").symlink_to("/etc/passwd")
        world.write("new/x/y.txt", "new\n")

    world.turn(wreck)
    after = tree(world.project)
    report = world.undo()
    assert tree(world.project) == before
    assert report["turn"] == 1 and report["kept"] == [] and report["head_moved"] is None
    assert report["restored"] == [".env", "link", "src/a.py", "src/deep/b.py"] and report["removed"] == ["new/x/y.txt"]
    report = world.redo()
    assert files(tree(world.project)) == files(after)
    assert report["restored"] == ["link", "new/x/y.txt"]
    assert report["removed"] == [".env", "src/a.py", "src/deep/b.py"]
    world.undo()
    assert tree(world.project) == before


def test_undo_goes_back_turn_by_turn_and_redo_forward(world: World) -> None:
    states = [tree(world.project)]
    for number in range(4):
        world.turn(partial(world.write, "a.txt", f"{number}\n"))
        states.append(tree(world.project))
    for number in (3, 2, 1, 0):
        assert world.undo()["turn"] == number + 1
        assert tree(world.project) == states[number]
    assert world.undo() == {
        "version": 1,
        "action": "undo",
        "turn": None,
        "restored": [],
        "removed": [],
        "kept": [],
        "references": [],
        "head_moved": None,
        "not_covered": [],
        "unfollowed": [],
        "dry_run": False,
    }
    for number in (1, 2, 3, 4):
        assert world.redo()["turn"] == number
        assert tree(world.project) == states[number]
    assert world.redo()["turn"] is None
    assert world.undo()["turn"] == 4 and world.undo()["turn"] == 3
    world.turn(lambda: world.write("b.txt", "b\n"))
    assert world.undo()["turn"] == 5 and world.undo()["turn"] == 2
    assert world.undo(turn=2)["restored"] == [], "it is undone already"


@pytest.mark.matrix
def test_an_older_turn_is_taken_back_from_under_a_newer_one(world: World) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    world.write("a.txt", "".join(lines))
    world.turn(lambda: world.write("a.txt", "".join(["first\n", *lines[1:]])))
    world.turn(lambda: world.write("a.txt", "".join(["first\n", *lines[1:-1], "last\n"])))
    assert world.undo(turn=1)["restored"] == ["a.txt"]
    assert world.path("a.txt").read_text() == "".join([*lines[:-1], "last\n"])


def test_what_the_person_changed_since_is_merged_or_kept_with_ours_beside(world: World) -> None:
    text = "".join(f"{number}\n" for number in range(20))
    for name in ("merged", "clash", "binary", "gone"):
        world.write(name, text)
    world.write("binary", b"\0\1" * 50)

    def change() -> None:
        for name in ("merged", "clash", "gone"):
            world.write(name, text.replace("1\n", "one\n", 1), 0o600)
        world.write("binary", b"\0\2" * 50)
        world.write("made", "made\n")

    world.turn(change)
    world.write("merged", world.path("merged").read_text() + "mine\n", 0o600)
    world.write("clash", world.path("clash").read_text().replace("one", "mine"), 0o600)
    world.write("binary", b"\0\3" * 50)
    world.write("made", "made\nmine\n")
    world.write("clash.nexus-undo", "is there already\n")
    world.path("gone").unlink()
    preview, report = world.undo(dry_run=True), world.undo()
    assert world.path("merged").read_text() == text + "mine\n"
    assert world.path("merged").stat().st_mode & 0o777 == 0o644
    assert "mine" in world.path("clash").read_text() and world.path("clash.nexus-undo-2").read_text() == text
    assert world.path("clash.nexus-undo").read_text() == "is there already\n"
    assert world.path("binary").read_bytes() == b"\0\3" * 50
    assert world.path("binary.nexus-undo").read_bytes() == b"\0\1" * 50
    assert world.path("made").read_text() == "made\nmine\n"
    assert not world.path("gone").exists() and world.path("gone.nexus-undo").read_text() == text
    assert report["restored"] == ["merged"] and report["removed"] == []
    assert report["kept"] == [
        {"path": "binary", "why": "changed since", "aside": "binary.nexus-undo"},
        {"path": "clash", "why": "changed since", "aside": "clash.nexus-undo-2"},
        {"path": "gone", "why": "deleted since", "aside": "gone.nexus-undo"},
        {"path": "made", "why": "changed since", "aside": None},
    ]
    assert preview == report | {"dry_run": True}
    world.redo()
    assert not list(world.project.glob("*.nexus-undo-2")) and not world.path("gone.nexus-undo").exists()
    assert world.path("merged").read_text() == text.replace("1\n", "one\n", 1) + "mine\n"
    assert world.undo()["kept"] == report["kept"]


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.turn(lambda: world.write("a/b.txt", "b\n"))
    before = tree(world.project)
    assert world.undo(dry_run=True)["removed"] == ["a/b.txt"] and tree(world.project) == before
    assert world.undo()["removed"] == ["a/b.txt"]


def test_one_path_of_a_turn_is_taken_back_and_the_rest_later(world: World) -> None:
    for name in ("a", "src/b", "src/c"):
        world.write(name, "old\n")
    world.turn(lambda: [world.write(name, "new\n") for name in ("a", "src/b", "src/c")])
    world.turn(lambda: world.write("other", "x\n"))
    report = world.undo("src/b")
    assert report["turn"] == 1 and report["restored"] == ["src/b"]
    assert [world.path(name).read_text() for name in ("a", "src/b", "src/c")] == ["new\n", "old\n", "new\n"]
    assert world.undo("src")["restored"] == ["src/c"]
    assert world.undo("nowhere")["turn"] is None
    assert world.undo()["turn"] == 2 and world.undo()["restored"] == ["a"]
    world.redo()
    assert world.path("a").read_text() == "new\n" and world.path("src/b").read_text() == "old\n"


def test_a_mode_that_the_person_set_since_stays(world: World) -> None:
    world.write("a", "old\n", 0o644)
    world.turn(lambda: world.write("a", "new\n", 0o644))
    world.path("a").chmod(0o640)
    assert world.undo()["restored"] == ["a"]
    assert world.path("a").read_text() == "old\n" and world.path("a").stat().st_mode & 0o777 == 0o640


@pytest.mark.matrix
def test_a_change_with_the_same_size_and_time_is_seen(world: World) -> None:
    world.write("a", "old\n")
    world.turn(lambda: world.write("a", "new\n"))
    about = world.path("a").stat()
    with open(world.path("a"), "r+b") as file:
        file.write(b"own\n")
    os.utime(world.path("a"), ns=(about.st_atime_ns, about.st_mtime_ns))
    assert world.undo()["kept"][0]["aside"] == "a.nexus-undo"
    assert world.path("a").read_text() == "own\n"


def test_folders_and_files_that_changed_places_change_back(world: World) -> None:
    world.write("a/x", "x\n")
    world.write("a/y/z", "z\n")
    world.write("b", "b\n")
    before = tree(world.project)

    def swap() -> None:
        shutil.rmtree(world.path("a"))
        world.write("a", "a file\n")
        world.path("b").unlink()
        world.write("b/c/d", "d\n")

    world.turn(swap)
    after = tree(world.project)
    assert world.undo()["kept"] == []
    assert tree(world.project) == before
    assert world.redo()["kept"] == []
    assert tree(world.project) == after


@pytest.mark.parametrize("branches", [None, ["refs/heads/main", "refs/heads/other"]])
def test_a_moved_head_in_a_journal_of_version_0_2_is_told(world: World, branches: list[str] | None) -> None:
    old, new = "1" * 40, "2" * 40
    world.turn(lambda: world.write("a", "x\n"))
    place = world.data / "undo" / f"{world.session}.jsonl"
    row = {**json.loads(place.read_text()), "head": [old, new], "branch": branches}
    del row["references"]
    place.write_text(json.dumps(row) + "\n")
    command = f"git reset --soft {old}"
    if branches:
        command = f"git symbolic-ref HEAD refs/heads/main && git reset -q {old}"
    assert world.undo()["head_moved"] == {"before": old, "after": new, "command": command}


@pytest.mark.parametrize(
    ("start", "commands"),
    sample(
        [
            ("main", ["git commit -qam two"]),
            ("main", ["git checkout -q feature"]),
            ("main", ["git checkout -q -b other"]),
            ("main", ["git commit -qam two", "git checkout -q -b other", "echo x > a; git commit -qam three"]),
            ("main", ["git checkout -q --detach feature"]),
            ("main^", ["git checkout -q feature"]),
        ],
        3,
        2,
    ),
)
def test_head_is_moved_back_or_the_command_is_told_that_moves_it_and_no_other_branch(
    world: World, monkeypatch: pytest.MonkeyPatch, start: str, commands: list[str]
) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@x.org")

    def shell(command: str) -> str:
        return subprocess.run(
            ["sh", "-ec", command], cwd=world.project, check=True, capture_output=True
        ).stdout.decode()

    def repository() -> str:
        return shell("git for-each-ref refs/heads/main refs/heads/feature; git rev-parse HEAD --abbrev-ref HEAD")

    commit = "echo $RANDOM$$ >> a; git add -A; git commit -qm x"
    shell(f"git init -q -b main; echo b > b; {commit}; git checkout -q -b feature; {commit}; git checkout -q main")
    shell(f"{commit}; git checkout -q {start}; echo changed > b")
    before = repository()
    journal = ChangeJournal(world.data)
    for number, command in enumerate(["echo new > new", *commands]):
        begun = journal.begin(StepOwner(world.session, 1), command, f"c{number}", world.project)
        shell(command)
        journal.end(begun)
    world.turns, after = 1, repository()
    assert world.undo()["head_moved"] is None and repository() == before != after
    assert world.redo()["head_moved"] is None and repository() == after
    shell("git commit -q --allow-empty -m mine")
    mine = repository()
    told = world.undo()["head_moved"]
    assert repository().splitlines()[2:] == mine.splitlines()[2:], "the commit of the person stays"
    shell(told["command"])
    assert repository().splitlines()[2:] == before.splitlines()[2:]


@pytest.mark.matrix
def test_a_later_turn_that_only_committed_is_taken_back_first(world: World) -> None:
    run = partial(subprocess.run, cwd=world.project, check=True, capture_output=True)
    own = ("git", "-c", "user.name=n", "-c", "user.email=n@x.org")
    run([*own, "init", "-q"])
    run([*own, "commit", "-q", "--allow-empty", "-m", "one"])
    journal, commands = ChangeJournal(world.data), (["touch", "made"], [*own, "commit", "-qm", "two", "--allow-empty"])
    heads = []
    for turn, command in enumerate(commands, 1):
        begun = journal.begin(StepOwner(world.session, turn), "bash", "c", world.project)
        heads.append(git(world.project, "rev-parse", "HEAD"))
        run(command)
        journal.end(begun)
    world.turns = 2
    assert world.undo()["turn"] == 2 and git(world.project, "rev-parse", "HEAD") == heads[0]
    assert world.undo()["removed"] == ["made"] and world.undo()["turn"] is None
    assert world.redo()["turn"] == 1 and world.redo()["turn"] == 2
    assert b"two" in git(world.project, "log", "-1")


def test_a_command_that_could_not_be_followed_is_named(world: World) -> None:
    world.turn(lambda: world.write("a", "x\n"))
    world.turns += 1
    world.record((), unfollowed="the project has too many files")
    assert world.undo()["unfollowed"] == ["bash sh -c x: the project has too many files"]


def test_an_unknown_turn_is_refused(world: World) -> None:
    world.turn(lambda: world.write("a", "x\n"))
    with pytest.raises(NexusError, match="turn 2") as caught:
        world.undo(turn=2)
    assert caught.value.exit_status == 2
    world.turns = 5
    assert world.undo(turn=2) | {"turn": 2, "restored": [], "removed": []} == world.undo(turn=2)


def test_content_that_is_no_longer_kept_is_told_and_nothing_is_lost(world: World) -> None:
    world.write("a", "old\n")
    world.write("b", "old b\n")
    world.turn(lambda: [world.write("a", "new\n"), world.write("b", "new b\n")])
    shutil.rmtree(world.store.objects)
    report = world.undo()
    assert [(one["path"], one["aside"]) for one in report["kept"]] == [("a", None), ("b", None)]
    assert "no readable copy of the earlier content" in report["kept"][0]["why"]
    assert world.path("a").read_text() == "new\n" and len(tree(world.project)) == 2


def test_a_project_that_a_command_removed_is_made_again(world: World, tmp_path: Path) -> None:
    world.write("a/b", "b\n")
    before = tree(world.project)
    world.turn(lambda: shutil.rmtree(world.path("a")))
    world.project.rmdir()
    assert world.undo()["restored"] == ["a/b"] and tree(world.project) == before


def test_a_project_that_was_moved_is_not_made_again(world: World, tmp_path: Path) -> None:
    world.write("a", "one\n")
    world.turn(lambda: [world.write("a", "two\n"), world.write("b", "new\n")])
    world.project.rename(tmp_path / "moved")
    for turn in (None, 1):
        report = world.undo(turn=turn)
        why = "this folder was moved or deleted; move it back and try again, or specify an earlier turn"
        assert report["kept"] == [{"path": str(world.project), "why": why, "aside": None}], report
        assert report["turn"] is None and not report["restored"] and not world.project.exists()
    (tmp_path / "moved").rename(world.project)
    assert world.undo()["restored"] == ["a"] and world.path("a").read_text() == "one\n"


def test_a_turn_in_a_folder_that_was_moved_is_not_taken_for_undone(world: World, tmp_path: Path) -> None:
    world.write("a", "one\n")
    world.turn(lambda: world.write("a", "two\n"))
    world.turns, out = 2, tmp_path / "out"
    world.record((FileChange("new", FileState("absent"), world.state(world.write("../out/new"))),), root=str(out))
    out.rename(tmp_path / "moved")
    (kept,) = world.undo()["kept"]
    assert kept["path"] == str(out) and "move it back" in kept["why"] and "specify an earlier turn" in kept["why"]
    assert world.undo(turn=1)["restored"] == ["a"] and world.path("a").read_text() == "one\n"
    (tmp_path / "moved").rename(out)
    assert world.undo()["removed"] == [str(out / "new")] and not (out / "new").exists()


def test_a_file_that_was_moved_away_is_undone_once_it_is_back(world: World, tmp_path: Path) -> None:
    world.write("a", "one\n")
    world.turn(lambda: world.write("a", "two\n"))
    world.turn(lambda: world.write("new", "x\n"))
    (made := world.path("new")).rename(tmp_path / "away")
    assert world.undo()["removed"] == [] and world.undo()["restored"] == ["a"]
    (tmp_path / "away").rename(made)
    assert world.undo()["removed"] == ["new"] and not made.exists()
    assert world.redo()["restored"] == ["new"] and made.read_text() == "x\n"


def test_a_moved_project_in_which_a_turn_only_committed_is_kept_as_a_whole(world: World, tmp_path: Path) -> None:
    world.turns = 1
    world.record((), references=(ReferenceChange("", "refs/heads/main", "", "1" * 40),))
    world.project.rename(tmp_path / "moved")
    (kept,) = world.undo()["kept"]
    assert kept["path"] == str(world.project) and "move it back" in kept["why"]


@pytest.mark.parametrize("is_applied", [False, True])
def test_of_a_removed_worktree_the_undo_of_its_apply_is_named_only_if_it_was_applied(
    world: World, is_applied: bool
) -> None:
    world.turns, root = 1, str(worktrees_root() / "project-1" / "w1")
    state = world.state(world.write("new"))
    world.record((FileChange("new", replace(state, mode=0o600), state),), root=root)
    if is_applied:
        (world.data / "undo" / "worktree-w1.jsonl").touch()
    (kept,) = world.undo()["kept"]
    assert kept["why"].startswith("this worktree was removed")
    assert ("nexus undo --session worktree-w1" in kept["why"]) == is_applied


def test_what_somebody_else_changed_between_two_steps_of_a_turn_stays(world: World) -> None:
    lines = [f"line {number}\n" for number in range(30)]
    world.write("f", "".join(lines))
    world.turn(lambda: world.write("f", world.path("f").read_text().replace("line 3\n", "agent\n")))
    world.write("f", world.path("f").read_text().replace("line 15\n", "person\n"))
    world.turns -= 1  # the same turn goes on
    world.turn(lambda: world.write("f", world.path("f").read_text().replace("line 25\n", "agent\n")))
    report = world.undo()
    assert "person\n" in world.path("f").read_text() and report["restored"] == []
    assert report["kept"] == [{"path": "f", "why": BETWEEN, "aside": "f.nexus-undo"}]
    assert world.path("f.nexus-undo").read_text() == "".join(lines)


def test_a_turn_in_which_nexus_was_killed_is_taken_back_only_by_its_number(world: World) -> None:
    before = world.state(world.write("f", "one\n"))
    after = world.state(world.write("f", "the person's, or the command's\n"))
    world.turns = 1
    world.record((FileChange("f", before, after),), unfollowed=KILLED_MEANWHILE)
    with pytest.raises(NexusError, match="killed") as caught:
        world.undo()
    assert "nexus undo --turn 1" in caught.value.hint and world.path("f").read_text() != "one\n"
    assert world.undo(turn=1)["restored"] == ["f"] and world.path("f").read_text() == "one\n"


def test_a_killed_turn_is_told_of_with_its_own_undo_alone_and_not_refused_if_nothing_is_left(world: World) -> None:
    world.write("f", "one\n")
    world.turn(lambda: world.write("f", "two\n"))
    made = world.state(world.write("slow.txt", "one\n"))
    world.turns = 2
    world.record((FileChange("slow.txt", ABSENT_STATE, made),), unfollowed=KILLED_MEANWHILE)
    first = world.undo(turn=1)
    assert first["restored"] == ["f"] and first["unfollowed"] == []
    with pytest.raises(NexusError, match="turn 2: nexus was killed"):
        world.undo()
    world.path("slow.txt").unlink()
    told = f"bash sh -c x: {KILLED_MEANWHILE}"
    for report in (world.undo(dry_run=True), world.undo(turn=2, dry_run=True), world.undo()):
        assert (report["turn"], report["removed"], report["unfollowed"]) == (2, [], [told])
        assert next(iter(undo_text(report))) == "Nothing to undo in turn 2."
    assert world.undo()["turn"] is None


def test_an_edit_is_taken_back_by_its_path_in_the_project_and_outside_of_it(world: World, tmp_path: Path) -> None:
    inside, outside = world.path("src/a.py"), tmp_path / "library" / "b.py"
    for path in (inside, outside):
        path.parent.mkdir(parents=True)
        path.write_text("old\n")
    journal = ChangeJournal(world.data)
    before = journal.read_targets([inside, outside])
    begun = journal.begin_edit(StepOwner(world.session, 1), "edit_file", "c1", world.project, before)
    inside.write_text("new\n")
    outside.write_text("new\n")
    journal.record_edit(world.project, begun)
    world.turns = 1
    assert world.undo("src/a.py")["restored"] == ["src/a.py"]
    assert (inside.read_text(), outside.read_text()) == ("old\n", "new\n")
    assert world.undo()["restored"] == [str(outside)] and outside.read_text() == "old\n"
