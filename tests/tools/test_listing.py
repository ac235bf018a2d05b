"""`.gitignore` outside a repository: what git would list is listed, whatever the patterns are."""

from __future__ import annotations

import os
import random
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from search import SEARCHES

from nexus_cli.tools import listing
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.listing import list_files

NAMES = ("a", "b", "ab", "a.b", "[x]", "#h", "!n", " s", "c d", "x-y", "é")
PIECES = (
    "a",
    "b",
    "/",
    "*",
    "**",
    "**/",
    "/**",
    "?",
    "[ab]",
    "[!a]",
    "[^x]",
    "\\a",
    "\\",
    "[",
    "]",
    "[]x]",
    "[a-c]",
    "[[:alpha:]]",
    "[[:x:]]",
    "ab",
    ".",
    " ",
    "\\ ",
    "-",
    "#",
    "x",
    "!",
    "[z-a]",
    "[\\]a]",
    "***",
    "\r",
)


def grow(folder: Path, how: random.Random) -> None:
    """Make files, and ignore files of random patterns in two of the folders."""
    for _ in range(25):
        path = folder.joinpath(*(how.choice(NAMES) for _ in range(how.randrange(1, 5))))
        if not any(one.is_file() for one in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    folders = [folder, *(one for one in sorted(folder.rglob("*")) if one.is_dir())]
    for one in how.sample(folders, min(2, len(folders))):
        lines = ["".join(how.choice(PIECES) for _ in range(how.randrange(1, 6))) for _ in range(how.randrange(1, 5))]
        (one / ".gitignore").write_text("\n".join(how.choice(("", "", "!")) + line for line in lines) + "\n")


@pytest.mark.matrix
def test_files_outside_a_repository_are_those_that_git_would_list(tmp_path: Path) -> None:
    how = random.Random(25)
    for number in range(1000 if SEARCHES else 40):
        folder = tmp_path / str(number)
        folder.mkdir()
        grow(folder, how)
        found = list_files(folder, folder, StopFlag())
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        listed = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True
        ).stdout
        wanted = sorted(os.fsdecode(name) for name in listed.split(b"\0") if name)
        texts = {str(one): one.read_text() for one in folder.rglob(".gitignore")}
        assert found == wanted or not wanted, texts


@pytest.mark.matrix
def test_a_folder_that_a_file_above_ignores_is_listed_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out\n*.log\n")
    for name in ("out/sub/a.txt", "src/a.py", "src/b.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list_files(tmp_path / "out/sub", tmp_path, StopFlag()) == ["a.txt"]
    assert list_files(tmp_path / "src", tmp_path, StopFlag()) == ["a.py"]
    assert list_files(tmp_path, tmp_path, StopFlag()) == [".gitignore", "src/a.py"]


def test_a_repository_is_listed_by_git_where_no_temporary_folder_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("a", "b.log"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    monkeypatch.setattr(listing, "TemporaryDirectory", partial(TemporaryDirectory, dir=tmp_path / "nowhere"))
    assert list_files(tmp_path, tmp_path, StopFlag()) == [".gitignore", "a"]
