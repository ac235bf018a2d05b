"""Look at a settings file without parsing it: whether it may have rules."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.trust_files import MOST_BYTES
from nexus_cli.core.real_files import read_beginning


def names_rules(path: Path) -> bool:
    """Return True if a settings file, of ours or of Claude, may have rules: it contains the word."""
    try:
        data = read_beginning(path, MOST_BYTES)
        return b"rules" in data or b"permissions" in data
    except OSError:
        return False
