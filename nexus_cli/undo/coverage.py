"""Name what an undo may not restore: before a command, and afterwards if it may have changed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from nexus_cli.core.elide import name_first
from nexus_cli.core.real_files import LISTED, join_path, open_folder, open_parent, stat_at
from nexus_cli.undo.plan_restore import is_inside
from nexus_cli.undo.records import Step

REBUILT = "build or install tools fill this folder again, so undo keeps no copy of its content"
PROJECT_ITSELF = "."
"""The path of the project itself, where a look at it failed."""
OUTSIDE = "undo will not cover changes outside the project and added folders"
_OUTSIDE = re.compile(r"(?:^|[\s=>'\"(])((?:~|\$HOME|\.\.|/(?!dev/|usr/|bin/|opt/|proc/|sys/|nix/))[^\s'\"]*)")
"""A word that is a path outside of the working folder, and none of programs and devices."""
_SECONDS = 2.0
"""Longest time in which folders are searched for what has changed; what is left may have changed."""


def describe_uncovered(not_covered: Mapping[str, str]) -> str:
    """Return in a few words what undo does not cover, "" for nothing but folders that a tool fills again."""
    lines = [
        f"{'all of the project' if path == PROJECT_ITSELF else ' '.join(path.split())} ({why})"
        for path, why in not_covered.items()
        if why != REBUILT
    ]
    return f"undo will not cover {name_first(lines, 3)}" if lines else ""


def names_outside(command: str, root: str, roots: Sequence[str]) -> bool:
    """Return True if a command names a path, from the folder `root` on, that is in none of `roots`, other than those of
    programs and devices."""
    paths = (join_path(root, os.path.expandvars(os.path.expanduser(path))) for path in _OUTSIDE.findall(command))
    return any(not is_inside(path, roots) for path in paths)


def find_uncovered(steps: Iterable[Step], paths: Iterable[str]) -> dict[str, str]:
    """Return the absolute paths, inside `paths` if there are any, that `steps` did not cover and that may have changed
    since, each with the reason. Blocks."""
    uncovered: dict[str, str] = {}
    searched, end = list(paths), time.monotonic() + _SECONDS
    for step in steps:
        since = 0.0
        with suppress(ValueError):
            since = datetime.fromisoformat(step.began).timestamp() + 0.001  # it has whole milliseconds
        for path, why in step.not_covered:
            place = step.root if path == PROJECT_ITSELF else f"{step.root}/{path}"
            if place in uncovered or not is_inside(place, searched):
                continue
            try:
                with open_folder(step.root) as root, open_parent(path, inside=root) as (folder, name):
                    is_changed = path == PROJECT_ITSELF or _has_changed(folder, name, since, end)
            except (OSError, RecursionError):  # it is gone, or too deep
                is_changed = True
            if is_changed:
                uncovered[place] = why
    return uncovered


def _has_changed(folder: int, name: str, since: float, end: float) -> bool:
    """Return True if what has this name, or something below it, has changed since a time, or may have: the search ends
    at `end`. New caches do not count. Raises `OSError`."""
    status = stat_at(folder, name)
    try:
        handle = os.open(name, LISTED, dir_fd=folder)
    except OSError:  # no folder, or one that may not be read
        return status.st_ctime >= since
    try:
        with os.scandir(handle) as entries:
            names = [entry.name for entry in entries]
        inner = [folder_name for folder_name in names if "cache" not in folder_name.lower()]
        caches = (stat_at(handle, folder_name) for folder_name in names if folder_name not in inner)
        if status.st_ctime >= since and not any(cache.st_ctime >= since for cache in caches):
            return True
        return time.monotonic() > end or any(_has_changed(handle, folder_name, since, end) for folder_name in inner)
    finally:
        os.close(handle)
