"""The repository of a worktree: its commits reach the project's, what the project moved reaches it, nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from worktrees.repository import git, make_project, make_worktree

from nexus_cli.core.errors import NexusError
from nexus_cli.rules.git_repository import NotPlain, check_repository
from nexus_cli.worktrees import worktrees
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.inspect_worktree import inspect_worktree
from nexus_cli.worktrees.worktrees import diff_worktree, enter_worktree, list_worktrees, remove_worktree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def commit(folder: Path, name: str, text: str = "x\n") -> str:
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "HEAD").strip()


def tip(project: Path, name: str = "worktree-fix") -> str:
    return git(project, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}").strip()


def test_commits_are_published_when_a_stay_ends_and_survive_the_worktree(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    first = commit(stay.record.folder, "one")
    assert tip(project) == stay.record.start, "not before"
    assert "1 commit" in stay.leave() and tip(project) == first
    stay = enter_worktree(project, "fix")
    git(stay.record.folder, "reset", "-q", "--soft", "HEAD~1")
    second = commit(stay.record.folder, "two")
    stay.end()
    assert tip(project) == second and git(project, "log", "--format=%s", "worktree-fix").split() == ["two", "first"]
    third = commit(stay.record.folder, "three")
    said = remove_worktree(stay.record, force=True)
    assert third[:12] in said and git(project, "show", f"{third}:three") == "x\n" and tip(project) == ""
    assert "missing" not in git(project, "fsck", "--strict") and "nexus" not in git(project, "for-each-ref")


@pytest.mark.parametrize("act", ["moved", "deleted", "checked out"])
def test_a_branch_that_the_person_took_over_is_left_alone(project: Path, act: str) -> None:
    stay = enter_worktree(project, "fix")
    mine = commit(stay.record.folder, "one")
    other = commit(project, "other")
    if act == "moved":
        git(project, "branch", "-f", "worktree-fix", other)
    elif act == "deleted":
        git(project, "branch", "-D", "worktree-fix")
    else:
        git(project, "switch", "-q", "worktree-fix")
    before = git(project, "for-each-ref"), git(project, "status", "--porcelain")
    stay.leave()
    assert (git(project, "for-each-ref"), git(project, "status", "--porcelain")) == before
    assert git(project, "show", f"{mine}:one") == "x\n", "the commits are there all the same"


def test_what_the_project_moved_is_seen_in_the_next_stay_and_own_references_stay(project: Path) -> None:
    git(project, "branch", "topic")
    git(project, "branch", "shared")
    stay = enter_worktree(project, "fix")
    own = commit(stay.record.folder, "one")
    git(stay.record.folder, "branch", "-f", "shared", own)
    git(stay.record.folder, "tag", "mine")
    stay.end()
    moved = commit(project, "later")
    for name in ("topic", "shared"):
        git(project, "branch", "-f", name, moved)
    stay = enter_worktree(project, "fix")
    listed = git(stay.record.folder, "for-each-ref", "--format=%(refname:short) %(objectname)").splitlines()
    assert {f"main {moved}", f"topic {moved}", f"shared {own}", f"worktree-fix {own}", f"mine {own}"} == {*listed}
    git(stay.record.folder, "rebase", "-q", "main")
    assert (stay.record.folder / "later").exists()
    assert {"the reference refs/heads/shared", "the reference refs/tags/mine"} <= {*inspect_worktree(stay.record).kept}
    stay.end()


def test_a_stash_in_a_worktree_is_its_own_and_keeps_it(project: Path) -> None:
    (project / "app.py").write_text("of the person\n")
    git(project, "stash", "-q")
    stay = enter_worktree(project, "fix")
    (stay.record.folder / "app.py").write_text("work\n")
    git(stay.record.folder, "stash", "-q")
    assert "the reference refs/stash" in stay.leave()
    assert git(project, "stash", "list").count("\n") == 1
    with pytest.raises(NexusError):
        remove_worktree(stay.record)


def test_the_projects_hooks_and_settings_hold_in_a_worktree(project: Path) -> None:
    hook = project / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch checked.log\n")
    hook.chmod(0o755)
    git(project, "config", "user.email", "own@example.org")
    (project / ".git/info/exclude").write_text("*.tmp\n")
    record, _ = make_worktree(project, "fix")
    (record.folder / "x.tmp").write_text("")
    commit(record.folder, "one")
    assert (record.folder / "checked.log").exists() and "x.tmp" not in git(record.folder, "ls-files")
    assert git(record.folder, "config", "user.email") == "a@example.org\n"  # of the command line
    assert "own@example.org" in (record.folder / ".git/config").read_text()


def test_a_linked_worktree_of_an_earlier_version_is_worked_in_applied_and_removed(
    project: Path, tmp_path: Path
) -> None:
    record, _ = make_worktree(project, "fix")
    git(project, "update-ref", "-d", git(project, "for-each-ref", "--format=%(refname)", "refs/worktree").strip())
    git(project, "worktree", "add", "-q", "--no-checkout", str(tmp_path / "linked"), "worktree-fix")
    shutil.rmtree(record.folder / ".git")
    shutil.move(tmp_path / "linked/.git", record.folder / ".git")
    git(project, "worktree", "repair", str(record.folder))
    git(record.folder, "reset", "-q")
    stay = enter_worktree(project, "fix")
    assert inspect_worktree(stay.record).is_empty(stay.record)
    made = commit(stay.record.folder, "one")
    assert "1 commit" in stay.leave() and tip(project) == made
    assert apply_worktree(stay.record).written == ["one"]
    remove_worktree(list_worktrees(project)[0])
    assert list_worktrees(project) == [] and tip(project) == "" and git(project, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("place", ["create_branch", "create_repository", "carry_files"])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_making_that_was_killed_leaves_nothing_and_takes_no_branch_of_the_person(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str, is_taken: bool
) -> None:
    if is_taken:
        git(project, "branch", "worktree-fix")
    before = git(project, "for-each-ref")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(worktrees, "_discard", lambda place: None)
        patch.setattr(f"nexus_cli.worktrees.make_worktree.{place}", stop)
        with pytest.raises(KeyboardInterrupt):
            enter_worktree(project, "fix")
    other = enter_worktree(project, "other")
    assert other.leave() == "" and git(project, "for-each-ref") == before
    record, _ = make_worktree(project, "fix")
    assert record.branch == ("worktree-fix-2" if is_taken else "worktree-fix") and diff_worktree(record) == b""


def test_an_empty_worktree_of_a_killed_process_is_removed_with_the_next_making(project: Path) -> None:
    before = git(project, "for-each-ref")
    for name, text in (("empty", ""), ("full", "x")):
        stay = enter_worktree(project, name)
        if text:
            (stay.record.folder / "made").write_text(text)
        assert stay._lock is not None
        stay._lock.release()  # as the end of its process does
    own = enter_worktree(project, "own")
    own.end()
    enter_worktree(project, "next").leave()
    assert [one.name for one in list_worktrees(project)] == ["full", "own"]
    for record in list_worktrees(project):
        remove_worktree(record, force=True)
    assert git(project, "for-each-ref") == before


def test_a_pipe_in_a_worktree_is_told_and_not_lost(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    os.mkfifo(stay.record.folder / "sub/pipe")
    assert "sub/pipe (no regular file)" in stay.leave() and stay.record.folder.is_dir()


def test_a_name_that_git_refuses_is_told_with_a_way_out(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    (record.folder / ".GIT").mkdir()
    (record.folder / ".GIT/x").write_text("x")
    with pytest.raises(NexusError, match="rename or delete it"):
        apply_worktree(record)


def test_git_that_only_reads_runs_unasked_in_a_worktree_and_not_with_objects_of_others(
    project: Path, tmp_path: Path
) -> None:
    record, _ = make_worktree(project, "fix")
    inner, _ = make_worktree(record.folder, "inner")
    for one in (record, inner):
        assert check_repository(str(one.folder / "sub"), str(one.folder))
    other = make_project(tmp_path / "other")
    (record.folder / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    with pytest.raises(NotPlain, match="objects of another"):
        check_repository(str(record.folder), str(record.folder))
    assert "link to the repository is broken" in inspect_worktree(record).describe()
