"""Whose a repository is: git's own rule (`safe.directory`), so that a `.git` of another user counts for nobody else.

Reads owners and the person's configuration of git; runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from nexus_cli.core.real_files import read_beginning

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
_MOST = 1 << 20
"""Bytes of a configuration that are read."""
_SECTION = re.compile(r"\[\s*([\w.-]+)\s*\]")
_VALUE = re.compile(r"directory\s*=(.*)", re.IGNORECASE)


def is_own_repository(root: Path) -> bool:
    """True if `root` and its `.git` belong to the person or to root, or `safe.directory` names it.

    Never a folder for temporary files.
    """
    git = root / ".git"
    try:
        owners = {os.stat(root).st_uid, os.lstat(git).st_uid, os.stat(git).st_uid}
        if is_shared_folder(root) or os.path.realpath(root) == os.path.realpath(os.environ.get("TMPDIR") or os.sep):
            return False
    except OSError:
        return False
    return owners <= own_ids() or _is_safe(os.path.realpath(root))


def is_shared_folder(folder: Path) -> bool:
    """True if everybody may make files in `folder`, as in `/tmp`, and only their owners may remove them. Raises
    `OSError`."""
    mode = os.stat(folder).st_mode
    if mode & stat.S_IWOTH and mode & stat.S_ISVTX:
        return True
    return os.path.realpath(folder) in map(os.path.realpath, _TEMPORARY)


def is_of_somebody_else(file: Path) -> bool:
    """True if `file` lies in a folder that everybody shares, and another user made it."""
    try:
        return is_shared_folder(file.parent) and os.lstat(file).st_uid not in own_ids()
    except OSError:
        return False


def own_ids() -> set[int]:
    """Return the users whose files are as good as the person's: their own, root, and whoever became root by sudo."""
    found = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdigit():
        found.add(int(caller))
    return found


def _is_safe(root: str) -> bool:
    """True if the person's or the system's configuration of git says that this repository is safe."""
    is_safe = False
    for value in _safe_directories():
        if not value:
            is_safe = False  # git's way to begin anew
            continue
        below = os.path.realpath(value[:-1]).rstrip("/") + "/" if value.endswith("/*") else ""
        if value == "*" or os.path.realpath(value) == root or (below and root.startswith(below)):
            is_safe = True
    return is_safe


def _safe_directories() -> Iterator[str]:
    """Yield the values of `safe.directory` in git's order, without those of included files."""
    home = os.path.expanduser("~")
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    personal = [os.path.join(own, "git", "config"), os.path.join(home, ".gitconfig")]
    if "GIT_CONFIG_GLOBAL" in os.environ:
        personal = [os.environ["GIT_CONFIG_GLOBAL"]]
    system = [] if os.environ.get("GIT_CONFIG_NOSYSTEM") else [os.environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")]
    for path in (*system, *personal):
        section = ""
        for line in _read_lines(path):
            if found := _SECTION.match(line):
                section, line = found[1].lower(), line[found.end() :].strip()
            if section == "safe" and (value := _VALUE.match(line)):
                yield os.path.expanduser(value[1].strip().strip('"'))


def _read_lines(path: str) -> list[str]:
    try:
        data = read_beginning(path, _MOST)
    except OSError:
        return []
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
