"""The git branch of a folder, read from its files: nothing is run, so that looking is cheap."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.core.paths import repository

_LEAST = 7
"""Letters of a commit that stand for it."""


def branch(folder: Path) -> str:
    """The branch that is checked out, the beginning of the commit when it is none, "" outside a repository."""
    root = repository(folder)
    if root is None:
        return ""
    try:
        place = root / ".git"
        if place.is_file():
            place = root / place.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
        head = (place / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    _, name, short = head.partition("refs/heads/")
    return short if name else head[:_LEAST]
