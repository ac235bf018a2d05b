"""The repository of a worktree: its commits reach the project's, what the project moved reaches it, nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from project_files import write_files
from search import sample
from worktrees.repository import git, make_project, make_worktree, put_link

from nexus_cli.core.errors import NexusError
from nexus_cli.sandbox.git_files import UnsafeConfiguration
from nexus_cli.sandbox.git_repository import check_repository
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


@pytest.mark.matrix
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


@pytest.mark.matrix
@pytest.mark.parametrize("act", sample(["moved", "deleted", "checked out"], 3))
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
    assert "the commits are on worktree-fix-2" in stay.leave()
    assert tip(project, "worktree-fix-2") == mine
    stay = enter_worktree(project, "fix")
    second = commit(stay.record.folder, "second")
    assert "worktree-fix-2" not in stay.leave() and tip(project, "worktree-fix-2") == second, "told once"
    said = remove_worktree(stay.record, force=True)
    assert (act != "deleted") == (
        "kept branch worktree-fix (checked out elsewhere, or with commits that are not of the worktree)" in said
    ), said
    listed = "".join(line for line in before[0].splitlines(keepends=True) if "refs/nexus/" not in line)
    assert (git(project, "for-each-ref"), git(project, "status", "--porcelain")) == (listed, before[1])


@pytest.mark.matrix
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


@pytest.mark.matrix
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


@pytest.mark.matrix
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


@pytest.mark.matrix
def test_a_linked_worktree_of_an_earlier_version_is_told_applied_and_removed(project: Path, tmp_path: Path) -> None:
    record, _ = make_worktree(project, "fix")
    git(project, "update-ref", "-d", git(project, "for-each-ref", "--format=%(refname)", "refs/nexus").strip())
    (record.home / "references").unlink()
    git(project, "worktree", "add", "-q", "--no-checkout", str(tmp_path / "linked"), "worktree-fix")
    shutil.rmtree(record.folder / ".git")
    shutil.move(tmp_path / "linked/.git", record.folder / ".git")
    git(project, "worktree", "repair", str(record.folder))
    git(record.folder, "reset", "-q")
    stay = enter_worktree(project, "fix")
    made = commit(stay.record.folder, "one")
    said = stay.leave()
    assert (
        "1 file changed" in said
        and "was created by nexus 0.2" in said
        and "commits in the repository of the worktree, if any, were not copied" in said
    )
    assert apply_worktree(stay.record).written == ["one"]
    with pytest.raises(NexusError, match="was created by nexus"):
        remove_worktree(list_worktrees(project)[0])
    assert "kept branch worktree-fix" in remove_worktree(list_worktrees(project)[0], force=True)
    assert list_worktrees(project) == [] and tip(project) == made


@pytest.mark.matrix
@pytest.mark.parametrize("place", sample(["create_branch", "create_repository", "carry_files"], 2))
@pytest.mark.parametrize("is_taken", sample([False, True], 2))
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


@pytest.mark.matrix
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


@pytest.mark.matrix
def test_a_pipe_in_a_worktree_is_told_and_not_lost(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    os.mkfifo(stay.record.folder / "sub/pipe")
    assert "sub/pipe (not a regular file)" in stay.leave() and stay.record.folder.is_dir()


@pytest.mark.matrix
def test_a_name_that_git_refuses_is_told_with_a_way_out(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    write_files(record.folder, {".GIT/x": "x"})
    with pytest.raises(NexusError, match="rename or delete that path"):
        apply_worktree(record)


@pytest.mark.matrix
def test_a_clone_with_the_objects_of_another_repository_is_told_how_to_have_its_own(project: Path) -> None:
    git(project, "clone", "-q", "--shared", ".", "../shared")
    clone = project.parent / "shared"
    with pytest.raises(NexusError) as failed:
        enter_worktree(clone, "one")
    assert "uses objects of another repository" in str(failed.value) and "repack -a" in failed.value.hint
    git(clone, "repack", "-qa")
    (clone / ".git/objects/info/alternates").unlink()
    enter_worktree(clone, "one").leave()


@pytest.mark.matrix
def test_git_that_only_reads_runs_unasked_in_a_worktree_and_not_with_objects_of_others(
    project: Path, tmp_path: Path
) -> None:
    record, _ = make_worktree(project, "fix")
    inner, _ = make_worktree(record.folder, "inner")
    for one in (record, inner):
        check_repository(str(one.folder))
    other = make_project(tmp_path / "other")
    (record.folder / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    with pytest.raises(UnsafeConfiguration, match="objects of another"):
        check_repository(str(record.folder))
    assert "the repository is broken" in inspect_worktree(record).describe()


@pytest.mark.matrix
@pytest.mark.parametrize("act", ["commit", "checkout"])
def test_a_branch_of_an_empty_worktree_that_the_person_works_on_stays(project: Path, act: str) -> None:
    stay = enter_worktree(project, "fix")
    git(project, "switch", "-q", "worktree-fix")
    mine = commit(project, "mine") if act == "commit" else tip(project)
    if act == "commit":
        git(project, "switch", "-q", "main")
    said = stay.leave()
    assert "kept branch worktree-fix (checked out elsewhere, or with commits that are not of the worktree)" in said, (
        said
    )
    assert tip(project) == mine and not stay.record.folder.exists() and "nexus" not in git(project, "for-each-ref")


@pytest.mark.matrix
@pytest.mark.parametrize("place", sample(["project", "linked"], 2))
def test_a_clean_up_of_the_project_deletes_nothing_that_a_worktree_borrows(
    project: Path, tmp_path: Path, place: str
) -> None:
    git(project, "switch", "-qc", "feature")
    commit(project, "feature")
    git(project, "tag", "-a", "-m", "x", "mark")
    git(project, "switch", "-qc", "topic", "main")
    commit(project, "start")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    stay = enter_worktree(project, "fix")
    git(stay.record.folder, "merge", "-q", "--no-ff", "-m", "merged", "feature")
    stay.end()
    git(project, "switch", "-q", "feature")
    git(project, "commit", "-q", "--amend", "-m", "second")
    later = commit(project, "later")
    stay = enter_worktree(project, "fix")
    folder = stay.record.folder
    assert git(folder, "rev-parse", "feature").strip() == later
    git(folder, "merge", "-q", "-m", "again", "feature")
    git(project, "reset", "-q", "--hard", "main")
    git(project, "tag", "-d", "mark")
    git(project, "branch", "-qD", "topic", "worktree-fix")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(tmp_path / "linked" if place == "linked" else project, "gc", "-q", "--prune=now")
    assert "missing" not in git(folder, "fsck", "--strict", "--connectivity-only")
    assert git(folder, "rev-list", "--count", "--all").strip() == "7"
    assert "commits" in stay.leave()
    remove_worktree(stay.record, force=True)
    assert "nexus" not in git(project, "for-each-ref")


@pytest.mark.matrix
def test_commits_are_published_although_a_killed_process_did_not_note_the_last_ones(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    commit(stay.record.folder, "one")
    stay.leave()
    (stay.record.home / "published").unlink()
    stay = enter_worktree(project, "fix")
    second = commit(stay.record.folder, "two")
    stay.leave()
    assert tip(project) == second
    remove_worktree(stay.record, force=True)
    assert "worktree-fix" not in git(project, "for-each-ref")


@pytest.mark.matrix
def test_a_forced_removal_tells_the_commits_of_each_branch_and_stash_and_keeps_them_for_now(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    folder = stay.record.folder
    git(folder, "switch", "-qc", "rescue")
    rescued = commit(folder, "rescued")
    git(folder, "switch", "-q", "worktree-fix")
    (folder / "app.py").write_text("stashed\n")
    git(folder, "stash", "-q")
    stashed = git(folder, "rev-parse", "refs/stash").strip()
    stay.leave()
    said = remove_worktree(stay.record, force=True)
    assert f"refs/heads/rescue {rescued[:12]}" in said and f"refs/stash {stashed[:12]}" in said, said
    assert git(project, "show", f"{rescued}:rescued") == "x\n"
    assert git(project, "show", f"{stashed}:app.py") == "stashed\n"


@pytest.mark.matrix
def test_of_a_deleted_folder_no_commit_is_promised_that_was_not_published(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    commit(stay.record.folder, "one")
    stay.end()
    shutil.rmtree(stay.record.folder)
    stay = enter_worktree(project, "fix")
    assert "kept branch worktree-fix (has published commits)" in stay.notices[0]
    assert stay.leave() == ""


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name", sample(["info/exclude", "info/attributes", "info/sparse-checkout", "config.worktree"], 3)
)
@pytest.mark.parametrize("is_large", [False, True])
def test_what_is_no_small_file_of_the_repository_is_not_copied_into_a_worktree(
    project: Path, tmp_path: Path, name: str, is_large: bool
) -> None:
    """Neither a key of the person, to which a link leads, nor gigabytes."""
    key = tmp_path / "id_rsa"
    key.write_text("# sekrit\n")
    if is_large:
        (project / ".git" / name).unlink(missing_ok=True)
        (project / ".git" / name).write_text("# sekrit" + "\n" * (2 << 20))
    else:
        put_link(project / ".git" / name, key)
    try:
        stay = enter_worktree(project, "fix")
    except NexusError as error:  # where git sees the link and may not follow it
        assert not is_large and name == "info/exclude" and "is a link out of the project" in str(error)
        return
    kept = [path for path in (stay.record.folder / ".git").rglob("*") if path.is_file() and "hooks" not in path.parts]
    assert [str(path) for path in kept if b"sekrit" in path.read_bytes()] == []
    assert stay.leave() == ""


@pytest.mark.matrix
def test_a_log_of_commits_that_is_too_long_counts_as_a_commit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay = enter_worktree(project, "fix")
    git(stay.record.folder, "commit", "-q", "--allow-empty", "-m", "one")
    git(stay.record.folder, "reset", "-q", "--hard", stay.record.start)
    monkeypatch.setattr("nexus_cli.worktrees.inspect_worktree._MAX_LOG", 10)
    assert inspect_worktree(stay.record).has_moved
    stay.end()


LEADS = {
    "log": "mkdir -p .git/logs/refs/heads; rm -f .git/logs/refs/heads/main; ln -s $OUT/file .git/logs/refs/heads/main",
    "heads": "rm -rf .git/refs/heads; ln -s $OUT .git/refs/heads",
    "packed": "rm -f .git/packed-refs; ln -s $OUT/file .git/packed-refs",
    "lock": "ln -s $OUT/made .git/packed-refs.lock",
    "pack": "rm -rf .git/objects/pack; ln -s $OTHER/.git/objects/pack .git/objects/pack; "
    "echo $SECRET > .git/refs/heads/worktree-fix",
    "common": "mkdir evil; cp -r .git/config .git/objects .git/refs .git/packed-refs .git/info evil; mkdir -p "
    "evil/logs/refs/heads; ln -s $OUT/file evil/logs/refs/heads/main; echo ../evil > .git/commondir",
    "pipe": "rm .git/refs/heads/worktree-fix; mkfifo .git/refs/heads/worktree-fix",
    "folder": "mv .git moved; ln -s moved .git",
}
"""What a command leaves in the repository of its worktree to lead git of ours elsewhere."""


@pytest.mark.parametrize("lead", sample(LEADS, 6, 6))
def test_no_git_of_ours_follows_what_a_command_left_in_the_repository_of_a_worktree(
    project: Path, tmp_path: Path, lead: str
) -> None:
    out, other = tmp_path / "out", make_project(tmp_path / "other")
    write_files(out, {"file": "mine\n"})
    secret = commit(other, "secret")
    git(other, "repack", "-adq")
    stay = enter_worktree(project, "fix")
    folder = stay.record.folder
    (folder / "work").write_text("x\n")
    variables = {**os.environ, "OUT": str(out), "OTHER": str(other), "SECRET": secret}
    subprocess.run(["sh", "-ec", LEADS[lead]], cwd=folder, env=variables, check=True)
    stay.end()
    commit(project, "later")
    git(project, "branch", "notes")
    before = git(project, "for-each-ref")
    stay = enter_worktree(project, "fix")
    assert "points elsewhere" in stay.leave()
    with pytest.raises(NexusError, match="points elsewhere"):
        remove_worktree(stay.record)
    with pytest.raises(NexusError, match="contains links to outside places"):
        enter_worktree(folder, "inner")
    assert git(project, "for-each-ref") == before
    assert secret not in git(project, "cat-file", "--batch-check", "--batch-all-objects")
    assert "commits in the repository of the worktree, if any, were not copied" in remove_worktree(
        stay.record, force=True
    )
    assert os.listdir(out) == ["file"] and (out / "file").read_text() == "mine\n"
    assert "nexus" not in git(project, "for-each-ref")


@pytest.mark.matrix
def test_a_lead_that_is_put_after_the_check_is_not_followed_either(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, _ = make_worktree(project, "fix")
    (tmp_path / "file").write_text("mine\n")
    later = commit(project, "later")
    shutil.copytree(record.folder / ".git", tmp_path / "evil", symlinks=True)
    (record.folder / ".git/commondir").write_text(f"{tmp_path}/evil\n")
    (record.folder / ".git/logs/refs/heads").mkdir(parents=True, exist_ok=True)
    put_link(record.folder / ".git/logs/refs/heads/main", tmp_path / "file")
    monkeypatch.setattr("nexus_cli.worktrees.own_repository.is_closed", lambda folder: True)
    enter_worktree(project, "fix").end()
    assert (tmp_path / "file").read_text() == "mine\n"
    assert f"{later} refs/heads/main" in (record.folder / ".git/packed-refs").read_text()
    assert later not in (tmp_path / "evil/packed-refs").read_text()
