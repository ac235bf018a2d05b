"""Worktrees: made of a project as it is, removed only with nothing in them, never a byte of the person's lost."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from project_files import write_files
from search import sample
from worktrees.repository import git, make_project, make_worktree, put_link, read_tree

from nexus_cli.config.paths import places
from nexus_cli.config.worktree_record import WorktreeRecord, find_source, find_worktree, read_record
from nexus_cli.core.errors import NexusError
from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.inspect_worktree import inspect_worktree
from nexus_cli.worktrees.own_repository import find_git
from nexus_cli.worktrees.snapshot_store import split_present
from nexus_cli.worktrees.worktrees import (
    check_name,
    describe_worktree,
    diff_worktree,
    enter_worktree,
    find_worktree_of,
    list_worktrees,
    remove_worktree,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def made(project: Path, name: str = "fix") -> WorktreeRecord:
    return make_worktree(project, name)[0]


def make_dirty(project: Path) -> None:
    """Change one file of each kind, in each way."""
    (project / "app.py").write_text("staged\n")
    git(project, "add", "app.py")
    (project / "app.py").write_text("staged\nand changed\n")
    (project / "old.txt").unlink()
    (project / "run.sh").chmod(0o755)
    (project / "link").unlink()
    (project / "link").symlink_to("sub")
    (project / "new file \u00e9\n.txt").write_bytes(b"\x00\xff new")
    (project / "sub/data.bin").write_bytes(b"\x01\x00binary")
    git(project, "mv", ".gitignore", ".gitignore2")
    git(project, "mv", ".gitignore2", ".gitignore")
    (project / "left.log").write_text("ignored")


def snapshot(project: Path) -> tuple[object, bytes, str]:
    return read_tree(project), (project / ".git/index").read_bytes(), git(project, "for-each-ref")


@pytest.mark.matrix
def test_a_dirty_project_is_carried_over_as_it_is_and_not_touched(project: Path) -> None:
    make_dirty(project)
    before, index, _ = snapshot(project)
    record = made(project)
    assert snapshot(project)[:2] == (before, index)
    carried = read_tree(record.folder)
    del before["left.log"]  # type: ignore[attr-defined]
    assert carried == before
    assert git(record.folder, "status", "--porcelain") == git(project, "status", "--porcelain")
    assert git(record.folder, "diff", "--cached") == git(project, "diff", "--cached")
    assert git(record.folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split()[1] == "worktree-fix"
    assert inspect_worktree(record).is_empty(record) and diff_worktree(record) == b""


@pytest.mark.matrix
def test_the_difference_shows_what_was_done_in_the_worktree_alone(project: Path) -> None:
    make_dirty(project)
    record = made(project)
    (record.folder / "made.txt").write_text("mine\n")
    git(record.folder, "add", "-A")
    git(record.folder, "commit", "-qm", "all of it")
    state = inspect_worktree(record)
    assert (state.counts.files, state.counts.added, state.counts.removed, state.commits) == (1, 1, 0, 1)
    assert b"+mine" in diff_worktree(record) and b"staged" not in diff_worktree(record)
    assert b"1 file changed" in diff_worktree(record, stat=True)


@pytest.mark.matrix
def test_nothing_that_the_repository_names_is_run(project: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    (project / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit", "fsmonitor-watchman"):
        shutil.copy(trap, project / ".git/hooks" / hook)
    for key in (
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "core.fsmonitor",
        "diff.trap.command",
        "diff.trap.textconv",
        "core.hooksPath",
    ):
        git(project, "config", key, str(trap) if key != "core.hooksPath" else ".git/hooks")
    git(project, "config", "filter.trap.required", "true")
    (project / "app.py").write_text("changed\n")
    record = made(project)
    (record.folder / "app.py").write_text("changed again\n")
    assert b"+changed again" in diff_worktree(record)
    with pytest.raises(NexusError) as kept:
        remove_worktree(record)
    assert "To apply its changes:" in kept.value.hint
    remove_worktree(record, force=True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.matrix
def test_a_worktree_that_is_applied_is_not_said_to_have_changes_to_bring_over(project: Path) -> None:
    record = made(project)
    (record.folder / "app.py").write_text("changed\n")
    git(record.folder, "branch", "other")
    assert apply_worktree(record).written == ["app.py"]
    applied = read_record(record.folder)
    assert applied is not None
    with pytest.raises(NexusError) as kept:
        remove_worktree(applied)
    assert kept.value.why == "the worktree has content that is not in the diff (the reference refs/heads/other)"
    assert kept.value.hint == f"To delete it: nexus worktree remove {record.name} --force"


@pytest.mark.matrix
def test_an_empty_worktree_goes_with_the_last_one_who_works_in_it(project: Path) -> None:
    refs = snapshot(project)
    first, second = enter_worktree(project, "fix"), enter_worktree(project, "fix")
    assert first.leave() == "" and first.record.folder.is_dir()
    assert second.leave() == "" and not first.record.folder.exists() and second.leave() == ""
    assert snapshot(project) == refs and list_worktrees(project) == []
    assert git(project, "worktree", "list").count("\n") == 1
    assert not [name for name in os.listdir(first.record.folder.parent) if name.startswith(".fix")]


def put_ignored_folder(folder: Path) -> None:
    write_files(folder, {"build/a": "x"})


WORK: dict[str, Callable[[Path], object]] = {
    "a changed file": lambda folder: (folder / "app.py").write_text("x"),
    "a new file": lambda folder: (folder / "made").write_text(""),
    "a deleted file": lambda folder: (folder / "app.py").unlink(),
    "a mode": lambda folder: (folder / "app.py").chmod(0o755),
    "a link": lambda folder: put_link(folder / "link", "run.sh"),
    "an ignored file": lambda folder: (folder / "notes.log").write_text("x"),
    "an ignored folder": put_ignored_folder,
    "a commit": lambda folder: git(folder, "commit", "-qm", "x", "--allow-empty"),
    "a commit that was reset": lambda folder: (
        git(folder, "commit", "-qm", "x", "--allow-empty"),
        git(folder, "reset", "-q", "--hard", "HEAD~"),
    ),
    "another branch": lambda folder: (
        git(folder, "switch", "-qc", "b"),
        git(folder, "commit", "-qm", "x", "--allow-empty"),
    ),
    "a reference of its own": lambda folder: git(
        folder, "update-ref", "refs/worktree/mine", git(folder, "commit-tree", "-m", "x", "HEAD^{tree}").strip()
    ),
    "a repository": lambda folder: make_project(folder / "inner"),
    "a repository without commits": lambda folder: git(folder, "init", "-q", "inner"),
    "staged and deleted": lambda folder: (
        (folder / "made").write_text("x"),
        git(folder, "add", "made"),
        (folder / "made").rename(folder.parent / "gone"),
    ),
    "staged and put back": lambda folder: (
        (folder / "old.txt").write_text("x"),
        git(folder, "add", "old.txt"),
        (folder / "old.txt").write_text("old\n"),
    ),
    "a broken link to the repository": lambda folder: shutil.rmtree(folder / ".git"),
    "a file that git was told to forget": lambda folder: (
        git(folder, "update-index", "--assume-unchanged", "app.py"),
        (folder / "app.py").write_text("x"),
    ),
    "a file out of the index": lambda folder: (
        git(folder, "rm", "-q", "--cached", "app.py"),
        (folder / "app.py").write_text("x"),
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(WORK, 4))
def test_a_worktree_with_something_in_it_stays(project: Path, kind: str) -> None:
    stay = enter_worktree(project, "fix")
    folder = stay.record.folder
    WORK[kind](folder)
    before = read_tree(folder)
    line = stay.leave()
    assert "fix" in line and str(folder) in line and read_tree(folder) == before
    with pytest.raises(NexusError) as told:
        remove_worktree(stay.record)
    assert told.value.exit_status == 2 and read_tree(folder) == before
    assert "--force" in told.value.hint
    again = enter_worktree(project, "fix")
    assert again.record == stay.record and again.notices == []
    again.end()
    remove_worktree(stay.record, force=True)
    assert not folder.exists()


@pytest.mark.matrix
def test_caches_of_tools_are_nothing(project: Path) -> None:
    (project / ".gitignore").write_text("__pycache__/\n")
    stay = enter_worktree(project, "fix")
    write_files(stay.record.folder, {"sub/__pycache__/x.pyc": ""})
    assert stay.leave() == "" and not stay.record.folder.exists()


def test_nobody_removes_a_worktree_in_which_a_session_works(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    with pytest.raises(NexusError, match="working in this worktree"):
        remove_worktree(stay.record)
    assert describe_worktree(stay.record)["in_use"]
    remove_worktree(stay.record, force=True)
    assert "removed meanwhile" in stay.leave()


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "a..b", ".hidden", "-x", "x" * 61, "a\x1b[31m", "a b", "x.lock", "x.", "a\n", "\u00e9"]
)
def test_names_that_are_no_folder_and_no_branch_are_refused(project: Path, name: str) -> None:
    with pytest.raises(NexusError) as told:
        enter_worktree(project, name)
    assert told.value.exit_status == 2 and told.value.line.isprintable()
    assert not (places().data / "worktrees").exists()
    check_name("a-1_B.c")


def test_what_is_no_repository_with_commits_is_refused_in_one_line(tmp_path: Path, project: Path) -> None:
    plain, bare, young = tmp_path / "plain", tmp_path / "bare", tmp_path / "young"
    plain.mkdir()
    git(tmp_path, "init", "-q", "--bare", str(bare))
    git(tmp_path, "init", "-q", str(young))
    for folder, why in (
        (plain, "not in a git repository"),
        (bare, "bare"),
        (young, "no commit"),
        (project / ".git", ""),
    ):
        with pytest.raises(NexusError) as told:
            enter_worktree(folder, "fix")
        assert why in told.value.why and told.value.exit_status == 2 and told.value.hint
        assert list_worktrees(folder) == []


def test_a_project_without_git_on_the_path_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.parent))
    with pytest.raises(NexusError, match="git was not found"):
        enter_worktree(project, "fix")


def test_a_home_folder_is_no_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(NexusError, match="home folder"):
        enter_worktree(project, "fix")


@pytest.mark.matrix
def test_a_detached_head_and_a_merge_under_way_are_carried_over(project: Path) -> None:
    git(project, "checkout", "-q", "--detach")
    git(project, "switch", "-qc", "other")
    (project / "app.py").write_text("theirs\n")
    git(project, "commit", "-qam", "theirs")
    git(project, "switch", "-q", "--detach", "main")
    (project / "app.py").write_text("ours\n")
    git(project, "commit", "-qam", "ours")
    with pytest.raises(AssertionError):
        git(project, "merge", "other")
    record, notices = make_worktree(project, "fix")
    assert "merge" in notices[0] and "<<<<<<<" in (record.folder / "app.py").read_text()
    assert git(record.folder, "ls-files", "-u") == git(project, "ls-files", "-u") != ""
    assert inspect_worktree(record).is_empty(record)


@pytest.mark.matrix
def test_submodules_and_inner_repositories_are_told_and_left_out(project: Path, tmp_path: Path) -> None:
    inner = make_project(tmp_path / "inner")
    git(project, "submodule", "add", "-q", str(inner), "deps/inner")
    git(project, "commit", "-qm", "submodule")
    make_project(project / "own")
    (project / "deps/inner/app.py").write_text("dirty")
    record, notices = make_worktree(project, "fix")
    assert [("deps/inner" in notices[0]), ("own" in notices[1])] == [True, True]
    assert os.listdir(record.folder / "deps/inner") == [] and not (record.folder / "own").exists()
    assert inspect_worktree(record).is_empty(record)
    git(record.folder, "submodule", "update", "-q", "--init")
    assert "submodule" in inspect_worktree(record).describe()
    with pytest.raises(NexusError):
        remove_worktree(record)


@pytest.mark.matrix
def test_a_worktree_of_a_worktree_works(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "second"))
    (tmp_path / "second/app.py").write_text("second\n")
    record = made(tmp_path / "second")
    assert (record.folder / "app.py").read_text() == "second\n" and record.source == tmp_path / "second"
    inner = enter_worktree(record.folder, "inner")
    assert find_source(inner.record.folder) == tmp_path / "second"
    assert not inspect_worktree(record).is_empty(record)
    assert inner.leave() == "" and inspect_worktree(record).is_empty(record)


@pytest.mark.matrix
def test_files_of_large_file_storage_are_carried_over_with_their_content(project: Path) -> None:
    """A smudged file differs from what git has of it: git must not be asked to compare it."""
    config = Path(os.environ["HOME"]) / "gitconfig"
    config.write_text('[filter "lfs"]\n\tclean = "printf pointer"\n\tsmudge = false\n\trequired = true\n')
    (project / ".gitattributes").write_text("*.big filter=lfs -text\n")
    (project / "a.big").write_text("content\n" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(config))
        git(project, "add", "-A")
        git(project, "commit", "-qm", "large")
        assert git(project, "show", "HEAD:a.big") == "pointer"
        record = made(project)
        assert (record.folder / "a.big").read_text() == "content\n" * 1000
        assert inspect_worktree(record).is_empty(record)
        (record.folder / "a.big").write_text("other\n")
        assert b"+other" in diff_worktree(record)


@pytest.mark.matrix
def test_line_ends_are_kept_to_the_byte(project: Path) -> None:
    (project / ".gitattributes").write_text("*.txt text eol=crlf\n* text=auto\n")
    (project / "crlf.txt").write_bytes(b"a\r\nb\n")
    git(project, "config", "core.autocrlf", "true")
    record = made(project)
    assert (record.folder / "crlf.txt").read_bytes() == b"a\r\nb\n" and inspect_worktree(record).is_empty(record)
    (record.folder / "crlf.txt").write_bytes(b"a\nb\n")
    assert inspect_worktree(record).counts.files == 1


@pytest.mark.matrix
def test_settings_and_instructions_are_carried_over_though_ignored(project: Path) -> None:
    (project / ".gitignore").write_text(".nexus/\nNEXUS.md\n*.log\n")
    write_files(project, {".nexus/config.toml": 'allow = "read"\n', "NEXUS.md": "Be careful.\n"})
    record = made(project)
    assert (record.folder / ".nexus/config.toml").exists() and (record.folder / "NEXUS.md").exists()
    assert inspect_worktree(record).is_empty(record)
    write_files(record.folder, {".nexus/recipes/x.toml": ""})
    assert inspect_worktree(record).kept == (".nexus/recipes/x.toml",)


@pytest.mark.matrix
def test_what_tools_fill_again_does_not_hold_a_worktree_and_an_ignored_file_of_notes_does(project: Path) -> None:
    (project / ".gitignore").write_text("*.secret\n.tox/\n")
    record = made(project)
    cache = record.folder / "sub/.pytest_cache"
    write_files(cache, {".gitignore": "*\n", "v/lastfailed": "{}"})
    write_files(record.folder, {".tox/py/app": ""})
    assert inspect_worktree(record).is_empty(record)
    (record.folder / "notes.secret").write_text("the only copy")
    assert inspect_worktree(record).kept == ("notes.secret",)


@pytest.mark.matrix
@pytest.mark.parametrize("is_full", sample([False, True], 2, 1))
def test_no_commit_of_an_applied_worktree_is_lost_unsaid(
    project: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    record = made(project)
    (record.folder / "app.py").write_text("an earlier state\n")
    git(record.folder, "commit", "-qam", "earlier")
    (record.folder / "app.py").write_text("print('new')\n")
    git(record.folder, "commit", "-qam", "later")
    apply_worktree(record)
    record, tip = read_record(record.folder) or record, git(record.folder, "rev-parse", "HEAD").strip()
    if not is_full:
        assert f"its commits: {tip[:12]}; to keep a commit: git branch NAME COMMIT" in remove_worktree(record)
        git(project, "branch", "again", tip[:12])
        assert git(project, "show", "again~1:app.py") == "an earlier state\n"
        return

    def fail(*_: object, **__: object) -> str:
        raise GitError("no space left on device")

    monkeypatch.setattr("nexus_cli.worktrees.worktrees.publish_branch", fail)
    with pytest.raises(NexusError, match="not copied to the project: no space left"):
        remove_worktree(record)
    assert (record.folder / ".git").is_dir()
    assert "not copied to the project: no space left" in remove_worktree(record, force=True)


def test_build_output_holds_no_worktree_whose_changes_were_applied(project: Path) -> None:
    (project / ".gitignore").write_text("dist/\n*.secret\n")
    record = made(project)
    (record.folder / "app.py").write_text("print('new')\n")
    write_files(record.folder, {"dist/app.js": "built"})
    with pytest.raises(NexusError, match="the worktree has unapplied changes"):
        remove_worktree(record)
    apply_worktree(record)
    record = read_record(record.folder) or record
    (record.folder / "notes.secret").write_text("the only copy")
    with pytest.raises(NexusError, match=r"notes\.secret"):
        remove_worktree(record)
    (record.folder / "notes.secret").unlink()
    assert "also deleted (ignored): dist/" in remove_worktree(record)
    assert not record.folder.exists() and (project / "app.py").read_text() == "print('new')\n"


@pytest.mark.matrix
def test_own_folders_inside_the_project_are_not_carried_over(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(project / "home"))
    write_files(project, {"home/data/ledger.db": "secret"})
    record = made(project)
    assert not (record.folder / "home").exists() and inspect_worktree(record).is_empty(record)


@pytest.mark.matrix
def test_a_folder_that_was_deleted_by_hand_is_told_and_made_again(project: Path) -> None:
    record = made(project)
    (record.folder / "app.py").write_text("x\n")
    git(record.folder, "commit", "-qam", "work")
    enter_worktree(project, "fix").leave()
    shutil.rmtree(record.folder)
    assert describe_worktree(record)["state"] == "missing"
    with pytest.raises(NexusError, match="no longer exists"):
        diff_worktree(record)
    again, notices = make_worktree(project, "fix")
    assert "deleted" in notices[0] and "worktree-fix" in notices[0]
    assert again.branch == "worktree-fix-2" and "work" in git(project, "log", "--oneline", "worktree-fix")
    shutil.rmtree(again.folder)
    assert remove_worktree(again) == "" and list_worktrees(project) == []
    assert "worktree-fix-2" not in git(project, "branch")


def test_a_folder_without_its_record_is_never_taken_over(project: Path) -> None:
    record = made(project)
    shutil.rmtree(record.home)
    (record.folder / "work").write_text("mine")
    with pytest.raises(NexusError, match="exists, but nexus has no record of it"):
        enter_worktree(project, "fix")
    assert (record.folder / "work").read_text() == "mine"


@pytest.mark.matrix
def test_a_branch_of_the_same_name_stays_the_persons(project: Path) -> None:
    git(project, "branch", "worktree-fix")
    git(project, "branch", "worktree")
    record = made(project)
    assert record.branch == "worktree-fix-2"
    remove_worktree(record)
    assert git(project, "branch", "--format=%(refname:short)").split() == ["main", "worktree", "worktree-fix"]


@pytest.mark.matrix
def test_what_could_not_be_made_whole_leaves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(project)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nexus_cli.worktrees.make_worktree._copy_files", fail)
    with pytest.raises(NexusError) as told:
        enter_worktree(project, "fix")
    assert "No space left" in told.value.line and "Free some space" in told.value.hint and told.value.exit_status == 1
    assert snapshot(project) == before and list_worktrees(project) == []
    monkeypatch.undo()


@pytest.mark.matrix
def test_one_whose_making_was_killed_is_made_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus_cli.worktrees.worktrees._discard", lambda place: None)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nexus_cli.worktrees.make_worktree._copy_files", stop)
    with pytest.raises(KeyboardInterrupt):
        enter_worktree(project, "fix")
    monkeypatch.undo()
    assert list_worktrees(project) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEXUS_HOME", str(places().data.parent))
        record = made(project)
    assert record.branch == "worktree-fix" and inspect_worktree(record).is_empty(record)


@pytest.mark.matrix
def test_a_clean_up_of_the_repository_takes_nothing_from_a_worktree(project: Path) -> None:
    (project / "staged.txt").write_text("only ever staged\n")
    git(project, "add", "staged.txt")
    record = made(project)
    git(project, "rm", "-q", "--cached", "staged.txt")
    (project / "staged.txt").unlink()
    git(record.folder, "commit", "-qam", "work")
    (record.folder / "staged.txt").write_text("changed\n")
    git(record.folder, "add", "-A")
    git(record.folder, "commit", "-qm", "more")
    git(record.folder, "reset", "-q", "--hard", "HEAD~2")
    (record.folder / "staged.txt").write_text("changed\n")
    git(project, "commit", "-q", "--amend", "-m", "other")
    for command in (("reflog", "expire", "--expire=now", "--all"), ("gc", "-q", "--prune=now")):
        git(project, *command)
    assert b"-only ever staged" in diff_worktree(record)


@pytest.mark.matrix
def test_a_link_to_another_repository_is_not_followed(project: Path, tmp_path: Path) -> None:
    record = made(project)
    other = make_project(tmp_path / "other")
    git(other, "config", "core.fsmonitor", f"touch {tmp_path}/sprung")
    shutil.rmtree(record.folder / ".git")
    (record.folder / ".git").write_text(f"gitdir: {other}/.git\n")
    (record.folder / "work.txt").write_text("work\n")
    state = inspect_worktree(record)
    assert state.counts.files == 1 and "the repository is broken" in state.describe()
    assert not (tmp_path / "sprung").exists()


@pytest.mark.matrix
def test_names_that_are_near_are_offered(project: Path) -> None:
    made(project, "parser")
    with pytest.raises(NexusError) as told:
        find_worktree_of(project, "parsr")
    assert "parser" in told.value.hint


@pytest.mark.matrix
def test_a_place_in_a_worktree_is_known_by_its_path(project: Path) -> None:
    record = made(project)
    assert find_worktree(record.folder / "sub") == record and find_source(record.folder) == project
    assert find_worktree(project) is None and find_source(record.folder / "sub") == record.folder / "sub"
    assert find_worktree(record.home) is None


@pytest.mark.matrix
def test_git_variables_of_a_hook_lead_nowhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, "/nonexistent")
    record = made(project)
    env = {name: value for name, value in os.environ.items() if name == "PATH"}
    done = subprocess.run(["git", "status", "--porcelain"], cwd=record.folder, env=env, capture_output=True)
    assert done.stdout == b"" and inspect_worktree(record).is_empty(record)


@pytest.mark.matrix
def test_staging_alone_is_nothing(project: Path) -> None:
    make_dirty(project)
    stay = enter_worktree(project, "fix")
    git(stay.record.folder, "add", "-A")
    assert stay.leave() == "" and not stay.record.folder.exists()


def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root lists every folder: a git that warns as it does for others stands in."""
    stay = enter_worktree(project, "fix")
    real = shutil.which("git")
    program = project.parent / "bin/git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *"ls-files -o"*) echo "warning: could not open directory" >&2;; esac\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert "a folder cannot be listed" in stay.leave() and stay.record.folder.is_dir()


