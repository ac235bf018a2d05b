"""What a test puts into a project: files by their names, and a first commit of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from worktrees.repository import git


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` below `folder`, with the folders that they need, and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def commit_all(folder: Path, subject: str = "first") -> str:
    """Commit all that `folder` holds, in a new repository if it has none, and return the hash."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", subject)
    return git(folder, "rev-parse", "HEAD").strip()
