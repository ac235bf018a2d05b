"""Check the owner of a repository by git's rule (`safe.directory`): a `.git` of another user is not trusted.

Reads file owners and git's configuration; does not run git.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def is_own_repository(root: Path) -> bool:
    """Return True if `root` and `.git` are the person's, root's or a `safe.directory`; False in temporary folders."""
    git = root / ".git"
    try:
        owners = {os.stat(root).st_uid, os.lstat(git).st_uid, os.stat(git).st_uid}
        if is_shared_folder(root) or os.path.realpath(root) == os.path.realpath(os.environ.get("TMPDIR") or os.sep):
            return False
    except OSError:
        return False
    return owners <= own_ids() or _is_safe(os.path.realpath(root))


def is_shared_folder(folder: Path) -> bool:
    """Return True for a world-writable folder with the sticky bit, and for /tmp and the like. Raises `OSError`."""
    mode = os.stat(folder).st_mode
    if mode & stat.S_IWOTH and mode & stat.S_ISVTX:
        return True
    return os.path.realpath(folder) in map(os.path.realpath, _TEMPORARY)


def belongs_to_other_user(file: Path) -> bool:
    """Return True if `file` is in a shared folder and belongs to another user."""
    try:
        return is_shared_folder(file.parent) and os.lstat(file).st_uid not in own_ids()
    except OSError:
        return False


def own_ids() -> set[int]:
    """Return the user ids that count as the person: their own, root's, and under sudo that of the caller."""
    ids = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdigit():
        ids.add(int(caller))
    return ids


def _is_safe(root: str) -> bool:
    """Return True if `safe.directory` in the person's or the system's git configuration covers this repository."""
    is_safe = False
    for value in _safe_directories():
        if not value:
            is_safe = False  # an empty value resets the list
            continue
        below = os.path.realpath(value[:-1]).rstrip("/") + "/" if value.endswith("/*") else ""
        if value == "*" or os.path.realpath(value) == root or (below and root.startswith(below)):
            is_safe = True
    return is_safe


def _safe_directories() -> Iterator[str]:
    """Return the values of `safe.directory` in git's order; included files are not read."""
    from nexus_cli.config.git_configuration import read_personal_settings  # noqa: PLC0415  (few starts)

    system = [] if os.environ.get("GIT_CONFIG_NOSYSTEM") else [os.environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")]
    settings = read_personal_settings(os.environ, *map(Path, system))
    return (os.path.expanduser(value) for name, value in settings if name == "safe.directory")
