"""Name a repository by its remote and its first commit, so that all clones of it have one name.

The name is public knowledge and gives no access to anything.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from nexus_cli.core.real_files import join_path
from nexus_cli.sandbox.own_git import Git, GitError, find_git

_SECONDS = 20.0
"""Time limit of one run of git."""
_DIGITS = 12
"""Hexadecimal digits of the first commit that are kept."""
_HEADS = ("refs/remotes/origin/HEAD", "HEAD")
"""Refs in which the first commit is looked for: the default branch, since another one may begin elsewhere."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?P<host>[^/:]*)(?::\d+)?/(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_UNFIT = re.compile(r"[@?]|://|(?<!^file):/")
"""Signs of a name that still has a user, a password or a token of its URL."""
_SCP = re.compile(r"(?:[^/@]*@)?(?P<host>[^/:]+):(?!//)(?P<path>.*)", re.DOTALL)


def repository_key(root: Path) -> str | None:
    """Return `HOST/PATH#COMMIT` for the repository at `root`, "" if it has no remote `origin`, or one whose name may
    hold a secret.

    None if git cannot tell: it is missing, refuses the folder, the clone is shallow, or there is no commit yet.
    """
    git = find_git(root)
    if git is None:
        return None
    git = replace(git, seconds=_SECONDS)
    try:
        status, remote = _run_git(git, "config", "--local", "--get", "remote.origin.url")
        if status == 1:
            return ""
        if status or _run_git(git, "rev-parse", "--is-shallow-repository") != (0, "false"):
            return None
        name = normalize_remote(remote, root)
        if not name.isprintable() or _UNFIT.search(name):
            return ""
        for head in _HEADS:
            status, commits = _run_git(git, "rev-list", "--first-parent", "--max-parents=0", head, "--")
            if status == 0 and commits:
                return f"{name}#{commits[:_DIGITS]}"
    except (GitError, ValueError):
        return None
    return None


def normalize_remote(url: str, root: Path) -> str:
    """Return a remote URL as `host/path`: without scheme, user, password, port and `.git`, in lower case. A folder is
    `file:` and its path, which begins at `root` if it is relative."""
    match = _URL.fullmatch(url) or _SCP.fullmatch(url)
    if match is None or not match["host"]:
        path = f"/{match['path']}" if match else url
        return "file:" + join_path(root, path).removesuffix(".git")
    path = match["path"].strip("/").removesuffix(".git").strip("/")
    return f"{match['host']}/{path}".casefold()


def configuration_stamp(root: Path) -> str:
    """Return a text that changes with the repository's configuration, "" if `root` is not the root of one."""
    for name in (".git/config", ".git"):
        try:
            return str(os.stat(root / name).st_mtime_ns)
        except OSError:
            continue
    return ""


def _run_git(git: Git, *arguments: str) -> tuple[int, str]:
    """Return the exit status and the stripped output of git. Raises `GitError`."""
    status, output, _ = git.try_run(*arguments)
    return status, os.fsdecode(output).strip()
