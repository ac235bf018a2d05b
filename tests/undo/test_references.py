"""Repositories of a project are places: their folders and their references come back."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search import sample
from undo.test_only_copies import command, followed
from undo.world import World, files, tree

from nexus_cli.commands.forms import find_form
from nexus_cli.reports.turn_changes import count_turns
from nexus_cli.reports.turn_diff import turn_diff
from nexus_cli.undo import follow_repositories, repository_copy, restore, restore_references, undo_files, unsure_changes
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.follow_repositories import EMPTIED_LOG, PUSHED
from nexus_cli.undo.plan_restore import UNSURE
from nexus_cli.undo.rewind_turns import find_turns
from nexus_cli.worktrees.own_repository import HOLDS

STATE = (
    "git for-each-ref; git stash list; git status --porcelain=v2 --branch; git rev-parse -q HEAD; "
    "git symbolic-ref -q HEAD; git fsck --no-dangling --no-progress 2>&1; git diff; git diff --cached"
)


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "n")


def shell(folder: Path, line: str) -> str:
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout


def fill(folder: Path) -> None:
    """A repository with two branches, a tag, a stash, a staged and an unstaged change."""
    folder.mkdir(parents=True, exist_ok=True)
    shell(
        folder,
        "git init -q -b main; echo 1 > a; echo 1 > b; git add -A; git commit -qm one; git branch feat; "
        "echo 2 > a; git commit -qam two; git checkout -q feat; echo f > a; git commit -qam feature; "
        "git checkout -q main; git tag v1; echo s > b; git stash -q; echo t > b; git stash -q; "
        "echo staged > a; git add a; echo unstaged > a",
    )


def read(folder: Path) -> str:
    return shell(folder, STATE)


@pytest.mark.parametrize("is_parent", sample([False, True], 2))
def test_a_repository_inside_the_project_comes_back_with_its_unpushed_commits(world: World, is_parent: bool) -> None:
    if is_parent:
        shell(world.project, "git init -q -b main; echo x > x; git add x; git commit -qm parent")
    for name in ("api", "web"):
        fill(world.path(name))
    states, before = [read(world.path(name)) for name in ("api", "web")], files(tree(world.project))
    command(world, "rm -rf api")
    report = world.undo()
    assert {"api/.git", "api/a", "api/b"} == set(report["restored"]) and not report["unfollowed"]
    assert files(tree(world.project)) == before
    assert [read(world.path(name)) for name in ("api", "web")] == states


LOSSES = (
    "git branch -qD feat; git stash drop -q; git reflog expire --expire=now --all; git gc -q --prune=now",
    "git commit -qam x",
    "git commit -q --amend -m y",
    "git reset -q --soft HEAD^; git commit -qm squashed",
    "git tag -d v1; git tag v2",
    "git config core.editor evil; printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "git stash -q; git checkout -q feat",
    "git stash -q; git rebase -q feat",
    "git stash -q; git merge -q feat",
    "git stash -q; git cherry-pick feat",
    "git stash -q; git merge -q -X theirs feat; git branch -d feat",
    "git checkout -q --detach; git commit -qm detached",
    "git reset -q --hard; git stash pop -q",
    "git branch -D feat; git branch feat/a; git pack-refs --all",
    "git checkout -q --orphan new; git commit -qm root; git branch -D main; git branch main",
    "git reset -q --hard; git gc -q --prune=now",
    "rm -rf .git; git init -q -b main; git add -A; git commit -qm anew; git branch mine",
)


@pytest.mark.parametrize("line", sample(LOSSES, 16))
def test_what_a_turn_did_to_references_is_taken_back_and_brought_back(world: World, line: str) -> None:
    fill(world.project)
    before = read(world.project)
    command(world, f"{line}; true")
    after = read(world.project)
    assert after != before or "config" in line
    config = world.path(".git/config").read_bytes()
    report = world.undo()
    assert not report["kept"] and report["head_moved"] is None
    assert [EMPTIED_LOG in one for one in report["unfollowed"]] == [True] * ("reflog expire" in line)
    assert report["turn"] == 1 and all(one["restored"] for one in report["references"])
    assert read(world.project) == before
    assert not [*world.path(".git").glob("[CM]*_HEAD")] and not world.path(".git/hooks/pre-commit").exists()
    assert "restored" in find_form("undo")(report, 200) or "removed" in find_form("undo")(report, 200)
    assert world.undo()["turn"] is None
    assert not world.redo()["kept"]
    assert read(world.project) == after and world.path(".git/config").read_bytes() == config
    world.undo()
    assert read(world.project) == before


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rm -rf .git", ".git: repository -> absent"),
        ("git tag | xargs git tag -d; rm .git/index", ".git: 61 references changed"),
    ],
)
def test_a_diff_has_one_line_for_a_repository_that_was_removed_or_made_anew(world: World, line: str, told: str) -> None:
    fill(world.project)
    shell(world.project, "for i in $(seq 59); do git tag t$i; done")
    command(world, line)
    shown = turn_diff(world.request(turn=1))[1]
    assert shown.splitlines() == [told], shown


@pytest.mark.matrix
def test_a_diff_names_a_branch_that_has_moved_among_many_new_references(world: World) -> None:
    fill(world.project)
    before = shell(world.project, "git rev-parse main")[:12]
    command(world, "for i in $(seq 60); do git tag t$i; done; git commit -q --allow-empty -m own")
    after = shell(world.project, "git rev-parse main")[:12]
    shown = turn_diff(world.request(turn=1))[1].splitlines()
    assert f"branch main: {before} -> {after}" in shown and shown[-1] == ".git: 60 other references changed", shown


@pytest.mark.matrix
def test_a_redo_leaves_the_branch_to_which_the_person_has_switched(world: World) -> None:
    fill(world.project)
    tip = shell(world.project, "git rev-parse main")
    command(world, "rm -rf .git")
    shell(world.project, "git init -q -b mine; git commit -q --allow-empty -m own")
    world.undo()
    shell(world.project, "git checkout -q -f main")
    world.redo()
    assert shell(world.project, "git rev-parse HEAD; git branch --format='%(refname)'") == (
        f"{tip}refs/heads/main\nrefs/heads/mine\n"
    )


@pytest.mark.matrix
def test_no_command_is_told_that_moves_a_branch_of_the_persons_new_repository(world: World) -> None:
    fill(world.project)
    command(world, "rm -rf .git")
    shell(world.project, "git init -q -b main; git commit -q --allow-empty -m own")
    report = world.undo()
    told = [row["command"] for row in report["references"] if row["command"]]
    assert report["head_moved"] is None and not told and "fetch" in report["unfollowed"][0]


@pytest.mark.matrix
def test_the_command_is_told_that_moves_back_a_branch_of_the_repository_that_was_put_back(world: World) -> None:
    fill(world.project)
    tip = shell(world.project, "git rev-parse main").strip()
    command(world, "git commit -qam x")
    with followed(world):  # in the same turn
        shell(world.project, "rm -rf .git")
    report = world.undo()
    moved, told = report["head_moved"], {row["name"]: row["command"] for row in report["references"]}
    assert report["restored"] == [".git"] and moved is not None and moved["before"] == tip
    assert moved["command"] == told["refs/heads/main"]
    shell(world.project, moved["command"])
    assert shell(world.project, "git rev-parse HEAD").strip() == tip


@pytest.mark.matrix
def test_an_unfinished_merge_comes_back_with_a_commit_that_it_alone_names(world: World) -> None:
    fill(world.project)
    own = "$(git commit-tree -m own -p feat feat^{tree})"
    shell(world.project, f"git reset -q --hard; git merge -q --no-ff --no-commit -s ours {own}")
    named = "git cat-file -t MERGE_HEAD"
    assert shell(world.project, named) == "commit\n"
    command(world, "git merge --abort; git gc -q --prune=now")
    assert not world.undo()["kept"] and shell(world.project, named) == "commit\n"


@pytest.mark.matrix
def test_what_keeps_the_objects_of_a_worktree_is_no_change_of_a_turn(world: World) -> None:
    fill(world.project)
    hold = f"{HOLDS}project-1/w/1"
    command(world, f"git branch worker; git update-ref {hold} HEAD")
    assert [one["name"] for one in world.undo()["references"]] == ["refs/heads/worker"]
    assert hold in shell(world.project, "git for-each-ref")
    command(world, f"git update-ref -d {hold}")
    assert [one["name"] for one in world.undo()["references"]] == [hold]
    assert hold in shell(world.project, "git for-each-ref")


@pytest.mark.matrix
def test_a_look_of_git_alone_is_no_change(world: World) -> None:
    fill(world.project)
    os.utime(world.path("b"), (1, 1))
    command(world, "git status; git log -1; git gc -q; git fetch -q . main; git diff")
    assert world.undo()["turn"] is None


@pytest.mark.matrix
def test_a_look_of_git_between_two_commands_of_a_turn_keeps_nothing_from_coming_back(world: World) -> None:
    fill(world.project)
    before, world.turns = read(world.project), 1
    for line in ("git add a", "git rm -q --cached b"):
        with followed(world):
            shell(world.project, line)
        os.utime(world.path("a"), (1, 1))
        shell(world.project, "git status")  # notes the new time of the file in the index
    report = world.undo()
    assert [(one["name"], one["restored"]) for one in report["references"]] == [("index", True)]
    assert read(world.project) == before


@pytest.mark.matrix
def test_a_branch_that_moved_on_since_stays_and_the_command_is_told(world: World) -> None:
    fill(world.project)
    shell(world.project, "git reset -q --hard")
    old = shell(world.project, "git rev-parse HEAD v1 feat").split()
    command(world, "echo 3 > a; git commit -qam agent; git branch -f feat; git tag -f v1")
    shell(world.project, "echo mine > mine; git add mine; git commit -qm mine; git branch -f feat HEAD")
    mine = shell(world.project, "git rev-parse HEAD feat").split()
    report = world.undo()
    assert shell(world.project, "git rev-parse HEAD feat v1").split() == [*mine, old[1]]
    told = {one["name"]: (one["restored"], one["command"]) for one in report["references"]}
    assert told["refs/tags/v1"] == (True, None)
    assert told["refs/heads/feat"] == (False, f"git update-ref refs/heads/feat {old[2]}")
    assert report["head_moved"]["command"] == told["refs/heads/main"][1] == f"git reset --soft {old[0]}"
    text = find_form("undo")(report, 200)
    assert "restored  tag v1" in text and "kept      branch feat" in text and "HEAD was moved and is still at" in text
    shell(world.project, told["refs/heads/feat"][1] or "")
    assert shell(world.project, "git rev-parse feat").strip() == old[2]


@pytest.mark.matrix
def test_references_of_a_repository_inside_come_back_too(world: World) -> None:
    fill(world.path("api"))
    before = read(world.path("api"))
    command(world, "cd api; git commit -qam x; git branch -D feat; git stash clear; git gc -q --prune=now")
    report = world.undo()
    assert {one["repository"] for one in report["references"]} == {"api"} and read(world.path("api")) == before
    text = find_form("undo")(report, 200)
    assert "  restored  branch feat of api" in text and "  restored  .git/index of api" in text


@pytest.mark.matrix
def test_submodules_and_worktrees_come_back_with_their_folders_of_git(world: World, tmp_path: Path) -> None:
    fill(tmp_path / "lib")
    fill(world.project)
    shell(world.project, f"git -c protocol.file.allow=always submodule add -q {tmp_path / 'lib'} lib; git commit -qm s")
    shell(world.project, "git worktree add -q tree feat; echo own > tree/own; git -C tree add own")
    shell(world.path("lib"), "git commit -q --allow-empty -m unpushed")
    places = [world.project, world.path("lib"), world.path("tree")]
    before = [read(place) for place in places]
    command(world, "rm -rf lib tree .git/modules/lib; git worktree prune")
    report = world.undo()
    assert not report["kept"] and [read(place) for place in places] == before
    command(world, "rm -rf .git lib")
    assert not world.undo()["kept"] and [read(place) for place in places] == before


def add_submodule(world: World, library: Path, name: str) -> None:
    fill(library)
    fill(world.project)
    shell(world.project, f"git -c protocol.file.allow=always submodule add -q {library} {name}; git commit -qm s")


@pytest.mark.matrix
def test_a_submodule_comes_back_with_what_the_person_committed_since_it_was_copied_first(
    world: World, tmp_path: Path
) -> None:
    add_submodule(world, tmp_path / "lib", "lib")
    command(world, "true")
    shell(world.path("lib"), "git commit -q --allow-empty -m later; git branch kept; git branch -D feat")
    places = [world.project, world.path("lib")]
    before = [read(place) for place in places]
    command(world, "rm -rf .git lib")
    assert not world.undo()["kept"] and [read(place) for place in places] == before


@pytest.mark.matrix
def test_an_undo_of_a_removed_worktree_leaves_the_branches_of_its_repository_alone(world: World) -> None:
    fill(world.project)
    shell(world.project, "git worktree add -q tree feat")
    command(world, "rm -rf tree; git worktree prune")
    shell(world.project, "git tag later")
    report = world.undo()
    assert "tree/.git" in report["restored"] and not report["kept"] and not report["references"]
    assert shell(world.path("tree"), "git tag -l later") == "later\n"


@pytest.mark.matrix
def test_objects_of_a_submodule_with_a_name_of_two_letters_are_copied(world: World, tmp_path: Path) -> None:
    add_submodule(world, tmp_path / "lib", "ui")
    os.utime(world.path(".git/modules/ui"), (1, 1))
    command(world, "true")
    shell(world.path("ui"), "git update-ref refs/heads/feat $(git commit-tree -m own HEAD^{tree})")
    before = read(world.path("ui"))
    os.utime(world.path(".git/modules/ui"), (1, 1))
    command(world, "true")
    command(world, "rm -rf .git ui")
    assert not world.undo()["kept"] and read(world.path("ui")) == before


@pytest.mark.matrix
@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("name", ["tmp_x", "nexus-x", "x.keep", "objects/x", "modules/x", "lfs/ab"])
def test_a_branch_comes_back_that_has_the_name_of_another_thing(
    world: World, tmp_path: Path, name: str, is_inside: bool
) -> None:
    add_submodule(world, tmp_path / "lib", "lib")
    place = world.path("lib" if is_inside else "")
    command(world, "true")
    for commit in ("HEAD^", "HEAD"):
        shell(place, f"git branch -f {name} {commit}")
        command(world, "true")
    before = read(place)
    command(world, "rm -rf .git lib")
    assert not world.undo()["kept"] and read(place) == before


@pytest.mark.matrix
@pytest.mark.parametrize("line", ["git branch z/y; git branch x", "git branch z; git branch x/y"])
def test_a_branch_may_become_a_folder_of_branches_between_two_commands(world: World, line: str) -> None:
    fill(world.project)
    shell(world.project, line)
    command(world, "true")
    shell(
        world.project,
        "git branch -D z x z/y x/y; "
        + ("git branch z; git branch x/y" if "z/y" in line else "git branch z/y; git branch x"),
    )
    before = read(world.project)
    command(world, "rm -rf .git")
    report = world.undo()
    assert not report["not_covered"] and read(world.project) == before


@pytest.mark.matrix
def test_a_repository_without_head_comes_back_after_a_later_command(world: World) -> None:
    fill(world.project)
    before = read(world.project)
    command(world, "rm .git/HEAD; echo x > made")
    command(world, "echo x > later")
    world.undo()
    assert ".git" in world.undo()["restored"] and read(world.project) == before


@pytest.mark.matrix
@pytest.mark.parametrize(
    "drop",
    [
        "git reset -q --hard HEAD^; git reflog expire --expire=now --all; git gc -q --prune=now",
        "rm -rf ../.git/modules/lib ../lib",
    ],
)
def test_commits_of_a_submodule_are_copied_while_its_repository_has_no_head(
    world: World, tmp_path: Path, drop: str
) -> None:
    add_submodule(world, tmp_path / "lib", "lib")
    command(world, "rm .git/HEAD")
    command(world, "cd lib; git reset -q --hard; git commit -q --allow-empty -m own")
    before = read(world.path("lib"))
    command(world, f"cd lib; {drop}")
    world.undo(turn=3)
    assert read(world.path("lib")) == before


@pytest.mark.matrix
def test_folders_of_lfs_that_did_not_change_are_not_searched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(world.project)
    place = world.path(".git/lfs/objects/ab/cd")
    shell(world.project, "mkdir -p .git/lfs/objects/ab/cd; echo 1 > .git/lfs/objects/ab/cd/abcd1")
    os.utime(place, (1, 1))
    command(world, "true")
    names: list[str] = []
    keep = repository_copy._Mirror._keep

    def note_kept(self: Any, folder: Any, entry: Any, *rest: Any, **named: Any) -> Any:
        names.append(entry.name)
        return keep(self, folder, entry, *rest, **named)

    monkeypatch.setattr(repository_copy._Mirror, "_keep", note_kept)
    command(world, "true")
    assert "abcd1" not in names
    shell(place, "echo 2 > abcd2")
    command(world, "true")
    command(world, "rm -rf .git")
    world.undo()
    assert shell(place, "cat abcd1 abcd2") == "1\n2\n"


@pytest.mark.matrix
def test_an_undo_of_a_removed_head_leaves_the_commits_of_submodules_and_worktrees_in_place(
    world: World, tmp_path: Path
) -> None:
    add_submodule(world, tmp_path / "lib", "lib")
    shell(world.project, "git worktree add -q tree feat")
    places = [world.path("lib"), world.path("tree")]
    command(world, "rm .git/HEAD")
    for place in places:
        shell(place, "git checkout -q --detach; git commit -q --allow-empty -m own")
    command(world, "true")
    before = [shell(place, "git rev-parse HEAD") for place in places]
    assert ".git" in world.undo(turn=1)["restored"]
    assert [shell(place, "git rev-parse HEAD") for place in places] == before


@pytest.mark.matrix
def test_a_worktree_without_head_comes_back_after_a_later_command(world: World) -> None:
    fill(world.project)
    shell(world.project, "git worktree add -q tree feat")
    before = read(world.path("tree"))
    command(world, "rm .git/worktrees/tree/HEAD")
    command(world, "true")
    assert world.undo(turn=1)["restored"] == ["tree/.git"] and read(world.path("tree")) == before


@pytest.mark.matrix
def test_a_submodule_and_a_worktree_that_stayed_are_told_as_restored_with_their_repository(
    world: World, tmp_path: Path
) -> None:
    add_submodule(world, tmp_path / "lib", "lib")
    shell(world.project, "git worktree add -q tree feat")
    command(world, "rm -rf .git")
    report = world.undo()
    assert report["restored"] == [".git", "lib/.git", "tree/.git"] and not report["unfollowed"]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["x.sample", "info/refs"])
def test_a_branch_with_the_name_of_a_file_that_is_not_followed_is(world: World, name: str) -> None:
    fill(world.project)
    shell(world.project, f"git branch {name} HEAD^")
    before = read(world.project)
    command(world, f"git branch -f {name} HEAD")
    assert [one["restored"] for one in world.undo()["references"]] == [True] and read(world.project) == before


@pytest.mark.matrix
def test_a_branch_is_as_before_a_turn_that_added_a_worktree_and_moved_it_there_and_back(world: World) -> None:
    fill(world.project)
    before, world.turns = shell(world.project, "git for-each-ref"), 1
    for line in ("git worktree add -q --detach new; git commit -qam x", "git reset -q --hard HEAD^; git tag t"):
        with followed(world):
            shell(world.project, line)
    assert not world.undo()["kept"]
    assert shell(world.project, "git for-each-ref") == before


@pytest.mark.matrix
def test_a_repository_that_a_command_made_stays_and_is_named(world: World) -> None:
    fill(world.project)
    command(world, "git clone -q . api; git init -q web")
    report = world.undo()
    assert report["removed"] == ["api/a", "api/b"] and (world.path("api/.git")).is_dir()
    assert report["unfollowed"] == ["bash: api/.git, web/.git are new; undo does not remove repositories"]


@pytest.mark.matrix
def test_what_the_person_committed_during_a_long_command_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsure_changes, "SECONDS", 0.0)
    fill(world.project)
    journal = ChangeJournal(world.data)
    for turn, line in enumerate(("make -k test", "git commit -qm agent"), 1):
        world.turns = turn
        begun = journal.begin(StepOwner(world.session, turn), "bash", "c", world.project)
        shell(world.project, f"git commit -q --allow-empty -m {turn}")
        journal.end(begun, line, "12 digits, see .git/config of git\n")
    report = world.undo()
    assert report["turn"] == 2 and shell(world.project, "git log -1 --format=%s") == "1\n"
    report = world.undo()
    assert report["turn"] is None and [(one["path"], one["why"]) for one in report["kept"]] == [(".git", UNSURE)]
    assert shell(world.project, "git log -1 --format=%s") == "1\n"


ACTS = (
    "echo $RANDOM >> a; git commit -qam c$RANDOM",
    "git commit -q --amend --allow-empty -m amended$RANDOM",
    "git branch b$RANDOM; git branch -D feat",
    "git tag t$RANDOM; git tag -d v1",
    "echo $RANDOM >> b; git stash -q",
    "git stash pop -q",
    "git merge -q feat",
    "git rebase -q feat",
    "git reset -q --hard HEAD^",
    "git checkout -q feat",
    "git checkout -q main",
    "git reflog expire --expire=now --all; git gc -q --prune=now",
    "git add -A; echo $RANDOM > new$RANDOM",
)


@pytest.mark.matrix
@settings(deadline=None)
@given(turns=st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=4), min_size=1, max_size=2))
def test_any_mix_of_commands_of_git_is_taken_back_and_brought_back(
    tmp_path_factory: pytest.TempPathFactory, turns: list[list[str]]
) -> None:
    base = Path(os.path.realpath(tmp_path_factory.mktemp("mix")))
    world = World(base / "project", base / "data")
    fill(world.project)
    seen, done = [read(world.project)], 0
    for turn in turns:
        world.turns += 1
        for act in turn:
            with followed(world):
                shell(world.project, act)
            shell(world.project, "git status")
        seen.append(read(world.project))
    while (report := world.undo())["turn"] is not None:
        done += 1
        assert not report["kept"] and read(world.project) == seen[report["turn"] - 1], report
    assert read(world.project) == seen[0]
    for _ in range(done):
        report = world.redo()
        assert not report["kept"] and read(world.project) == seen[report["turn"]], report


@pytest.mark.matrix
def test_a_name_with_a_line_of_git_in_it_moves_no_other_branch(world: World) -> None:
    fill(world.project)
    old, new = shell(world.project, "git rev-parse main feat").split()
    evil = f"x\nupdate refs/heads/feat {old}"
    command(world, f"git branch -D feat; git branch feat {old}; mkdir -p .git/refs/heads/'{evil.partition('/')[0]}'")
    place = world.path(f".git/refs/heads/{evil}")
    place.parent.mkdir(parents=True)
    place.write_text(f"{new}\n")
    command(world, f"git pack-refs --all; rm -r .git/refs/heads/x*; git tag later {new}")
    world.undo()
    assert shell(world.project, "git rev-parse feat").strip() == old


@pytest.mark.matrix
def test_the_steps_of_several_roots_of_a_killed_process_are_all_found(world: World, tmp_path: Path) -> None:
    second = Path(os.path.realpath(tmp_path)) / "second"
    for folder in (world.project, second):
        fill(folder)
    before = [read(folder) for folder in (world.project, second)]
    journal = ChangeJournal(world.data)
    world.turns = 1
    journal.begin(StepOwner(world.session, 1), "bash", "c1", world.project, [second])
    for folder in (world.project, second):
        shell(folder, "rm a; git commit -qam gone; git branch -D feat; git gc -q --prune=now")
    if journal._lock is not None:  # the process is gone
        journal._lock.release()
    report = world.undo(turn=1)
    assert {"a", f"{second}/a"} == set(report["restored"]) and not report["kept"]
    assert [read(folder) for folder in (world.project, second)] == before
    assert {one["repository"] for one in report["references"]} == {"", str(second)}


@pytest.mark.matrix
def test_a_dry_run_moves_no_reference(world: World) -> None:
    fill(world.project)
    command(world, "git commit -qam x; git tag -d v1")
    after = read(world.project)
    report = world.undo(dry_run=True)
    assert {one["name"] for one in report["references"] if one["restored"]} >= {"refs/heads/main", "refs/tags/v1"}
    assert read(world.project) == after and "Would undo" in find_form("undo")(report, 200)


@pytest.mark.matrix
def test_files_of_a_turn_come_back_alone_when_they_are_named(world: World) -> None:
    fill(world.project)
    command(world, "git commit -qam x; rm b")
    head = shell(world.project, "git rev-parse HEAD")
    report = world.undo(str(world.path("b")))
    assert report["restored"] == ["b"] and not report["references"]
    assert shell(world.project, "git rev-parse HEAD") == head
    assert {one["name"] for one in world.undo()["references"]} == {"refs/heads/main", "index"}


@pytest.mark.matrix
def test_a_turn_that_changed_references_alone_is_counted_and_rewound(world: World) -> None:
    fill(world.project)
    before = read(world.project)
    command(world, "git commit -qam x")
    (count,) = count_turns(world.data, world.session, 5).values()
    assert count.text == "git" and find_turns(world.data, world.session, 1) == [1]
    old, new = shell(world.project, "git rev-parse HEAD^ HEAD").split()
    assert f"branch main: {old[:12]} -> {new[:12]}\n" in turn_diff(world.request())[1]
    command(world, "git tag x")
    with followed(world):
        shell(world.project, "git tag -d x")
    assert "tag" not in turn_diff(world.request())[1], "the turn has left none"
    world.undo(turn=1)
    (count,) = count_turns(world.data, world.session, 5).values()
    assert count.text == "git, undone" and read(world.project) == before


@pytest.mark.matrix
def test_an_undo_that_was_killed_after_its_plan_moves_the_references(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world.project)
    before = read(world.project)
    command(world, "git commit -qam x; git branch -D feat; rm b")

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("put_references", "append_step"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(restore, name, kill)
            world.undo()
    assert world.undo()["turn"] == 1
    assert read(world.project) == before
    assert world.undo()["turn"] is None and world.redo()["turn"] == 1


@pytest.mark.matrix
def test_an_undo_that_was_killed_before_the_list_of_stashes_brings_all_of_them_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world.project)
    before = read(world.project)
    command(world, "git stash -q; echo u > b; git stash -q; git checkout -q -- .; git stash apply -q --index stash@{1}")

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(restore_references, "_put_file", kill)
        world.undo()
    world.undo()
    assert read(world.project) == before


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["", "api"])
@pytest.mark.parametrize(
    "line",
    [
        "rm -rf .git/refs .git/packed-refs",
        ": > .git/packed-refs; for f in $(find .git/refs -type f); do : > $f; done",
        "chmod 644 .git/config; git config user.name x; rm -f .git/index",
        "git rebase feat; git cherry-pick v1; rm -rf .git/rebase-merge",
    ],
)
def test_references_that_were_broken_without_git_come_back(world: World, name: str, line: str) -> None:
    fill(world.path(name))
    config = world.path(name) / ".git/config"
    config.chmod(0o600)
    before = read(world.path(name))
    command(world, f"cd ./{name}; {line}; true")
    report = world.undo()
    assert all(one["restored"] for one in report["references"]) and read(world.path(name)) == before
    assert config.stat().st_mode & 0o777 == 0o600


@pytest.mark.matrix
def test_a_repository_that_could_not_be_copied_is_named_if_a_command_touched_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_copy, "SECONDS", -1.0)
    fill(world.project)
    command(world, "echo x > made")
    report = world.undo()
    assert report["removed"] == ["made"] and not report["not_covered"]
    command(world, "git tag new")
    (told,) = world.undo()["not_covered"]
    assert told["path"] == ".git" and "took longer" in told["why"]


@pytest.mark.matrix
def test_an_emptied_log_of_a_repository_without_a_copy_names_no_copy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world.project)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(follow_repositories, "keep_repository", fail)
    command(world, "git reflog expire --expire=now --all")
    (line,) = (one for one in world.undo()["unfollowed"] if EMPTIED_LOG in one)
    assert line.endswith(EMPTIED_LOG)


@pytest.mark.matrix
def test_an_undo_names_the_remote_branch_that_keeps_what_a_turn_pushed(world: World, tmp_path: Path) -> None:
    fill(world.project)
    remote = tmp_path / "r"
    shell(world.project, f"git init -q --bare {remote}; git remote add o {remote}; git push -q o HEAD:a")
    command(world, "git commit -q --allow-empty -m b; git push -q o HEAD:a")
    report = world.undo()
    assert [one.rpartition(": ")[2] for one in report["unfollowed"]] == [f"o/a {PUSHED}"]
    shell(world.project, "git push -qf o HEAD:a; git update-ref -d refs/remotes/o/a")
    command(world, "git fetch -q o; git commit -q --allow-empty -m c")
    assert not world.undo()["unfollowed"]


def test_references_have_the_names_of_the_report_where_an_undo_is_recorded() -> None:
    names = {"refs/heads/main": True, "ORIG_HEAD": True, "refs/tags/v1": False}
    moved = [{"name": name, "repository": "", "restored": restored} for name, restored in names.items()]
    report: Any = {"references": moved}
    assert undo_files._list_moved(report) == ["branch main", ".git/ORIG_HEAD"]
