"""Find the paths that deny rules keep from being written: those that exist, and those that a pattern names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from nexus_cli.config.paths import folders_above
from nexus_cli.config.protected_places import BUILD_FOLDERS, GIT_FOLDER, fold_name, fold_path
from nexus_cli.tree.real_tree import RealTree

Place = tuple[int, int, int]
"""Device, inode and ctime: they stay as they are if a folder above is moved, and no other file ever has them."""
MAX_NAMES = 20_000
"""Names that are compared with patterns."""
MAX_HELD = 40
"""Paths that are mounted read-only at most."""


def find_matches(tree: RealTree, project: str, patterns: Sequence[str]) -> tuple[list[str], bool]:
    """Return the paths in `project` whose folded form a pattern names, without what is below them, and True if all
    names were compared. Skips git's folder, and what is in folders that tools install or build into."""
    if not patterns:
        return [], True
    expressions, matches, remaining = [re.compile(pattern) for pattern in patterns], list[str](), MAX_NAMES
    waiting = [project]
    for folder in waiting:  # it grows
        for name, is_folder in tree.scan(folder):
            remaining -= 1
            if remaining < 0:
                return matches, False
            path, folded = f"{folder}/{name}", fold_name(name)
            if folded != GIT_FOLDER and any(expression.match(fold_path(path)) for expression in expressions):
                matches.append(path)
            elif is_folder and folded != GIT_FOLDER and folded not in BUILD_FOLDERS:
                waiting.append(path)
    return matches, True


def place_of(status: os.stat_result) -> Place:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def list_with_parents(project: str, paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each path after its parent folders, which are marked True, as `guarded_places.protected_roots` takes
    them."""
    for path in paths:
        yield from ((folder, True) for folder in folders_above(path) if folder.startswith(f"{project}/"))
        yield path, False
