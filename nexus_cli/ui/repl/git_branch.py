"""The git branch of a folder, read from its files: nothing is run, so that looking is cheap."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nexus_cli.config.paths import repository_root

_LEAST = 7
"""Letters of a commit that stand for it."""
_MOST = 4096
"""Bytes of a file that are read; git's own have fewer."""


def read_branch(folder: Path) -> str:
    """Return the branch that is checked out, the beginning of the commit when it is none, "" where neither can be
    read."""
    try:
        root = repository_root(folder)
        if root is None:
            return ""
        place = root / ".git"
        if place.is_file():
            place = root / _first_line(place).partition("gitdir:")[2].strip()
        head = _first_line(place / "HEAD")
    except (OSError, ValueError):
        return ""
    _, name, short = head.partition("refs/heads/")
    return short if name else head[:_LEAST]


def _first_line(path: Path) -> str:
    """Return the first line of a regular file; "" of anything else, which may never end or never begin."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        data = os.read(descriptor, _MOST) if regular else b""
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "replace").strip().partition("\n")[0].rstrip()
