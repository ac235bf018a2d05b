"""Keep what is protected inside a writable project: git's hooks and configuration, instructions, start-up files.

Where mounts can hold it (bwrap) what exists is read-only; Landlock cannot take back below a folder what it gave there.
So a snapshot is taken before each command, and compared afterwards (`put_back`). Both work by handle below the project
(`core/real_tree`), and what is looked at was decided before the command.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from nexus_cli.core.real_tree import RealTree
from nexus_cli.sandbox.git_files import linked_repositories
from nexus_cli.sandbox.guarded_places import (
    RACY,
    GuardedFolder,
    find_folders,
    find_git,
    look_at,
    named_by_git,
    protected_roots,
)
from nexus_cli.sandbox.profile import Profile

MOST_FILES, MOST_BYTES = 2_000, 8 << 20
"""What is remembered of one protected folder, near its top first; no folder takes this from another. Beyond it a file
cannot be put back."""
MOST_MOUNTS = 60
"""Each costs the more the more there are: a repository with 500 submodules would take seconds. The rest is put back."""
MOST_INDEX = 64 << 20


@dataclass(frozen=True, slots=True)
class SavedNode:
    """One file, link or folder as it was."""

    mode: int
    stamp: tuple[int, ...]
    """Device, inode, size and times; `ctime` cannot be set back by a command. () for a folder."""
    content: bytes | None
    """The bytes of a file, the target of a link; None for a folder, and for what was too large."""
    owner: tuple[int, int]
    racy: bool = field(default=False, compare=False)
    passage: bool = False
    """A folder on the way to others: its own entries may change."""

    @property
    def kind(self) -> int:
        """Return the type of file."""
        return stat.S_IFMT(self.mode)


@dataclass(slots=True)
class ProtectedSnapshot:
    """The protected nodes of a project at one moment. It is equal to another by which the same would be put back."""

    project: str
    roots: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The project, and of a worktree the git folder of its repository, with device and inode."""
    chain: tuple[str, ...] = ()
    folders: dict[str, GuardedFolder] = field(default_factory=dict)
    nodes: dict[str, SavedNode] = field(default_factory=dict)
    """By path, sorted: a folder before what is in it."""
    partial: dict[str, bool] = field(default_factory=dict)
    """Protected folders with more in them than is remembered."""
    gits: dict[str, str] = field(default_factory=dict)
    """The git folders, by the folder whose repository it is; that of a worktree's repository by itself."""
    named: tuple[tuple[str, bool], ...] = ()
    """What configurations of git name, as `protected_roots` takes it."""
    links: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """By git folder, the repositories that its index links to; None if it cannot be read."""
    indexes: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False)
    """By git folder, the stamps of that index and of those that it may be split from."""
    has_more: bool = False
    """True if only a part of the project's folders is guarded."""

    def mount_points(self) -> list[Path]:
        """Return the paths that are to be read-only: existing, no links; of very many those near the project's top."""
        found = []
        for path, node in self.nodes.items():
            above = self.nodes.get(path.rpartition("/")[0])
            if not node.passage and node.kind != stat.S_IFLNK and (above is None or above.passage):
                found.append(Path(path))
        return sorted(filter(os.path.lexists, found), key=lambda path: len(path.parts))[:MOST_MOUNTS]

    def look(
        self, tree: RealTree, folders: Mapping[str, GuardedFolder], gits: Iterable[str], known: Mapping[str, SavedNode]
    ) -> tuple[dict[str, SavedNode], dict[str, bool]]:
        """Return what is in the protected places of `folders` and `gits` now, and which hold too much."""
        bare = {path for path, folder in self.folders.items() if folder.is_bare}
        nodes: dict[str, SavedNode] = {}
        partial: dict[str, bool] = {}
        for root, passage in protected_roots(tree, folders, self.chain, bare, gits, self.named):
            found = [root] if passage else list(islice(tree.walk(root), MOST_FILES + 1))
            if len(found) > MOST_FILES:
                partial[root] = True
            left = MOST_BYTES
            for path in found[:MOST_FILES]:
                if path not in nodes and (node := _save(tree, path, passage, known.get(path), left)) is not None:
                    nodes[path] = node
                    left -= len(node.content or b"")
        return dict(sorted(nodes.items())), partial

    def dumps(self) -> bytes:
        """Return it as two lines of JSON: the roots, and everything."""
        return json.dumps(list(self.roots)).encode() + b"\n" + json.dumps(self, default=_to_json).encode()

    @classmethod
    def loads(cls, data: bytes) -> ProtectedSnapshot:
        """Return what `dumps` wrote. Raises `ValueError`."""
        try:
            project, roots, chain, folders, nodes, *rest = _fixed(json.loads(data.partition(b"\n")[2]))
            folders = {path: GuardedFolder(*one) for path, one in folders.items()}
            nodes = {
                path: SavedNode(mode, mark, text if text is None else text.encode("latin-1"), *more)
                for path, (mode, mark, text, *more) in nodes.items()
            }
            return cls(project, roots, chain, folders, nodes, *rest)
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from error


