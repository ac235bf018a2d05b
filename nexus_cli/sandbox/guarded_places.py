"""Find the guarded places of a project: protected names at its top and in folders below it.

Folders are searched breadth first, at most `MAX_FOLDERS` and `MOST_DEPTH` levels deep; links and folders that tools
install or build are skipped. A folder is listed again only after its status has changed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nexus_cli.config.protected_places import (
    BUILD_FOLDERS,
    GIT_CONTROLS,
    GIT_FOLDER,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    fold_name,
)
from nexus_cli.config.worktree_record import named_folder
from nexus_cli.core.real_files import join_path
from nexus_cli.core.version_memo import file_version
from nexus_cli.sandbox.git_files import named_files
from nexus_cli.sandbox.write_denied_paths import list_with_parents
from nexus_cli.tree.real_tree import RealTree

MAX_FOLDERS, MOST_DEPTH = 1_000, 4
"""Most folders of a project that are searched, and levels below its top."""
RACY = 2_000_000_000
"""Nanoseconds. A file changed less than this before it was read may change again within the same timestamp."""

MAX_CONFIGURATION = 1 << 20
_BARE = ("HEAD", "objects", "refs")
"""Entries by which git takes a folder for a bare repository."""
_MAX_LINKS = 8
"""Most links followed to a path that a configuration names."""
_DATA = ("objects", "refs", "logs", "lfs")
_CONTROL = re.compile(
    "|".join(GIT_CONTROLS).replace(".", r"\.").replace("**/", "(.+/)?").replace("/*", "/[^/]+"), re.DOTALL
)
_CONTROL_FOLDER = re.compile("info|modules(/.+)?|worktrees(/[^/]+)?", re.DOTALL)
"""The folders below a git folder in which one of `GIT_CONTROLS` may be."""
_DEEPEST = 16
"""Levels below a git folder that are searched for them."""


@dataclass(frozen=True, slots=True)
class GuardedFolder:
    """A listing of a folder whose protected names are guarded."""

    stamp: tuple[int, ...] = field(compare=False)
    """Its `file_version`: a command cannot set the ctime."""
    mode: int
    names: tuple[str, ...]
    """Existing protected names in it, sorted."""
    folders: tuple[str, ...]
    """Names of its folders that are searched too."""
    is_bare: bool
    """True for a bare repository."""
    is_settled: bool = field(compare=False)
    """True if any later change will alter `stamp` (see `RACY`)."""

    @property
    def has_git(self) -> bool:
        """Return True if it has an entry `.git`, in any case."""
        return bool(self.names) and any(fold_name(name) == GIT_FOLDER for name in self.names)


def find_folders(
    tree: RealTree, project: str, chain: Iterable[str], known_folders: Mapping[str, GuardedFolder]
) -> tuple[dict[str, GuardedFolder], bool]:
    """Return the guarded folders of `project`, always with those of `chain` and `known_folders`, and True if there are
    more."""
    folders, has_more = look_again(tree, known_folders), False
    waiting = [(project, 0)]
    for path, depth in waiting:  # it grows
        if path not in folders:
            if has_more := len(folders) >= MAX_FOLDERS:
                break
            if (looked := look_at(tree, path)) is not None:
                folders[path] = looked
        if depth < MOST_DEPTH and path in folders:
            waiting += [(f"{path}/{name}", depth + 1) for name in folders[path].folders]
    folders |= look_again(tree, {path: None for path in chain if path not in folders})
    return folders, has_more


def look_again(tree: RealTree, before: Mapping[str, GuardedFolder | None]) -> dict[str, GuardedFolder]:
    """Return current listings of the folders in `before` that exist; new folders are not searched for."""
    looked = ((path, look_at(tree, path, listing)) for path, listing in before.items())
    return {path: folder for path, folder in looked if folder is not None}


def look_at(tree: RealTree, path: str, known_listing: GuardedFolder | None = None) -> GuardedFolder | None:
    """Return the listing of the folder at `path`, or `known_listing` if it has not changed; None if it is no folder."""
    status = tree.stat(path)
    if status is None:
        return None
    stamp = file_version(status)
    if known_listing is not None and known_listing.stamp == stamp and known_listing.is_settled:
        return known_listing
    if not stat.S_ISDIR(status.st_mode):
        return None
    is_settled = time.time_ns() - status.st_ctime_ns >= RACY
    entries = tree.scan(path)
    names, folders = [], []
    for name, is_folder in entries:
        folded = name.lower() if name.isascii() else fold_name(name)
        if folded in PROTECTED_FOLDERS or folded in PROTECTED_FILES:
            names.append(name)
        elif is_folder and folded not in BUILD_FOLDERS:
            folders.append(name)
    is_bare = set(_BARE) <= {name for name, _ in entries if name in _BARE}
    below = () if is_bare else tuple(folders)
    return GuardedFolder(stamp, status.st_mode, tuple(names), below, is_bare, is_settled)


def find_git(tree: RealTree, folder: str) -> str:
    """Return the git folder of the repository at `folder`, "" if there is none in the project. Follows no link."""
    git = f"{folder}/{GIT_FOLDER}"
    git = git if tree.is_folder(git) else read_git_file(tree, git)
    return git if tree.is_folder(git) else ""


def read_git_file(tree: RealTree, path: str) -> str:
    """Return the folder that a `.git` file names, "" if it names none."""
    target = named_folder(tree.read(path, MAX_CONFIGURATION) or b"")
    return join_path(path, "..", target) if target else ""


def find_common(tree: RealTree, git: str) -> str:
    """Return the folder with the configuration of a git folder: itself, or for a worktree that of its repository."""
    shared = os.fsdecode(tree.read(f"{git}/commondir", MAX_CONFIGURATION) or b"").strip()
    return join_path(git, shared) if shared else git


def named_by_git(tree: RealTree, folder: str, git: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths below `folder` that a repository's configuration names as its hooks or as included configuration.

    The paths need not exist. As in `protected_roots`, the folders on the way come first, with True. A worktree has the
    configuration of its repository, and may have its own.
    """
    places = dict.fromkeys((git, find_common(tree, git)))
    texts = (
        tree.read(f"{place}/{name}", MAX_CONFIGURATION) for place in places for name in ("config", "config.worktree")
    )
    for name in (os.path.expanduser(name) for text in texts for name in named_files(text or b"")):
        # An included path is relative to the configuration, a hooks path to the work tree.
        for base in (folder, git):
            path = join_path(base, name)
            for _ in range(_MAX_LINKS):
                if not path.startswith(f"{folder}/") or path.startswith(f"{git}/"):
                    break
                passages = [*list_with_parents(folder, [path])]
                yield from passages
                links = ((part, target) for part, _ in passages if (target := tree.read_link(part)) is not None)
                link, target = next(links, ("", b""))
                if not link:
                    break
                path = join_path(link, "..", os.fsdecode(target), f".{path.removeprefix(link)}")


