"""A repository's name: the same in every clone, read without starting what its configuration names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from search import sample
from worktrees.repository import git

from nexus_cli.sandbox.repository_key import configuration_stamp, normalize_remote, repository_key


def make(folder: Path, remote: str = "git@github.com:acme/shop.git", commits: int = 2) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for number in range(commits):
        git(folder, "commit", "-q", "--allow-empty", "-m", f"commit {number} of {folder.name}")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("https://github.com/Acme/Shop", "github.com/acme/shop"),
        ("https://ana:token@github.com/acme/shop.git/", "github.com/acme/shop"),
        ("ssh://git@github.com:22/acme/shop.git", "github.com/acme/shop"),
        ("github.com:acme/shop", "github.com/acme/shop"),
        ("/srv/git/shop.git", "file:/srv/git/shop"),
        ("file:///srv/git/shop.git", "file:/srv/git/shop"),
        ("../shop.git", "file:/home/ana/shop"),
    ],
)
def test_the_ways_to_write_a_remote_are_one_name(url: str, name: str) -> None:
    assert normalize_remote(url, Path("/home/ana/work")) == name


@pytest.mark.matrix
def test_clones_have_one_name_whatever_branch_is_out(tmp_path: Path) -> None:
    first = make(tmp_path / "ana" / "shop")
    git(tmp_path, "clone", "-q", str(first), "mira")
    other = tmp_path / "mira"
    git(other, "remote", "set-url", "origin", "https://mira@github.com/acme/shop")
    git(other, "checkout", "-q", "--orphan", "pages")
    git(other, "commit", "-q", "--allow-empty", "-m", "another beginning")
    root = git(first, "rev-list", "--max-parents=0", "HEAD").strip()
    assert repository_key(first) == repository_key(other) == f"github.com/acme/shop#{root[:12]}"


@pytest.mark.matrix
def test_another_repository_at_the_same_remote_has_another_name(tmp_path: Path) -> None:
    assert repository_key(make(tmp_path / "one")) != repository_key(make(tmp_path / "two"))


def test_a_folder_without_remote_or_commit_has_no_name(tmp_path: Path) -> None:
    assert repository_key(make(tmp_path / "one", remote="")) == ""
    assert repository_key(make(tmp_path / "two", commits=0)) is None, "it has one after the first commit"
    assert configuration_stamp(tmp_path) == ""


def test_what_git_cannot_tell_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path / "one")
    git(tmp_path, "clone", "-q", "--depth", "1", made.as_uri(), "shallow")
    assert repository_key(tmp_path / "shallow") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert repository_key(made) is None


def test_no_program_that_the_configuration_names_is_started(tmp_path: Path) -> None:
    made, mark = make(tmp_path / "one"), tmp_path / "mark"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    (tmp_path / "included").write_text(f'[remote "origin"]\n url = evil.example:a/b\n[core]\n fsmonitor = {script}\n')
    with (made / ".git" / "config").open("a") as file:
        file.write(
            f"[core]\n fsmonitor = {script}\n hooksPath = {tmp_path}\n sshCommand = {script}\n pager = {script}\n"
        )
        file.write(f"[alias]\n rev-list = !{script}\n")
    assert str(repository_key(made)).startswith("github.com/acme/shop#")
    with (made / ".git" / "config").open("a") as file:
        file.write(f"[include]\n path = {tmp_path / 'included'}\n")
    assert "evil" not in str(repository_key(made)), "a file outside the project is not read"
    assert not mark.exists()


def test_a_changed_configuration_has_another_stamp(tmp_path: Path) -> None:
    made = make(tmp_path / "one")
    before = configuration_stamp(made)
    os.utime(made / ".git" / "config", ns=(1, 1))
    assert before and configuration_stamp(made) != before


@pytest.mark.parametrize(
    "url",
    sample(
        [
            "https://user:p@ss@host/a/b",
            "https://user:pa/ss@host/a/b",
            "gcrypt::https://u:pw@host/a",
            "https://host/a?private_token=x",
            "https://host/a\x1b[2J",
        ],
        3,
    ),
)
def test_a_remote_that_may_hold_a_secret_names_no_project(url: str, tmp_path: Path) -> None:
    assert repository_key(make(tmp_path / "one", remote=url)) == ""
