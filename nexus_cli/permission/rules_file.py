"""Look at a settings file without parsing it: whether it changed, and whether it may have rules."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.trust_files import MOST_BYTES
from nexus_cli.core.real_files import read_beginning


def read_stamp(path: Path) -> tuple[int, ...]:
    """Return inode, size and modification time of a file, to notice a change; () if there is none."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns


def names_rules(path: Path) -> bool:
    """Return True if a settings file, of ours or of Claude, may have rules: it contains the word."""
    try:
        data = read_beginning(path, MOST_BYTES)
        return b"rules" in data or b"permissions" in data
    except OSError:
        return False