def _to_json(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else [getattr(value, name) for name in value.__slots__]


def _fixed(value: Any) -> Any:
    """Return what was read from JSON with tuples in place of lists."""
    if isinstance(value, dict):
        return {name: _fixed(one) for name, one in value.items()}
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def take_snapshot(
    profile: Profile, known: ProtectedSnapshot | None = None, running: Sequence[ProtectedSnapshot] = ()
) -> ProtectedSnapshot:
    """Look at the protected nodes now. Contents that `known` has and that did not change since are not read again.

    `running` are the snapshots of commands that run now and may write here too: what these looked at counts as it was
    then, whatever it is now.
    """
    made = ProtectedSnapshot(str(profile.project), chain=tuple(map(str, profile.guarded)))
    common = [str(profile.git_folder.parent.parent)] if profile.git_folder is not None else []
    tree = RealTree([made.project, *common])
    try:
        for root in (made.project, *common):
            if (about := tree.stat(root)) is not None:
                made.roots[root] = about.st_dev, about.st_ino
        found, made.has_more = find_folders(tree, made.project, made.chain, known.folders if known else {})
        for other in running:
            _inherit(made, other)
        folders = {path: folder for path, folder in found.items() if path not in made.folders}
        gits = {git: git for git in common if git not in made.gits.values()}
        gits |= _find_repositories(tree, folders, made, known)
        made.folders |= folders
        nodes, partial = made.look(tree, folders, gits.values(), known.nodes if known else {})
    finally:
        tree.close()
    made.gits |= gits
    made.partial |= partial
    made.nodes = dict(sorted((nodes | made.nodes).items()))
    return made


def _inherit(made: ProtectedSnapshot, other: ProtectedSnapshot) -> None:
    """Take what `other` knows below the roots of `made`."""
    for name in ("folders", "nodes", "partial", "links", "indexes"):
        getattr(made, name).update((path, one) for path, one in getattr(other, name).items() if _is_below(path, made))
    made.gits |= {path: git for path, git in other.gits.items() if _is_below(git, made)}
    made.named += tuple(one for one in other.named if _is_below(one[0], made))


def _is_below(path: str, snapshot: ProtectedSnapshot) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in snapshot.roots)


def _find_repositories(
    tree: RealTree, folders: dict[str, GuardedFolder], made: ProtectedSnapshot, known: ProtectedSnapshot | None
) -> dict[str, str]:
    """Return the git folders of `folders`, and add to these what an index links to, however deep it lies."""
    gits: dict[str, str] = {}
    waiting = list(folders)
    for folder in waiting:
        git = find_git(tree, folder) if folders[folder].has_git else ""
        if not git or git in made.gits.values():
            continue
        gits[folder] = git
        made.named += tuple(named_by_git(tree, folder, git))
        made.indexes[git], made.links[git] = read_links(tree, git, known)
        for path in (f"{folder}/{name}" for name in made.links[git] or ()):
            if path not in folders and path not in made.folders and (looked := look_at(tree, path)) is not None:
                folders[path] = looked
                waiting.append(path)
    return gits


def read_links(
    tree: RealTree, git: str, known: ProtectedSnapshot | None
) -> tuple[tuple[int, ...], tuple[str, ...] | None]:
    """Return the stamp of a repository's index and of those that it may be split from, and the links of all."""
    names = ["index", *sorted(name for name, _ in tree.scan(git) if name.startswith("sharedindex."))]
    found = {name: about for name in names if (about := tree.stat(f"{git}/{name}")) is not None}
    mark = tuple(one for about in found.values() for one in _stamp(about))
    if known is not None and git in known.links and known.indexes.get(git) == mark:
        return mark, known.links[git]
    try:
        read = [linked_repositories(tree.read(f"{git}/{name}", MOST_INDEX) or b"") for name in found]
    except ValueError:
        return mark, None
    return mark, tuple(sorted(set().union(*read)))


def _save(tree: RealTree, path: str, passage: bool, known: SavedNode | None, most: int) -> SavedNode | None:
    """Return what is at `path`, with its content up to `most` bytes; None if nothing is."""
    about = tree.stat(path)
    if about is None:
        return None
    racy, content = time.time_ns() - about.st_ctime_ns < RACY, None
    mark = () if stat.S_ISDIR(about.st_mode) else _stamp(about)
    if known is not None and mark and known.stamp == mark and not known.racy:
        return known
    if stat.S_ISLNK(about.st_mode):
        content = tree.read_link(path)
    elif mark:
        content = tree.read(path, most)
    return SavedNode(about.st_mode, mark, content, (about.st_uid, about.st_gid), racy, passage)


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    """Return what differs after any change of a file."""
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
