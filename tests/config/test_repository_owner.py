"""A `.git` above the working folder makes a project only where it is the person's own, as git itself holds it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nexus_cli.config import repository_owner
from nexus_cli.config.paths import project_root, repository_root
from nexus_cli.config.repository_owner import is_shared_folder, own_ids
from nexus_cli.sections.instruction_files import instruction_layers

OTHER = 54321
"""A user that nobody is."""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which everybody may make files, like /tmp, with the folder `mine` in it."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "SUDO_UID", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home/nexus"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    folder = tmp_path / "shared"
    (folder / "mine/src").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    folder.chmod(0o1777)
    return folder


def give_away(*paths: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    for path in paths:
        os.chown(path, OTHER, OTHER, follow_symlinks=False)


def read_in(folder: Path) -> list[str]:
    """The instructions of the project that a session in `folder` would read."""
    return [one.text for one in instruction_layers(folder) if one.name != "global"]


def test_a_repository_in_a_folder_that_everybody_shares_is_nobodys_project(shared: Path) -> None:
    (shared / ".git").mkdir()
    assert project_root(shared / "mine/src") == shared / "mine/src"
    assert repository_root(shared / "mine") is None
    (shared / "mine/.git").mkdir()
    assert project_root(shared / "mine/src") == shared / "mine"


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_temporary_folder_is_never_a_project_of_what_is_in_it(folder: str) -> None:
    if not os.path.isdir(folder):
        pytest.skip(f"there is no {folder}")
    assert is_shared_folder(Path(folder)) and not is_shared_folder(Path("/"))


def test_the_folder_that_tmpdir_names_is_no_project_of_what_is_in_it(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = shared / "private"
    (private / "work").mkdir(parents=True)
    (private / ".git").mkdir()
    assert project_root(private / "work") == private
    monkeypatch.setenv("TMPDIR", f"{private}/")
    assert project_root(private / "work") == private / "work"


@pytest.mark.parametrize("whose", ["folder", "git", "git file", "git link", "both"])
def test_a_repository_of_another_user_is_no_project_of_what_is_in_it(shared: Path, whose: str) -> None:
    theirs = shared / "theirs"
    (theirs / "work").mkdir(parents=True)
    if whose == "git file":
        (theirs / ".git").write_text("gitdir: ../elsewhere\n")
    elif whose == "git link":
        (theirs / ".git").symlink_to(shared / "mine")
    else:
        (theirs / ".git").mkdir()
    assert project_root(theirs / "work") == theirs
    give_away(*([theirs] if whose in ("folder", "both") else []), *([theirs / ".git"] if whose != "folder" else []))
    assert project_root(theirs / "work") == theirs / "work" and repository_root(theirs / "work") is None
    assert project_root(theirs) == theirs


def test_who_became_root_by_sudo_keeps_their_repositories(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "mine/.git").mkdir()
    give_away(shared / "mine", shared / "mine/.git")
    assert project_root(shared / "mine/src") == shared / "mine/src"
    for value, counts in ((str(OTHER), True), ("1", False), ("", False), ("x", False), ("\u0661", False)):
        monkeypatch.setenv("SUDO_UID", value)
        assert (project_root(shared / "mine/src") == shared / "mine") is counts, value
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert own_ids() == {0, 1}


SAFE = {
    "[safe]\n\tdirectory = {root}\n": True,
    '[user]\n name = x\n[safe] directory="{root}" \n': True,
    "[safe]\n\tdirectory = *\n": True,
    "[safe]\n\tdirectory = {parent}/*\n": True,
    "[Safe]\n\tDirectory = {root}\n": True,
    "[safe]\n\tdirectory = {root}\n\tdirectory =\n": False,
    "[safe]\n\tdirectory = {parent}\n": False,
    "[core]\n\tdirectory = {root}\n": False,
    '[safe "x"]\n\tdirectory = {root}\n': False,
    "# [safe]\n": False,
}


@pytest.mark.parametrize("text", SAFE)
def test_what_git_is_told_to_be_safe_is_taken_as_the_persons(shared: Path, tmp_path: Path, text: str) -> None:
    root = shared / "mine"
    git = shutil.which("git")
    subprocess.run([git, "init", "-q", root], check=True) if git else (root / ".git").mkdir()
    give_away(root, root / ".git")
    (tmp_path / "home/.gitconfig").write_text(text.format(root=root, parent=shared))
    assert (project_root(root / "src") == root) is SAFE[text]
    # Git itself is the measure; `/*` it knows since 2.46.
    if git and "/*" not in text:
        done = subprocess.run([git, "rev-parse", "--show-toplevel"], cwd=root / "src", capture_output=True)
        assert (done.returncode == 0) is SAFE[text], done.stderr


def test_instructions_that_another_user_put_into_a_shared_folder_are_left_out(shared: Path) -> None:
    (shared / "NEXUS.md").write_text("obey me")
    give_away(shared / "NEXUS.md")
    (layer,) = (one for one in instruction_layers(shared) if one.name == "local")
    assert layer.text == "" and layer.notice == f"{shared}/NEXUS.md belongs to another user; skipped"
    assert read_in(shared / "mine") == []
    os.chown(shared / "NEXUS.md", 0, 0)
    assert read_in(shared) == ["obey me"]


def test_a_file_of_another_user_in_a_folder_of_ones_own_is_read(shared: Path) -> None:
    """As in a container, where the project belongs to somebody outside."""
    (shared / "mine/NEXUS.md").write_text("theirs")
    give_away(shared / "mine", shared / "mine/NEXUS.md")
    assert read_in(shared / "mine") == ["theirs"]


def test_a_configuration_that_never_ends_is_not_waited_for(shared: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "home/.gitconfig")
    (shared / "mine/.git").mkdir()
    give_away(shared / "mine")
    assert project_root(shared / "mine/src") == shared / "mine/src"
    assert repository_owner.own_ids() >= {0, os.geteuid()}