@pytest.mark.matrix
def test_files_that_a_sparse_checkout_leaves_out_are_not_deleted(project: Path) -> None:
    git(project, "sparse-checkout", "set", "--no-cone", "/*", "!/sub/")
    assert not (project / "sub").exists()
    record = made(project)
    assert git(record.folder, "status", "--porcelain") == "" and inspect_worktree(record).is_empty(record)
    (record.folder / "app.py").write_text("x\n")
    git(record.folder, "commit", "-qam", "work")
    assert git(record.folder, "show", "--stat", "--format=").strip().startswith("app.py |")
    assert b"data.bin" not in diff_worktree(record)


@pytest.mark.matrix
def test_a_store_holds_nothing_that_the_repository_has(project: Path) -> None:
    (project / "large.bin").write_bytes(os.urandom(1 << 20))
    git(project, "add", "-A")
    git(project, "commit", "-qm", "large")
    record = made(project)
    assert sum(path.stat().st_size for path in record.store.rglob("*") if path.is_file()) < 20_000


def test_an_index_that_names_files_outside_brings_nothing_there(project: Path) -> None:
    (project.parent / "trust.json").write_text("theirs")
    blob = git(project, "hash-object", "app.py").strip()
    path = b"../trust.json"
    entry = bytes(24) + (0o100644).to_bytes(4, "big") + bytes(12) + bytes.fromhex(blob)
    entry += len(path).to_bytes(2, "big") + path
    body = b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry + bytes(8 - len(entry) % 8)
    (project / ".git/index").write_bytes(body + hashlib.sha1(body).digest())
    with pytest.raises(NexusError, match="outside the project"):
        made(project)
    assert not list(places().data.rglob("trust.json")) and list_worktrees(project) == []


