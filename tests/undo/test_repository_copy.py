"""The copy of a repository: bounded, shared by worktrees, dropped with the sessions, and no way out of the project."""

from __future__ import annotations

import os
import subprocess
import time
import tracemalloc
import zlib
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from search import sample
from undo.test_looks import git, repository
from undo.test_only_copies import command
from undo.world import World, files, tree

from nexus_cli.undo import git_index, project_look, repository_copy
from nexus_cli.undo.follow_repositories import WRITTEN
from nexus_cli.undo.linked_objects import is_intact
from nexus_cli.undo.repository_copy import count_copied_bytes, find_copy, list_copies, trim_copies
from nexus_cli.undo.retention import count_used, forget_session


def copy_of(world: World) -> Path:
    place = find_copy(world.data, world.project)
    assert place is not None
    return place


def pack(world: World) -> None:
    git(world.project, "gc", "-q", "--prune=now")


def count_lost(data: Path) -> int:
    return sum(about.st_size for _, about, is_lost in list_copies(data) if is_lost)


@pytest.mark.matrix
def test_only_what_the_project_lost_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(world.project)
    command(world, "true")
    assert count_lost(world.data) == 0
    pack(world)
    lost = count_lost(world.data)
    assert 0 < lost < count_used(world.data)
    trim_copies(world.data, 0)
    assert count_lost(world.data) == lost  # a day old at most
    monkeypatch.setattr(repository_copy, "_GRACE_SECONDS", -1.0)
    monkeypatch.setattr(repository_copy, "_TRIMMED", -1.0)
    trim_copies(world.data, count_copied_bytes(world.data) - 1)
    assert 0 < count_lost(world.data) < lost
    trim_copies(world.data, 0)
    assert count_lost(world.data) == 0
    command(world, "rm -rf .git src")
    assert ".git" in world.undo()["restored"]
    assert b"dangling" not in subprocess.check_output(["git", "-C", str(world.project), "fsck", "--full"])


@pytest.mark.matrix
def test_what_git_drops_is_dropped_but_no_object(world: World) -> None:
    repository(world.project)
    git(world.project, "branch", "old/one")
    command(world, "true")
    assert (copy_of(world) / "refs/heads/old/one").exists()
    git(world.project, "branch", "-D", "old/one")
    commit = git(world.project, "rev-parse", "HEAD")
    command(world, "git -c user.name=n -c user.email=n@x commit -q --allow-empty -m second")
    command(world, "true")
    assert not (copy_of(world) / "refs/heads/old/one").exists()
    assert git(copy_of(world), "rev-parse", "HEAD~1") == commit != git(copy_of(world), "rev-parse", "HEAD")


@pytest.mark.matrix
def test_junk_in_the_place_of_an_object_does_not_reach_the_copy(world: World) -> None:
    repository(world.project)
    before = world.path("src/a.py").read_bytes()
    command(world, "true")
    command(world, "for f in .git/objects/??/*; do rm -f $f; echo junk > $f; done")
    command(world, "rm -rf src")
    assert "src/a.py" in world.undo()["restored"] and world.path("src/a.py").read_bytes() == before
    git(copy_of(world), "fsck", "--strict")


@pytest.mark.matrix
def test_without_links_a_small_repository_is_copied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(world.project)
    before = files(tree(world.project))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    real = os.link
    monkeypatch.setattr(os, "link", refuse)
    command(world, "rm -rf .git src")
    monkeypatch.setattr(os, "link", real)
    report = world.undo()
    assert not report["kept"] and not report["unfollowed"] and files(tree(world.project)) == before


def test_nothing_is_put_back_through_a_link(world: World, tmp_path: Path) -> None:
    repository(world.project)
    outside = tmp_path / "outside"
    outside.mkdir()
    command(world, f"rm -rf .git src && ln -s {outside} .git")
    report = world.undo()
    assert list(outside.iterdir()) == [] and "git fetch" in report["unfollowed"][0]
    assert world.path("src/a.py").exists()


