"""Snapshot the protected places of a writable project: git's hooks and configuration, instructions, start-up files.

bwrap mounts existing ones read-only; Landlock cannot revoke rights below a writable folder. A snapshot is therefore
taken before each command and compared afterwards (`restore_protected`). Both open files relative to the project's
descriptor (`tree/real_tree`), and the set of places is fixed before the command.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import filterfalse, islice
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import is_below
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.core.real_files import join_path
from nexus_cli.core.version_memo import file_version
from nexus_cli.sandbox.git_files import linked_repositories, object_length
from nexus_cli.sandbox.guarded_places import (
    MAX_CONFIGURATION,
    RACY,
    GuardedFolder,
    find_common,
    find_folders,
    find_git,
    look_again,
    named_by_git,
    protected_roots,
)
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.write_denied_paths import MAX_HELD, Place, find_matches, list_with_parents, place_of
from nexus_cli.tree.real_tree import RealTree

MAX_FILES, MAX_BYTES = 2_000, 8 << 20
"""Most files and bytes stored of each protected folder, those near its top first. Files beyond it cannot be
restored."""
MAX_MOUNTS = 60
"""Most mounts; their cost grows faster than their number (500 submodules would take seconds). Other places are
restored."""
MAX_INDEX = 64 << 20
CLAUDE = ".claude"
"""The folder in which hooks keep their logs beside settings that programs obey."""


@dataclass(frozen=True, slots=True)
class SavedNode:
    """The saved state of one file, link or folder."""

    mode: int
    stamp: tuple[int, ...]
    """Device, inode, mode, size, mtime and ctime, which a command cannot set; () for a folder."""
    content: bytes | None
    """The bytes of a file, the target of a link; None for a folder or a file that was too large."""
    owner: tuple[int, int]
    racy: bool = field(default=False, compare=False)
    passage: bool = False
    """True for a folder that is only on the way to protected ones: its own entries may change."""

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)

    def is_like(self, other: SavedNode) -> bool:
        """Return True for two folders, and for the same mode and content; of a file that was too large, the stamp."""
        if self.kind == other.kind == stat.S_IFDIR:
            return True
        stamp = () if self.content is not None else self.stamp
        return (self.mode, self.content, stamp) == (other.mode, other.content, stamp and other.stamp)


@dataclass(slots=True)
class ProtectedSnapshot:
    """The protected nodes of a project at one moment. Equal snapshots restore the same state."""

    project: str
    roots: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The project, and for a worktree the git folder of its repository, with device and inode."""
    chain: tuple[str, ...] = ()
    folders: dict[str, GuardedFolder] = field(default_factory=dict)
    nodes: dict[str, SavedNode] = field(default_factory=dict)
    """By path, sorted: a folder precedes its entries."""
    partial: dict[str, bool] = field(default_factory=dict)
    """Protected folders with more files than `MAX_FILES`."""
    gits: dict[str, str] = field(default_factory=dict)
    """Git folders, by work tree; the git folder of a worktree's repository has itself as key."""
    named_places: tuple[tuple[str, bool], ...] = ()
    """Paths named in git configurations, as `protected_roots` takes them."""
    links: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """The repositories that the index of each git folder links to; None if it cannot be read."""
    indexes: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False)
    """The stamps of the index and shared indexes of each git folder."""
    has_more: bool = False
    """True if the project has more folders than are guarded."""
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Device and inode of each git folder, by which a moved one is found."""
    mounted: dict[str, Place] = field(default_factory=dict)
    """What deny rules keep from being written and a mount holds: its content is not compared, since only a person can
    have changed it."""
    write_denied_paths: tuple[str, ...] = ()
    """Other such paths, existing or not, which are compared."""
    write_denied_patterns: tuple[str, ...] = ()
    """What else must not be there afterwards; () if too much is there to say what is new."""

    def mount_points(self, *, for_hook: bool = False) -> list[Path]:
        """Return the paths to mount read-only: existing and no links, at most `MAX_MOUNTS`, the shallowest first. A
        hook may write beside what is in `.claude`: all but a log is removed afterwards."""
        closed = {path for path, node in self.nodes.items() if not node.passage}
        closed -= {f"{self.project}/{CLAUDE}"} if for_hook else set()
        tops = [path for path in closed if os.path.dirname(path) not in closed]
        paths = (path for path in tops if self.nodes[path].kind != stat.S_IFLNK and os.path.lexists(path))
        nearest = sorted(paths, key=lambda path: (path.count("/"), path))[:MAX_MOUNTS]
        return list(map(Path, (*nearest, *self.mounted)))

    def find_outward_links(self) -> list[str]:
        """Return the protected paths that are links out of the project, but for those that a worktree of nexus has."""
        worktree = find_worktree(Path(self.project))
        inside = [self.project, *([str(worktree.repository)] if worktree else [])]
        links = (path for path, node in self.nodes.items() if node.kind == stat.S_IFLNK)
        leads = ((path, join_path(path, "..", os.fsdecode(self.nodes[path].content or b""))) for path in links)
        return [path for path, to in leads if not is_below(to, *inside)]

    def look(
        self,
        tree: RealTree,
        folders: Mapping[str, GuardedFolder],
        gits: Iterable[str],
        known_nodes: Mapping[str, SavedNode],
    ) -> tuple[dict[str, SavedNode], dict[str, bool]]:
        """Return the current nodes in the protected places of `folders` and `gits`, and the folders with too many."""
        bare = {path for path, folder in self.folders.items() if folder.is_bare}
        nodes: dict[str, SavedNode] = {}
        partial: dict[str, bool] = {}
        for root, passage in protected_roots(tree, folders, self.chain, bare, gits, self.named_places):
            paths = [root] if passage else list(islice(filterfalse(_is_log, tree.walk(root)), MAX_FILES + 1))
            if len(paths) > MAX_FILES:
                partial[root] = True
            remaining_bytes = MAX_BYTES
            for path in paths[:MAX_FILES]:
                if (
                    path not in nodes
                    and (node := _save(tree, path, passage, known_nodes.get(path), remaining_bytes)) is not None
                ):
                    nodes[path] = node
                    remaining_bytes -= len(node.content or b"")
        return dict(sorted(nodes.items())), partial

    def accept(self, path: str, before: str, after: str) -> bool:
        """Take over the present state of a protected file that nexus itself has replaced; return True if that was done.

        `before` and `after` are its SHA-256 in hex, "" for none. A file that was or is another one stays as it is saved
        here: a command has changed it too.
        """
        if _digest(self.nodes.get(path)) != before or not is_below(path, *self.roots):
            return False
        with closing(RealTree(self.roots)) as tree:
            now, _ = self.look(tree, look_again(tree, self.folders), self.gits.values(), self.nodes)
        if _digest(now.get(path)) != after or (path not in now and path not in self.nodes):
            return False
        self.nodes.pop(path, None)
        new = {name: node for name, node in now.items() if name not in self.nodes and is_below(path, name)}
        self.nodes = dict(sorted((self.nodes | new).items()))
        return True

    def without_write_denied(self) -> ProtectedSnapshot:
        """Return the snapshot without what deny rules keep, for a comparison so late that a person may have worked
        there since."""
        nodes = {path: node for path, node in self.nodes.items() if not is_below(path, *self.write_denied_paths)}
        places = tuple(place for place in self.named_places if place[1] or place[0] not in self.write_denied_paths)
        return replace(
            self, nodes=nodes, named_places=places, mounted={}, write_denied_paths=(), write_denied_patterns=()
        )

    def dumps(self) -> bytes:
        """Serialize as two lines of JSON: the roots, and the whole snapshot."""
        return json.dumps(list(self.roots)).encode() + b"\n" + json.dumps(self, default=_to_json).encode()

    @classmethod
    def loads(cls, data: bytes) -> ProtectedSnapshot:
        """Parse the output of `dumps`. Raises `ValueError`."""
        try:
            project, roots, chain, folders, nodes, *further_fields = _fixed(json.loads(data.partition(b"\n")[2]))
            folders = {path: GuardedFolder(*folder) for path, folder in folders.items()}
            nodes = {
                path: SavedNode(mode, mark, text if text is None else text.encode("latin-1"), *rest_fields)
                for path, (mode, mark, text, *rest_fields) in nodes.items()
            }
            return cls(project, roots, chain, folders, nodes, *further_fields)
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from error


def _is_log(path: str) -> bool:
    """Return True for a log beside Claude's settings: no program obeys it."""
    return path.endswith(".log") and os.path.basename(os.path.dirname(path)) == CLAUDE


