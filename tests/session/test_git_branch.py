"""The branch: read from git's files, whatever stands there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from project_files import write_files

from nexus_cli.reports.git_branch import read_branch


def _head(folder: Path, text: str) -> None:
    write_files(folder, {".git/HEAD": text})


def test_a_branch_a_commit_and_no_repository(tmp_path: Path) -> None:
    _head(tmp_path / "one", "ref: refs/heads/feature/x\n")
    _head(tmp_path / "two", "0123456789abcdef0123456789abcdef01234567\n")
    (tmp_path / "one" / "below").mkdir()
    assert read_branch(tmp_path / "one" / "below") == "feature/x"
    assert read_branch(tmp_path / "two") == "0123456"
    assert read_branch(Path("/")) == ""


def test_a_worktree_names_its_folder_in_a_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"real/HEAD": "ref: refs/heads/main\n", "tree/.git": "gitdir: ../real\n"})
    assert read_branch(tmp_path / "tree") == "main"


@pytest.mark.parametrize("text", ["gitdir: a\0b", "gitdir: ", "", "gitdir: " + "x" * 9000, "\udcff"])
def test_a_file_that_names_nothing_is_no_branch(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_branch(tmp_path) == ""


@pytest.mark.parametrize("kind", ["pipe", "zero", "folder", "loop", "nothing"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    match kind:
        case "pipe":
            os.mkfifo(head)
        case "zero":
            head.symlink_to("/dev/zero")
        case "folder":
            head.mkdir()
        case "loop":
            head.symlink_to(head)
    assert read_branch(tmp_path) == ""


@pytest.mark.parametrize(
    "text", ["ref: refs/heads/main\nx", "main\n", "ref: main\n", f"{'0' * 40}\n", "1" * 39, "\udcff"]
)
def test_a_head_that_git_does_not_accept_names_no_branch(tmp_path: Path, text: str) -> None:
    write_files(tmp_path, {".git/HEAD": text.encode("utf-8", "surrogateescape")})
    assert read_branch(tmp_path) == ""


def test_a_huge_head_names_no_branch(tmp_path: Path) -> None:
    _head(tmp_path, "ref: refs/heads/main\n")
    os.truncate(tmp_path / ".git" / "HEAD", 1 << 40)
    assert read_branch(tmp_path) == ""