def protected_roots(
    tree: RealTree,
    folders: Mapping[str, GuardedFolder],
    chain: Collection[str],
    bare: Collection[str],
    gits: Iterable[str],
    candidates: Iterable[tuple[str, bool]],
) -> Iterator[tuple[str, bool]]:
    """Yield the existing protected paths, which include everything below them; links are not followed.

    The second value is True for a folder that is only on the way to protected paths; it precedes them. The folders of
    `chain` always are such. `bare` has the folders that were bare repositories before: in a new one only `HEAD` counts,
    because the other names are common. `gits` are the git folders, `candidates` the paths that their configurations
    name.
    """
    for path, listing in folders.items():
        if not (listing.names or listing.is_bare or path in chain):
            continue
        yield path, True
        for name in listing.names:
            inner = f"{path}/{name}"
            yield inner, fold_name(name) == GIT_FOLDER and _is_git_folder(tree, inner)
        if listing.is_bare:
            yield f"{path}/{_BARE[0]}", False
            if path in bare:
                yield from _controls(tree, path, path)
    for git in gits:
        yield git, tree.is_folder(git)
        yield from _controls(tree, git, git)
    for path, passage in candidates:
        yield path, passage and tree.is_folder(path)


def _is_git_folder(tree: RealTree, path: str) -> bool:
    """Return True if `path` is the folder that the file system finds as `.git`, whatever case it is written in."""
    status, git = tree.stat(path), tree.stat(f"{path.rpartition('/')[0]}/{GIT_FOLDER}")
    return status is not None and git is not None and stat.S_ISDIR(git.st_mode) and os.path.samestat(status, git)


def _controls(tree: RealTree, git: str, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths in `folder`, which is the git folder `git` or below it, that `GIT_CONTROLS` names, after the
    folders on the way."""
    entries = tree.scan(folder)
    is_git = any(name == "HEAD" for name, _ in entries)
    for name, is_folder in entries:
        path = f"{folder}/{name}"
        inner = path.removeprefix(f"{git}/").lower()
        # The data folders of a submodule's repository contain no other repository.
        is_data = is_git and name in _DATA and inner.startswith("modules/")
        if _CONTROL.fullmatch(inner):
            yield path, False
        elif _CONTROL_FOLDER.fullmatch(inner) and not is_data and (is_folder or tree.read_link(path) is not None):
            yield path, is_folder
            if inner.count("/") < _DEEPEST:
                yield from _controls(tree, git, path)
