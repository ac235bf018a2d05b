"""Look at the state of a git repository as a person would first: branch, uncommitted files, newest commits."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.paths import project_root
from nexus_cli.config.worktree_record import MAX_OF_LINK, read_git_file
from nexus_cli.core.elide import one_line
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.real_files import open_real, read_regular
from nexus_cli.sandbox.own_git import GitError, find_git

SECONDS = 20.0
"""Time limit of one run of git."""
_OPEN_WORK = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
"""What is in a git folder while such work waits for the person."""
_MAX_OF_MOVE = 4_096
"""Most bytes of the newest lines of git's log of HEAD that are read."""
FIELDS = {"1": 8, "u": 10, "?": 1}
"""Fields before the path in a line of `git status`, by kind of the line."""


def look_at_repository(folder: Path, *, seconds: float = SECONDS) -> JsonDict:
    """Return `branch` (the one that is rebased, if any), `head` (the newest commit, "" for none), `dirty` (paths with
    uncommitted changes, relative to its root), `work` (what `find_open_work` finds) and `moved` (what `_find_move`
    finds) of the repository of `folder`; {} without one, or if git fails."""
    options = "status --porcelain=v2 --branch -z --ignore-submodules=dirty --no-renames"
    lines = os.fsdecode(_run_git(folder, seconds, *options.split())).split("\0")
    headers = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line[:1] == "#")
    if not headers:
        return {}
    root = project_root(folder)
    git_folder = read_git_file(root) or root / ".git"  # git has just read it inside its walls
    return {
        "branch": _find_rebased(git_folder) or headers["branch.head"],
        "head": headers["branch.oid"].removeprefix("(initial)"),
        "dirty": [one_line(line.split(" ", FIELDS[line[0]])[-1]) for line in lines if line[:1] in FIELDS],
        "work": find_open_work(git_folder),
        "moved": _find_move(git_folder),
    }


def find_open_work(git_folder: Path) -> str:
    """Return the work that is under way in a repository, `rebase` or `merge`; "" for none."""
    return next((work for name, work in _OPEN_WORK.items() if os.path.lexists(git_folder / name)), "")


def _find_move(git_folder: Path) -> tuple[int, str]:
    """Return when HEAD was last moved, in seconds since 1970, and how: `checkout: moving from a to b`; 0 and "" if git
    has not noted it, or if a commit moved it since. Passes over what left HEAD where it was, `reset: moving to HEAD`
    after that checkout, or in a new worktree, and over an amended commit, which may look as it did before."""
    with suppress(OSError, ValueError), open_real(git_folder / "logs/HEAD") as log:
        start = max(0, log.seek(0, os.SEEK_END) - _MAX_OF_MOVE)
        log.seek(start)
        for line in reversed(log.read().splitlines()[start > 0 :]):  # the first one is cut
            head, _, words = line.partition(b"\t")
            how = one_line(words.decode("utf-8", "replace"))
            before, after, *_, seconds, _ = head.split()
            if how.startswith("commit (amend)"):
                continue
            if not how or how.startswith("commit"):
                break
            if before != after or how.startswith("checkout") or "(finish)" in how:  # of a rebase: its last line
                return int(seconds), how
    return 0, ""


def _find_rebased(git_folder: Path) -> str:
    """Return the branch that is being rebased, "" if none is."""
    for name in _OPEN_WORK:
        with suppress(OSError):
            head_name = read_regular(git_folder / name / "head-name", MAX_OF_LINK)
            return os.fsdecode(head_name).strip().removeprefix("refs/heads/")
    return ""


def list_commits(folder: Path, reach: str, form: str, most: int, *, seconds: float = SECONDS) -> list[str]:
    """Return the newest commits of a range, newest first, each in a format of git; [] if git fails."""
    printed = _run_git(folder, seconds, "log", "--no-show-signature", f"-{most}", f"--format={form}", reach)
    return list(map(one_line, printed.decode("utf-8", "replace").splitlines()))


def _run_git(folder: Path, seconds: float, *arguments: str) -> bytes:
    """Return the output of git in a folder, without filters; b"" without git, or if it fails."""
    if (plain_git := find_git(folder)) is None:
        return b""
    git = replace(plain_git, seconds=seconds)
    with suppress(GitError, OSError):
        return git.run(*(git.without_filters() if "status" in arguments else ()), *arguments)
    return b""