def _to_json(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else [getattr(value, name) for name in value.__slots__]


def _fixed(value: Any) -> Any:
    """Replace the lists of a JSON value by tuples."""
    if isinstance(value, dict):
        return {name: _fixed(element) for name, element in value.items()}
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def _digest(node: SavedNode | None) -> str | None:
    """Return the SHA-256 of a file in hex, "" for no node; None for what is no file, or was too large."""
    if node is None:
        return ""
    is_file = node.kind == stat.S_IFREG and node.content is not None
    return hashlib.sha256(node.content or b"").hexdigest() if is_file else None


def guarded_roots(project: Path, git_folder: Path | None) -> list[str]:
    """Return the project, and the git folder of its repository if the project is a worktree of it."""
    return [str(project), *([str(git_folder.parent.parent)] if git_folder else [])]


def take_snapshot(
    profile: SandboxProfile, earlier: ProtectedSnapshot | None = None, running: Sequence[ProtectedSnapshot] = ()
) -> ProtectedSnapshot:
    """Snapshot the protected nodes; contents of `earlier` that have not changed are not read again.

    `running` has the snapshots of commands that run now and may write here too: their nodes are used instead of the
    current state, which those commands may have changed.
    """
    snapshot = ProtectedSnapshot(str(profile.project), chain=tuple(map(str, profile.guarded)))
    roots, earlier = guarded_roots(profile.project, profile.git_folder), earlier or ProtectedSnapshot("")
    with closing(RealTree(roots)) as tree:
        snapshot.roots = find_places(tree, roots)
        guarded, snapshot.has_more = find_folders(tree, snapshot.project, snapshot.chain, earlier.folders)
        for running_snapshot in running:
            _inherit(snapshot, running_snapshot)
        folders = {path: folder for path, folder in guarded.items() if path not in snapshot.folders}
        gits = {git: git for git in roots[1:] if git not in snapshot.gits.values()}
        gits |= _find_repositories(tree, folders, snapshot, earlier)
        snapshot.folders |= folders
        _add_write_denied(tree, profile, snapshot)
        nodes, partial = snapshot.look(tree, folders, gits.values(), earlier.nodes)
        snapshot.places |= find_places(tree, gits.values())
    snapshot.gits |= gits
    snapshot.partial |= partial
    snapshot.nodes = dict(sorted((nodes | snapshot.nodes).items()))
    return snapshot


def find_places(tree: RealTree, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return device and inode of those of `paths` that exist."""
    statuses = ((path, tree.stat(path)) for path in paths)
    return {path: (status.st_dev, status.st_ino) for path, status in statuses if status is not None}


def _add_write_denied(tree: RealTree, profile: SandboxProfile, snapshot: ProtectedSnapshot) -> None:
    """Add what deny rules keep from being written."""
    matches, is_whole = find_matches(tree, snapshot.project, tuple(profile.write_denied_patterns))
    write_denied_paths = [
        path for path in (*profile.write_denied_paths, *matches) if path.startswith(f"{snapshot.project}/")
    ]
    statuses = ((path, tree.stat(path)) for path in (write_denied_paths if profile.mounts_write_denied else ()))
    places = ((path, place_of(status)) for path, status in statuses if status and not stat.S_ISLNK(status.st_mode))
    snapshot.mounted = dict(islice(places, MAX_HELD))
    snapshot.write_denied_paths = tuple(path for path in write_denied_paths if path not in snapshot.mounted)
    snapshot.write_denied_patterns = tuple(profile.write_denied_patterns) if is_whole else ()
    snapshot.named_places += tuple(list_with_parents(snapshot.project, snapshot.write_denied_paths))


def _inherit(snapshot: ProtectedSnapshot, source: ProtectedSnapshot) -> None:
    """Copy the nodes of `source` below the roots of `snapshot`."""
    for name in ("folders", "nodes", "partial", "links", "indexes", "places"):
        other_items = getattr(source, name).items()
        getattr(snapshot, name).update(
            (path, kept_node) for path, kept_node in other_items if is_below(path, *snapshot.roots)
        )
    snapshot.gits |= {path: git for path, git in source.gits.items() if is_below(git, *snapshot.roots)}
    snapshot.named_places += tuple(place for place in source.named_places if is_below(place[0], *snapshot.roots))


def _find_repositories(
    tree: RealTree, folders: dict[str, GuardedFolder], snapshot: ProtectedSnapshot, earlier: ProtectedSnapshot
) -> dict[str, str]:
    """Return the git folders by work tree; add to `folders` the repositories that an index links to, at any depth."""
    gits: dict[str, str] = {}
    waiting = list(folders)
    for folder in waiting:
        git = find_git(tree, folder) if folders[folder].has_git else ""
        if not git or git in snapshot.gits.values():
            continue
        gits[folder] = git
        snapshot.named_places += tuple(named_by_git(tree, folder, git))
        snapshot.indexes[git], snapshot.links[git] = read_links(tree, git, earlier)
        paths = (f"{folder}/{name}" for name in snapshot.links[git] or ())
        new = (path for path in paths if path not in folders and path not in snapshot.folders)
        linked = look_again(tree, dict.fromkeys(new))
        folders |= linked
        waiting += linked
    return gits


def read_links(tree: RealTree, git: str, earlier: ProtectedSnapshot) -> tuple[tuple[int, ...], tuple[str, ...] | None]:
    """Return the stamps of a repository's index and shared indexes, and the repositories that they link to."""
    names = ["index", *sorted(name for name, _ in tree.scan(git) if name.startswith("sharedindex."))]
    indexes = {name: status for name in names if (status := tree.stat(f"{git}/{name}")) is not None}
    mark = tuple(part for status in indexes.values() for part in file_version(status))
    if git in earlier.links and earlier.indexes.get(git) == mark:
        return mark, earlier.links[git]
    place = f"{find_common(tree, git)}/config"
    known_node = earlier.nodes.get(place)  # a command may have changed it meanwhile
    configuration = known_node.content if known_node is not None else tree.read(place, MAX_CONFIGURATION)
    try:
        length = object_length(configuration or b"")
        read = [linked_repositories(tree.read(f"{git}/{name}", MAX_INDEX) or b"", length) for name in indexes]
    except ValueError:
        return mark, None
    return mark, tuple(sorted(path for path in set().union(*read) if {"", ".", ".."}.isdisjoint(path.split("/"))))


def _save(tree: RealTree, path: str, passage: bool, earlier: SavedNode | None, most: int) -> SavedNode | None:
    """Return the node at `path`, with its content if that has at most `most` bytes; None if there is none."""
    status = tree.stat(path)
    if status is None:
        return None
    racy, content = time.time_ns() - status.st_ctime_ns < RACY, None
    mark = () if stat.S_ISDIR(status.st_mode) else file_version(status)
    if earlier is not None and mark and earlier.stamp == mark and not earlier.racy:
        return earlier
    if stat.S_ISLNK(status.st_mode):
        content = tree.read_link(path)
    elif mark:
        content = tree.read(path, most)
    return SavedNode(status.st_mode, mark, content, (status.st_uid, status.st_gid), racy, passage)
