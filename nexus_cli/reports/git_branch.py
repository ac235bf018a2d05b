"""Read the git branch of a folder from its files. No program is run, so that this is cheap."""

from __future__ import annotations

import os
from pathlib import Path

from nexus_cli.config.paths import repository_root
from nexus_cli.config.worktree_record import read_git_file
from nexus_cli.core.real_files import open_real

_LEAST = 7
"""Length of an abbreviated commit."""
_MOST = 4096
"""Most bytes of a file that are read; git's own are shorter."""


def read_branch(folder: Path) -> str:
    """Return the checked-out branch, for a detached head the beginning of the commit, "" if neither can be read."""
    try:
        root = repository_root(folder)
        if root is None:
            return ""
        head = _first_line((read_git_file(root) or root / ".git") / "HEAD")
    except (OSError, ValueError):
        return ""
    _, name, short = head.partition("refs/heads/")
    return short if name else head[:_LEAST]


def _first_line(path: Path) -> str:
    """Return the first line of a regular file. Raises `OSError`, also for a link."""
    with open_real(Path(os.path.realpath(path.parent), path.name)) as file:
        data = file.read(_MOST)
    return data.decode("utf-8", "replace").strip().partition("\n")[0].rstrip()