@pytest.mark.matrix
def test_a_linked_worktree_shares_the_copy_of_its_repository(world: World, tmp_path: Path) -> None:
    repository(world.project)
    other = World(world.project.parent / "other", world.data)
    git(world.project, "worktree", "add", "-q", str(other.project), "-b", "other")
    before = files(tree(other.project))
    command(world, "true")
    command(other, "rm -rf * .git")
    assert copy_of(other) == copy_of(world)
    report = other.undo()
    assert ".git" in report["restored"] and not report["kept"] and files(tree(other.project)) == before
    git(other.project, "status")


@pytest.mark.matrix
def test_a_broken_repository_is_not_that_of_a_folder_above(world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.project.parent)], check=True)
    repository(world.project)
    before = files(tree(world.project))
    command(world, "rm -rf .git/HEAD .git/objects src")
    command(world, "rm -f .env")
    assert world.undo()["restored"] == [".env"]
    assert world.undo()["kept"] == [] and files(tree(world.project)) == before


@pytest.mark.matrix
def test_a_copy_goes_with_the_last_session_of_its_project(world: World) -> None:
    repository(world.project)
    command(world, "rm src/a.py")
    place = copy_of(world)
    forget_session(world.data, world.session)
    assert not place.exists()


@pytest.mark.matrix
def test_an_undo_that_is_shown_or_cut_short_loses_no_repository(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(world.project)
    before = files(tree(world.project))
    command(world, "rm -rf .git src")
    assert ".git" in world.undo(dry_run=True)["restored"] and not world.path(".git").exists()
    monkeypatch.setattr("nexus_cli.undo.restore.write_state", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.undo()
    monkeypatch.undo()
    assert not world.undo()["kept"] and files(tree(world.project)) == before
    assert not world.redo()["kept"] and not world.path("src").exists() and world.path(".git/HEAD").exists()


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line",
    sample(
        [
            "chmod -R u+w .git && find .git -type f -exec truncate -s 0 {} +",
            "chmod -R u+w .git && find .git -type f -exec shred -n1 -u {} +",
            "chmod -R u+w .git && for f in $(find .git/objects -type f); do echo junk > $f; done; rm .git/HEAD",
            "rm .git/HEAD && echo no > .git/HEAD",
            "chmod -R u+w .git && for f in $(find .git/objects -type f); do echo junk > $f; done",
            "for f in $(find .git/refs/heads -type f); do echo 0000000000000000000000000000000000000000 > $f; done",
        ],
        3,
    ),
)
def test_a_repository_written_in_place_is_put_back(world: World, line: str) -> None:
    repository(world.project)
    before, head = files(tree(world.project)), git(world.project, "rev-parse", "HEAD")
    command(world, f"{line}; rm -rf src; echo bad > run.sh")
    report = world.undo()
    assert ".git" in report["restored"] and not report["unfollowed"] and not report["kept"]
    assert git(world.project, "rev-parse", "HEAD") == head
    git(world.project, "fsck", "--strict")
    after = files(tree(world.project))
    assert {path: one for path, one in after.items() if path[:5] != ".git/"} == {
        path: one for path, one in before.items() if path[:5] != ".git/"
    }


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line", ["rm -rf .git; git init -q .", "rm -rf .git/HEAD .git/refs .git/objects; git init -q ."]
)
def test_an_empty_repository_in_the_place_of_another_loses_no_branch(world: World, line: str) -> None:
    repository(world.project)
    git(world.project, "branch", "old/one")
    git(world.project, "checkout", "-q", "-b", "topic")
    before = files(tree(world.path(".git")))
    command(world, line)
    command(world, "echo x > made")
    reports = [world.undo(), world.undo()]
    assert reports[0]["removed"] == ["made"], "followed with git, whose index is gone"
    assert [path for one in reports for path in one["restored"]] == [".git"]
    after = files(tree(world.path(".git")))
    assert after.pop("HEAD.nexus-undo") and {path: after.get(path) for path in before} == before


@pytest.mark.matrix
def test_a_repository_that_a_redo_left_is_not_told_as_another_one(world: World) -> None:
    repository(world.project)
    command(world, "rm -rf .git notes.txt")
    assert ".git" in world.undo()["restored"] and not world.redo()["unfollowed"]
    again = world.undo()
    assert again["restored"] == ["notes.txt"] and not again["unfollowed"]


def references(world: World) -> dict[str, str]:
    rows = [line.split() for line in git(world.project, "show-ref").decode().splitlines()]
    return {name: commit for commit, name in rows}


