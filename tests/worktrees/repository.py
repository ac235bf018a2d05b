"""A project in a real git repository, for the tests of worktrees."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.worktrees.worktrees import enter_worktree

IDENTITY = (
    *("-c", "user.name=A", "-c", "user.email=a@example.org"),
    *("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"),
)


def git(folder: Path, *words: str) -> str:
    """Run git in `folder` and return what it printed."""
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_project(folder: Path) -> Path:
    """Return a new repository with one commit."""
    shutil.copytree(_template(), folder, symlinks=True)
    git(folder, "update-index", "-q", "--refresh")
    return folder


@cache
def _template() -> Path:
    """Return the project that all others of this process are copied from."""
    base = Path(tempfile.mkdtemp(prefix="nexus-project-"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    folder = base / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "app.py").write_text("".join(f"line {number}\n" for number in range(20)))
    (folder / "sub").mkdir()
    (folder / "sub/data.bin").write_bytes(bytes(range(256)) * 8)
    (folder / "old.txt").write_text("old\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "link").symlink_to("app.py")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def read_tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return every file and link below `folder` but git's own, with its mode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            found[name] = ("link", os.fsencode(os.readlink(path)))
        else:
            found[name] = (oct(stat.S_IMODE(path.stat().st_mode)), path.read_bytes())
    return found


def put_link(path: Path, target: Path | str) -> None:
    """Make `path` a link to `target`, whatever it was."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def make_worktree(project: Path, name: str) -> tuple[WorktreeRecord, list[str]]:
    """Return the worktree of this name, in which nobody works, and what a person was told."""
    stay = enter_worktree(project, name)
    stay.end()
    return stay.record, stay.notices
