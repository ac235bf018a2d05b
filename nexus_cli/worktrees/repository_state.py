"""Look at the state of a git repository as a person would first: branch, uncommitted files, newest commits."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from nexus_cli.core.elide import one_line
from nexus_cli.sandbox.own_git import GitError, find_git

SECONDS = 20.0
"""Time limit of one run of git."""
FIELDS = {"1": 8, "u": 10, "?": 1}
"""Fields before the path in a line of `git status`, by kind of the line."""


def look_at_repository(folder: Path, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Return `branch`, `head` (the newest commit, "" for none) and `dirty` (paths with uncommitted changes, relative to
    its root) of the repository of `folder`; {} without one, or if git fails."""
    found = find_git(folder)
    if found is None:
        return {}
    git = replace(found, seconds=seconds)
    status = ("status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules", "--no-renames")
    try:
        lines = os.fsdecode(git.run(*git.without_filters(), *status)).split("\0")
    except (GitError, OSError):
        return {}
    headers = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line[:1] == "#")
    return {
        "branch": headers["branch.head"],
        "head": headers["branch.oid"].removeprefix("(initial)"),
        "dirty": [one_line(line.split(" ", FIELDS[line[0]])[-1]) for line in lines if line[:1] in FIELDS],
    }


def list_commits(folder: Path, reach: str, form: str, most: int, *, seconds: float = SECONDS) -> list[str]:
    """Return the newest commits of a range, newest first, each in a format of git; [] if git fails."""
    git = find_git(folder)
    if git is None:
        return []
    try:
        listed = replace(git, seconds=seconds).run("log", "--no-show-signature", f"-{most}", f"--format={form}", reach)
    except (GitError, OSError):
        return []
    return [one_line(line) for line in listed.decode("utf-8", "replace").splitlines()]
