"""Read the git branch of a folder from its files. No program is run, so that this is cheap."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.paths import repository_root
from nexus_cli.config.worktree_record import read_git_file, read_head
from nexus_cli.core.real_files import real_path

_MIN = 7
"""Length of an abbreviated commit."""


def read_branch(folder: Path) -> str:
    """Return the checked-out branch, for a detached head the beginning of the commit, "" if neither can be read."""
    try:
        root = repository_root(folder)
        if root is None:
            return ""
        head = read_head(read_git_file(root) or real_path(root / ".git"))
    except (OSError, ValueError):
        return ""
    return head.removeprefix("refs/heads/") if head.startswith("refs/") else head[:_MIN]
