"""Rules for reading folders outside the project: which are offered to a person, and what they leave closed.

A folder is allowed for what is in it, never for the credentials that lie there too: those are opened only by a rule
that names them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import GIT_FOLDER, SecretPlaces

if TYPE_CHECKING:
    from nexus_cli.rules.rule_set import PermissionRule

READ_FILE = "read_file"
WHOLE = "/**"
"""The end of a pattern that names a folder with everything in it."""
_SIGNS = frozenset("*?()\n")
"""Signs that a pattern would take for something else."""


def folder_rules(targets: Iterable[Path], project: Path) -> tuple[str, ...]:
    """Return the allow rules for the folders outside `project` in which the real paths `targets` lie, () where one of
    them is too wide: it holds the project, the home folder or credentials.

    The folder of a path is the repository that it is in, else the one that it is or lies in.
    """
    root = Path(os.path.realpath(project))
    folders = dict.fromkeys(_find_folder(path) for path in targets if not path.is_relative_to(root))
    secrets, kept = SecretPlaces(places(), project), (root, Path(os.path.realpath(Path.home())))
    for folder in folders:
        above = any(one.is_relative_to(folder) for one in kept)
        if above or len(folder.parts) < 3 or secrets.are_below(folder) or _SIGNS & set(str(folder)):
            return ()
    return tuple(f"{READ_FILE}({folder}{WHOLE})" for folder in folders)


def _find_folder(path: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    return next((one for one in (folder, *folder.parents) if os.path.lexists(one / GIT_FOLDER)), folder)


def opens_secrets(rule: PermissionRule, project: Path) -> bool:
    """Return True if an allow rule opens the credentials that it covers: one for a whole folder does so only where that
    is, or lies in, one of their places."""
    pattern = os.path.expanduser(rule.pattern.removesuffix(WHOLE))
    if "/" not in pattern or "*" in pattern or "?" in pattern:
        return bool(pattern)
    return SecretPlaces(places(), project).find(Path(os.path.realpath(project / pattern))) is not None
