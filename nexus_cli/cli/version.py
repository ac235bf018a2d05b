"""The line of `nexus --version`, which names the commit of a checkout. Imports only modules that Python has loaded."""

from __future__ import annotations

import os

import nexus_cli

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(nexus_cli.__file__)))
COMMIT_LENGTH = 12
"""Digits of a commit."""


def version_line() -> str:
    """Return `nexus 0.2.0`, in a checkout `nexus 0.2.0 (commit 0123456789ab)`."""
    commit = read_commit(CHECKOUT)
    return f"nexus {nexus_cli.__version__}" + (f" (commit {commit[:COMMIT_LENGTH]})" if commit else "") + "\n"


def read_commit(folder: str) -> str:
    """Return the commit that is checked out in `folder`, read from git's files; "" if it is no checkout."""
    git = f"{folder}/.git"
    if os.path.isfile(git):  # a worktree
        git = os.path.join(folder, _read(git).removeprefix("gitdir: "))
    head = _read(f"{git}/HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = os.path.join(git, _read(f"{git}/commondir"))
    packed = (line.split() for line in _read(f"{shared}/packed-refs").splitlines())
    return _read(f"{shared}/{name}") or next((words[0] for words in packed if words[1:] == [name]), "")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # of a pipe in place of the file nothing is read


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", opener=_open_at_once) as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
