"""Find the places of a project that are guarded: protected names at its top, and in folders below it.

The folders below are found breadth first, down to `MOST_DEPTH` levels and `MOST_FOLDERS` of them; not those that tools
install or build, and through no link. Each is listed once: later only its status is read, until that has changed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.protected_places import (
    GIT_CONTROLS,
    GIT_FOLDER,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    fold_name,
)
from nexus_cli.core.real_files import read_beginning

MOST_FOLDERS, MOST_DEPTH = 1_000, 4
"""Folders of a project that are looked at, and levels below its top."""
MADE_BY_TOOLS = frozenset({
    "node_modules", "bower_components", "jspm_packages", "site-packages", "venv", ".venv", ".tox", ".nox",
    "__pycache__", "__pypackages__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".eggs", "target",
    "vendor", "dist", "build", ".cache", ".gradle", ".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache",
    ".terraform", ".bundle", ".build", ".dart_tool", "pods", "deriveddata", "_build", ".direnv", "htmlcov",
})  # fmt: skip
"""Folded names of folders that hold what tools install or build: nothing in them is looked at."""
RACY = 2_000_000_000
"""Nanoseconds: what changed so shortly before it was looked at may change again without another time stamp."""

MOST_CONFIGURATION = 1 << 20
_NAMED_BY_GIT = re.compile(r"^[^\S\n]*(?:\[[^\]\n]*\])?[^\S\n]*(?:hookspath|path)[^\S\n]*=([^\n#;]+)", re.I | re.M)
"""Settings by which git runs or obeys files elsewhere: `core.hooksPath`, `include.path`."""

_BARE = ("HEAD", "objects", "refs")
"""Entries that make a folder a repository for git, with a configuration of its own."""
_DATA = ("objects", "refs", "logs", "lfs")


@dataclass(frozen=True, slots=True)
class GuardedFolder:
    """A folder whose protected names are guarded, as it was when it was listed."""

    stamp: tuple[int, ...]
    """Device, inode and times. `ctime` cannot be set back by a command."""
    mode: int
    names: tuple[str, ...]
    """Protected names in it, existing, sorted."""
    folders: tuple[str, ...]
    """Names of the folders in it that are looked at too."""
    is_bare: bool
    """True if it is a repository without a work tree."""
    is_listed: bool
    """False if it may not be listed."""
    is_settled: bool
    """True if any later change shows in `stamp`."""


_KNOWN: dict[Path, dict[str, GuardedFolder]] = {}
"""The folders of each project, by path, as they were found last."""
_MOST_PROJECTS = 8
_PARTIAL: set[Path] = set()
"""Projects that have more of them than are looked at."""


def find_folders(project: Path, chain: Collection[Path] = ()) -> dict[str, GuardedFolder]:
    """Return the guarded folders by path: those of `chain`, and those of `project`, a parent before what is in it.

    Those that were found before stay, however many new ones there are.
    """
    known = _KNOWN.get(project, {})
    found = look_again(known, {str(project), *map(str, chain)})
    waiting = deque([(str(project), 0)])
    while waiting:
        path, depth = waiting.popleft()
        if path not in found:
            if len(found) >= MOST_FOLDERS:
                waiting.append((path, depth))
                break
            if (looked := _look_at(path, None)) is not None:
                found[path] = looked
        if depth < MOST_DEPTH and path in found:
            waiting.extend((f"{path}/{name}", depth + 1) for name in found[path].folders)
    (_PARTIAL.add if waiting else _PARTIAL.discard)(project)
    for path in map(str, chain):
        if path not in found and (looked := _look_at(path, None)) is not None:
            found[path] = looked
    _KNOWN[project] = found
    if len(_KNOWN) > _MOST_PROJECTS:
        _KNOWN.pop(next(iter(_KNOWN)), None)
    return dict(found)


def has_more_folders(project: Path) -> bool:
    """Return True if only a part of the folders of `project` was looked at; looks at them the first time only."""
    if project not in _KNOWN:
        find_folders(project)
    return project in _PARTIAL


def look_again(before: Mapping[str, GuardedFolder], starts: Collection[str]) -> dict[str, GuardedFolder]:
    """Return those of the folders `before` that are still there, as they are now; new folders are not looked for.

    One is only reached from `starts` by real folders, so through no link that took the place of one.
    """
    found: dict[str, GuardedFolder] = {}
    for path, known in before.items():
        if path in starts or path.rpartition("/")[0] in found:
            folder = _look_at(path, known)
            if folder is not None:
                found[path] = folder
    return found


def _look_at(path: str, known: GuardedFolder | None) -> GuardedFolder | None:
    """Return the folder at `path`, listed anew unless it is as `known`; None if it is none."""
    try:
        about = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(about.st_mode):
        return None
    stamp = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)
    if known is not None and known.stamp == stamp and known.is_settled:
        return known
    is_settled = time.time_ns() - about.st_ctime_ns >= RACY
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return GuardedFolder(stamp, about.st_mode, (), (), False, False, False)
    names, folders = [], []
    for entry in entries:
        folded = entry.name.lower() if entry.name.isascii() else fold_name(entry.name)
        if folded in PROTECTED_FOLDERS or folded in PROTECTED_FILES:
            names.append(entry.name)
        elif folded not in MADE_BY_TOOLS and entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
    is_bare = set(_BARE) <= {entry.name for entry in entries if entry.name in _BARE}
    below = () if is_bare else tuple(folders)
    return GuardedFolder(stamp, about.st_mode, tuple(names), below, is_bare, True, is_settled)


def protected_roots(
    folders: Mapping[str, GuardedFolder], chain: Collection[Path], bare: Collection[str], git_folder: Path | None
) -> Iterator[tuple[Path, bool]]:
    """Yield the protected paths that exist in `folders`, to be taken with what is in them; links are not followed.

    The second value is True for folders that are only on the way to what is protected, each before what is in it. The
    folders of `chain` always are. `bare` are those that were repositories without a work tree before: of a new one
    only its `HEAD` counts, as the other names may be anything.
    """
    always = set(map(str, chain))
    for path, about in folders.items():
        if not (about.names or about.is_bare or path in always):
            continue
        folder = Path(path)
        yield folder, True
        for name in about.names:
            if fold_name(name) == GIT_FOLDER:
                yield from _git_paths(folder / name)
                for named in _named_by_git(folder / name / "config", folder):
                    yield named, False
            else:
                yield folder / name, False
        if about.is_bare:
            yield folder / _BARE[0], False
            if path in bare:
                yield from _controls(folder, [control.split("/") for control in GIT_CONTROLS])
    if git_folder is not None:
        yield from _git_paths(git_folder.parent.parent)


def _named_by_git(config: Path, folder: Path) -> list[Path]:
    """Return what in `folder` a git configuration names as its hooks, or as further configuration, and exists."""
    try:
        text = read_beginning(config, MOST_CONFIGURATION).decode(errors="replace")
    except OSError:
        return []
    names = [found[1].strip().strip('"') for found in _NAMED_BY_GIT.finditer(text)]
    # A path of an inclusion counts from the configuration, one of hooks from the work tree.
    named = (Path(os.path.normpath(base / name)) for name in names for base in (folder, config.parent))
    return [path for path in dict.fromkeys(named) if folder in path.parents and os.path.lexists(path)]


def _git_paths(git: Path) -> Iterator[tuple[Path, bool]]:
    yield git, is_folder(git)
    yield from _controls(git, [control.split("/") for control in GIT_CONTROLS])


def _controls(folder: Path, patterns: list[list[str]]) -> Iterator[tuple[Path, bool]]:
    """Yield what matches one of the path patterns below `folder`, with the folders on the way; `**` is any of them."""
    try:
        names = sorted(os.listdir(folder)) if is_folder(folder) else []
    except OSError:
        return
    for name in names:
        path = folder / name
        deeper: list[list[str]] = []
        ends = False
        for first, *rest in patterns:
            if first == "**":
                # The data of a submodule's repository holds no other one.
                if "HEAD" not in names or name not in _DATA:
                    deeper.append([first, *rest])
                first, *rest = rest
            if fnmatch.fnmatchcase(name.lower(), first):
                deeper += [rest] if rest else []
                ends = ends or not rest
        if ends:
            yield path, False
        elif deeper and (is_folder(path) or os.path.islink(path)):
            yield path, is_folder(path)
            yield from _controls(path, deeper)


def is_folder(path: Path) -> bool:
    """Return True if a folder, and no link to one, is at `path`."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