LEADS = ("", "git pack-refs --all", "git gc -q --prune=now", "git checkout -q --detach")
THEN = ("", "git branch old/one", "git branch old/one; git pack-refs --all", "git checkout -q -b other")
LATER = ((), ("echo x > made",), ("echo x > made", "git add made; git commit -qm later", "git gc -q"))


@pytest.mark.parametrize(("lead", "then", "later"), sample(product(LEADS, THEN, LATER), 39, 1))
def test_every_branch_of_a_repository_that_another_one_replaced_comes_back(
    world: World, lead: str, then: str, later: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(world.project)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a")
    shell = partial(subprocess.run, shell=True, cwd=world.project, check=True)
    shell("git commit -q --allow-empty -m two; git branch old/one HEAD^; git tag v1; git checkout -q -b topic; ")
    shell(f"git commit -q --allow-empty -m three; git branch three; {lead or ':'}")
    before = references(world)
    command(world, f"rm -rf .git; git init -q .; git add -A; git commit -qm anew; {then or ':'}")
    for line in later:
        command(world, line)
    at, now = git(world.project, "rev-parse", "HEAD"), references(world)
    report = world.undo(turn=1)
    if "git commit" in "".join(later):  # it moved on since, and is the branch that HEAD is now
        assert git(world.project, "rev-parse", "HEAD") == at
        moved = "refs/heads/other" if "other" in then else "refs/heads/master"
        before[moved] = now[moved]
        shell(report["head_moved"]["command"])
    else:
        assert report["head_moved"] is None
    after = references(world)
    assert {name: after.get(name) for name in before} == before
    git(world.project, "fsck", "--strict")


@pytest.mark.matrix
@pytest.mark.parametrize("later", [(), ("echo x > made",)])
def test_every_branch_of_a_removed_repository_comes_back_to_the_one_that_the_person_made_since(
    world: World, later: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(world.project)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a")
    shell = partial(subprocess.run, shell=True, cwd=world.project, check=True)
    shell("git branch old/one; git tag v1; git commit -q --allow-empty -m two")
    before = references(world)
    command(world, "rm -rf .git")
    shell("git init -q .; git add -A; git commit -qm anew")
    for line in later:
        command(world, line)
    moved = next(name for name in before if name.endswith("/master"))
    now = references(world)[moved]
    assert {row["name"] for row in world.undo(turn=1, dry_run=True)["references"]} >= before.keys()
    report = world.undo(turn=1)
    assert references(world) == {**before, moved: now}
    assert report["head_moved"] is None, "its command would move a branch of hers"
    git(world.project, "fsck", "--strict")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "then", sample(["git init -q .", "git init -q .; git add -A; git commit -qm anew --no-verify"], 2)
)
def test_a_repository_that_was_just_written_and_moved_away_is_somewhere(
    world: World, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(world.project)
    git(world.project, "branch", "old/one")
    before = files(tree(world.path(".git")))
    now = time.time_ns() - 500_000_000
    for path in world.path(".git").rglob("*"):
        os.utime(path, ns=(now, now))
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a")
    command(world, f"mv .git away; {then}")
    command(world, "true")
    world.undo()
    assert files(tree(world.path("away"))) == before


@pytest.mark.matrix
def test_the_copy_shares_no_inode_with_the_project(world: World) -> None:
    repository(world.project)
    command(world, "true")
    git(world.project, "-c", "user.name=n", "-c", "user.email=n@x", "commit", "-q", "--allow-empty", "-m", "second")
    command(world, "rm -rf .git")
    assert ".git" in world.undo()["restored"]
    assert [path for path in copy_of(world).rglob("*") if path.is_file() and path.stat().st_nlink > 1] == []


@pytest.mark.matrix
def test_a_linked_object_written_in_place_is_told_and_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_copy, "_COPIED", 0)
    repository(world.project)
    command(world, "true")
    pack(world)
    command(world, "touch .git/objects/pack/*.pack; rm src/a.py")  # as git does that writes the same again
    assert world.undo()["unfollowed"] == []
    command(
        world,
        "chmod u+w .git/objects/pack/*.pack; printf x | dd of=$(ls .git/objects/pack/*.pack) conv=notrunc "
        "bs=1 seek=40 2>/dev/null; : > .git/HEAD; rm src/a.py",
    )
    assert not [*copy_of(world).glob("objects/pack/*.pack")]
    report = world.undo()
    assert WRITTEN in report["unfollowed"][0] and ".pack" in report["unfollowed"][0]


def test_no_repository_is_reported_as_restored_without_its_commit(world: World) -> None:
    repository(world.project)
    command(world, "rm -rf .git; rm src/a.py")
    for path in copy_of(world).glob("objects/??/*"):
        path.unlink()
    shown = world.undo(dry_run=True)
    report = world.undo()
    assert ".git" not in [*report["restored"], *shown["restored"]] and "HEAD" in report["unfollowed"][0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "lead", sample(["ln -sf /dev/zero .git/index", "rm .git/index; mkfifo .git/index", "truncate -s 1G .git/index"], 3)
)
def test_an_index_that_is_no_index_is_not_copied_and_the_look_goes_on_without_git(
    world: World, monkeypatch: pytest.MonkeyPatch, lead: str
) -> None:
    repository(world.project)
    monkeypatch.setattr(git_index, "MAX_INDEX", 1 << 20)
    monkeypatch.setattr(project_look, "_FEW", 0)
    command(world, lead)
    command(world, "echo new > new")
    assert sum(path.stat().st_blocks for path in (world.data / "undo/looks").glob("*")) < 1000
    world.undo()
    assert not world.path("new").exists()


def test_a_link_that_takes_the_place_of_a_large_file_is_not_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job exchanges the file just before it is hard-linked."""
    key = tmp_path / "key"
    key.write_text("sekrit\n")
    repository(world.project)
    large = world.project / ".git/lfs/large"
    large.parent.mkdir()
    large.write_text("large\n")
    link = os.link

    def exchange(source: str, target: str, **options: Any) -> None:
        if source.endswith("large"):
            large.unlink()
            os.symlink(key, large)
        link(source, target, **options)

    monkeypatch.setattr(repository_copy, "_MAX_FILES", 0)
    monkeypatch.setattr(os, "link", exchange)
    command(world, "true")
    kept = [path for path in copy_of(world).rglob("*") if path.is_symlink() or path.name == "large"]
    assert kept == [] and (copy_of(world) / "HEAD").is_file()


@pytest.mark.matrix
def test_an_object_that_inflates_without_end_is_read_piece_by_piece(tmp_path: Path) -> None:
    place = tmp_path / "ab" / ("0" * 38)
    place.parent.mkdir()
    packer = zlib.compressobj(1)
    place.write_bytes(b"".join(packer.compress(bytes(1 << 24)) for _ in range(4)) + packer.flush())
    tracemalloc.start()
    assert not is_intact(place)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def replace_repository(world: World, monkeypatch: pytest.MonkeyPatch, first: str, then: str) -> dict[str, Any]:
    """Let one command spoil the repository with `first`, the next one replace it and run `then`; undo that."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a")
    repository(world.project)
    command(world, first)
    command(world, f"rm -rf .git; git init -q .; git add -A; git commit -qm anew; {then}")
    report: dict[str, Any] = world.undo(turn=2)
    return report


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name", sample(["refs/../../made", "refs/../commondir", "refs/a/../../made", "refs/heads/.made"], 3)
)
def test_a_name_that_is_no_reference_keeps_no_branch_from_coming_back(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    line = f"git branch z; git pack-refs --all; echo $(git rev-parse HEAD) {name} >> .git/packed-refs"
    report = replace_repository(world, monkeypatch, line, "true")
    assert {one["name"] for one in report["references"]} == {"refs/heads/z", "refs/heads/master", "index"}
    assert "refs/heads/z" in references(world)


@pytest.mark.matrix
def test_branches_come_back_for_those_that_have_a_part_of_their_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = "git branch a; git branch z/y; git branch p; git pack-refs --all"
    replace_repository(world, monkeypatch, "git branch a/b; git branch z; git branch p/q; git branch last", then)
    found = {name.removeprefix("refs/heads/") for name in references(world)}
    assert found == {"master", "a/b", "z", "p/q", "last"}
    git(world.project, "fsck", "--strict")