@pytest.mark.matrix
def test_a_removal_that_is_killed_half_way_leaves_no_half_of_a_worktree(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made(project)
    (record.folder / "made").write_text("x")

    def stop(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nexus_cli.worktrees.worktrees._delete_tree", stop)
        remove_worktree(record, force=True)
    assert not record.folder.exists() and describe_worktree(record)["state"] == "missing"
    before = read_tree(project)
    with pytest.raises(NexusError, match="no longer exists"):
        apply_worktree(record)
    assert read_tree(project) == before
    remove_worktree(record)
    assert not record.home.exists() and git(project, "worktree", "list").count("\n") == 1


@pytest.mark.matrix
def test_what_a_killed_removal_left_is_no_part_of_the_next_one(project: Path) -> None:
    (project / "note").write_text("x")
    record = made(project)
    shutil.rmtree(record.folder)
    (record.home / "record.json").unlink()
    (project / "note").unlink()
    again = made(project)
    assert inspect_worktree(again).is_empty(again) and diff_worktree(again) == b""


@pytest.mark.matrix
def test_a_clean_up_by_git_that_does_not_see_the_folder_takes_nothing(project: Path) -> None:
    record = made(project)
    git(record.folder, "switch", "-q", "--detach")
    git(record.folder, "commit", "-q", "--allow-empty", "-m", "x")
    hidden = record.folder.rename(record.folder.with_name("hidden"))
    git(project, "worktree", "prune")
    hidden.rename(record.folder)
    assert inspect_worktree(record).commits == 1


@pytest.mark.matrix
def test_worktrees_of_a_worktree_are_found_from_the_project(project: Path) -> None:
    outer = made(project, "outer")
    inner = made(outer.folder, "inner")
    assert list_worktrees(project) == [outer, inner] and find_worktree_of(project, "inner") == inner


@pytest.mark.matrix
def test_no_setting_of_a_repository_lets_git_fetch(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(project), str(copy))
    git(copy, "config", "protocol.file.allow", "always")
    git(copy, "fetch", "-q")
    status, _, errors = Git(find_git(copy), copy).try_run("fetch", "-q")
    assert status and (b"not allowed" in errors or b"Permission denied" in errors)


@pytest.mark.matrix
@pytest.mark.parametrize("name", [".GIT/made", "git~1"])
def test_a_file_that_git_refuses_for_its_name_is_not_taken_for_nothing(project: Path, name: str) -> None:
    stay = enter_worktree(project, "fix")
    path = stay.record.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("work")
    assert name in stay.leave() and path.read_text() == "work"
    with pytest.raises(NexusError, match=name):
        remove_worktree(stay.record)
    path.unlink()
    remove_worktree(stay.record)


@pytest.mark.matrix
def test_a_worktree_of_which_git_has_lost_its_state_can_be_applied(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    (stay.record.folder / "made").write_text("work")
    (stay.record.folder / ".git/HEAD").unlink()
    assert "broken" in stay.leave() and describe_worktree(stay.record)["state"] == "changed"
    assert apply_worktree(stay.record).written == ["made"]


@pytest.mark.matrix
def test_a_store_holds_each_file_once(project: Path) -> None:
    (project / "large").write_bytes(os.urandom(3 << 20))
    record = made(project)
    held = sum(path.stat().st_size for path in record.store.rglob("*") if path.is_file())
    assert 3 << 20 < held < 4 << 20


@pytest.mark.matrix
def test_a_branch_may_stand_where_the_name_is_a_folder(project: Path) -> None:
    git(project, "branch", "worktree-fix/other")
    assert made(project).branch == "worktree-fix-2"


@pytest.mark.matrix
def test_of_a_project_that_was_moved_the_place_of_the_work_is_told(project: Path) -> None:
    record = made(project)
    (record.folder / "made").write_text("work")
    project.rename(project.parent / "elsewhere")
    with pytest.raises(NexusError, match="project no longer exists") as told:
        diff_worktree(record)
    assert str(record.folder) in told.value.hint and "no longer exists" in describe_worktree(record)["problem"]
    (project.parent / "elsewhere").rename(project)
    assert apply_worktree(record).written == ["made"]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_link_that_a_command_puts_while_files_are_copied_is_not_followed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write_files(tmp_path, {"keys/data.bin": "SECRET"})
    real = split_present

    def interfere(root: Path, paths: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        found = real(root, paths)
        if root == project and kind == "folder":
            shutil.rmtree(project / "sub")
            (project / "sub").symlink_to(tmp_path / "keys")
        elif root == project:
            put_link(project / "sub/data.bin", tmp_path / "keys/data.bin")
        return found

    monkeypatch.setattr("nexus_cli.worktrees.make_worktree.split_present", interfere)
    record = made(project)
    assert not [one for one in read_tree(record.folder).values() if one[1] == b"SECRET" and one[0] != "link"]
    assert (record.folder / "app.py").read_text() == (project / "app.py").read_text()
    assert not (record.folder / "sub/data.bin").exists() or kind == "file"
