"""Keep what is protected inside a writable project: git's hooks and configuration, instructions, start-up files.

Where mounts can hold it (bwrap) what exists is read-only; Landlock cannot take back below a folder what it gave there.
So everything is compared before and after a command: what changed is put back, what appeared is taken away, and both
are told and kept in a private folder. Nothing here follows a link, and under Landlock the work is done inside the
walls of the command (`confinement`): a link planted on its way leads nowhere that the command could not go itself.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nexus_cli.config.protected_places import (
    GIT_CONTROLS,
    GIT_FOLDER,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    fold_name,
)
from nexus_cli.core.real_files import read_beginning
from nexus_cli.sandbox.profile import Profile

MOST_FILES, MOST_BYTES = 2_000, 8 << 20
"""What is remembered of one protected folder, near its top first; no folder takes this from another. Beyond it a file
cannot be put back."""
MOST_MOUNTS = 60
"""Each costs the more the more there are: a repository with 500 submodules would take seconds. The rest is put back."""
_RACY = 2_000_000_000
"""Nanoseconds: a file that changed so shortly before it was looked at may change again without another time stamp."""

MOST_CONFIGURATION = 1 << 20
_NAMED_BY_GIT = re.compile(r"^[^\S\n]*(?:\[[^\]\n]*\])?[^\S\n]*(?:hookspath|path)[^\S\n]*=([^\n#;]+)", re.I | re.M)
"""Settings by which git runs or obeys files elsewhere: `core.hooksPath`, `include.path`."""

_BARE = ("HEAD", "objects", "refs")
"""Entries that make a folder a repository for git, with a configuration of its own."""
_DATA = ("objects", "refs", "logs", "lfs")


@dataclass(frozen=True, slots=True)
class SavedNode:
    """One file, link or folder as it was."""

    mode: int
    stamp: tuple[int, ...]
    """Device, inode, size and times; `ctime` cannot be set back by a command."""
    content: bytes | None
    """The bytes of a file, the target of a link; None for a folder, and for what was too large."""
    owner: tuple[int, int]
    racy: bool = False
    passage: bool = False
    """A folder on the way to others: its own entries may change."""

    @property
    def kind(self) -> int:
        """Return the type of file."""
        return stat.S_IFMT(self.mode)


@dataclass(frozen=True, slots=True)
class PutBack:
    """A place that a command changed and does not find changed."""

    path: Path
    what: str
    """`restored`, `removed`, or `changed` where it could not be put back."""
    content: bytes | None = None
    """What the command had left there: the bytes of a file."""

    def line(self, project: Path) -> str:
        """Return it for a person, the path as seen from `project`."""
        shown = self.path.relative_to(project) if self.path.is_relative_to(project) else self.path
        return f"{shown}: {self.what}"


class CarveOuts:
    """The protected nodes of a project at one moment, and the way back to them."""

    def __init__(self, profile: Profile, known: CarveOuts | None = None) -> None:
        """Look at them now. Contents that `known` has and that did not change since are not read again."""
        self._profile = profile
        self.nodes: dict[Path, SavedNode] = {}
        self._roots: list[Path] = []
        self._partial: set[Path] = set()
        for root, passage in protected_roots(profile):
            self._roots += [] if passage else [root]
            self._save_root(root, passage, known.nodes if known else {})
        self._git = _open_folder(profile.project / GIT_FOLDER)

    def close(self) -> None:
        """Release the handle of the git folder."""
        if self._git >= 0:
            os.close(self._git)
            self._git = -1

    def mount_points(self) -> list[Path]:
        """Return the paths that are to be read-only: existing, no links; of very many those near the project's top."""
        found = [path for path in self._roots if path in self.nodes and self.nodes[path].kind != stat.S_IFLNK]
        return sorted(found, key=lambda path: len(path.parts))[:MOST_MOUNTS]

    def put_back(self) -> list[PutBack]:
        """Compare with now, put back what changed, take away what appeared, and return what was done."""
        told = self._put_git_back()
        self._forget_removed_worktrees()
        for path, node in self.nodes.items():
            # First of all: what cannot be listed or written could not be put back.
            if node.kind == stat.S_IFDIR and _is_folder(path) and os.lstat(path).st_mode != node.mode:
                with suppress(OSError):
                    os.chmod(path, stat.S_IMODE(node.mode))
        fresh = self._profile.project / GIT_FOLDER not in self.nodes
        now: list[Path] = []
        for root, passage in protected_roots(self._profile):
            if root not in self._partial:
                now += [root] if passage else _walk(root)
        for path in reversed(now):
            if path not in self.nodes and not self._is_new_worktree(path):
                told += self._take_away(path, fresh_git=fresh)
        for path, node in self.nodes.items():
            told += self._restore(path, node)
        return told

    def _save_root(self, root: Path, passage: bool, known: Mapping[Path, SavedNode]) -> None:
        """Remember a protected path with what is in it, as far as that is not too much; a passage alone."""
        found = [root] if passage else list(islice(_walk(root), MOST_FILES + 1))
        if len(found) > MOST_FILES:
            self._partial.add(root)
            found.pop()
        left = MOST_BYTES
        for path in found:
            with suppress(FileNotFoundError, NotADirectoryError):
                node = self.nodes[path] = self._save(path, passage, known.get(path), left)
                left -= len(node.content or b"")

    def _save(self, path: Path, passage: bool, old: SavedNode | None, left: int) -> SavedNode:
        about = os.lstat(path)
        stamp = _stamp(about)
        racy = time.time_ns() - about.st_ctime_ns < _RACY
        if old is not None and old.stamp == stamp and not old.racy:
            return old
        content: bytes | None = None
        if stat.S_ISLNK(about.st_mode):
            content = os.fsencode(os.readlink(path))
        elif about.st_size <= left:
            content = _read(path)
        return SavedNode(about.st_mode, stamp, content, (about.st_uid, about.st_gid), racy, passage)

    def _is_same(self, path: Path, node: SavedNode) -> bool:
        try:
            about = os.lstat(path)
        except OSError:
            return False
        if stat.S_IFMT(about.st_mode) != node.kind or stat.S_ISDIR(about.st_mode):
            return stat.S_IFMT(about.st_mode) == node.kind
        if _stamp(about) == node.stamp and not node.racy:
            return True
        if stat.S_ISLNK(about.st_mode):
            return os.fsencode(os.readlink(path)) == node.content
        if not stat.S_ISREG(about.st_mode) or node.content is None:
            return _stamp(about) == node.stamp
        same_mode = stat.S_IMODE(about.st_mode) == stat.S_IMODE(node.mode)
        return same_mode and about.st_size == len(node.content) and _read(path) == node.content

    def _put_git_back(self) -> list[PutBack]:
        """Move the git folder back to its name if it was moved away; what took its name goes."""
        here = self._profile.project / GIT_FOLDER
        if self._git < 0 or _is_handle_of(self._git, here):
            return []
        went = Path(os.readlink(f"/proc/self/fd/{self._git}")) if os.path.exists("/proc/self/fd") else here
        if not _is_handle_of(self._git, went):
            # Deleted. A repository in its place gets the old controls; without one there is nothing to guard.
            if not _is_folder(here):
                self.nodes = {path: node for path, node in self.nodes.items() if not path.is_relative_to(here)}
            return [PutBack(here, "changed")]
        told = self._take_away(here, fresh_git=False) if os.path.lexists(here) else []
        try:
            os.rename(went, here)
        except OSError:
            return [*told, PutBack(here, "changed")]
        return [*told, PutBack(here, "restored")]

    def _forget_removed_worktrees(self) -> None:
        """Leave out the entries of worktrees that the command removed whole; one without its `commondir` is not."""
        own = self._profile.git_folder
        entries = {path: self._worktree_entry(path) for path in self.nodes}
        gone = {entry for entry in entries.values() if entry and entry != own and not os.path.lexists(entry)}
        self.nodes = {path: node for path, node in self.nodes.items() if entries[path] not in gone}

    def _is_new_worktree(self, path: Path) -> bool:
        """True for what `git worktree add` makes: its configuration is that of the repository, as of all others."""
        entry = self._worktree_entry(path)
        if entry is None:
            return path.name == "worktrees" and path.parent in self._profile.git_folders and _is_folder(path)
        place = _read(entry / "gitdir") or b""
        is_place = place.endswith(b"/.git\n") and place.count(b"\n") == 1
        is_part = _read(entry / "commondir") == b"../..\n" and not os.path.lexists(entry / "config.worktree")
        return _is_folder(entry) and is_place and is_part

    def _worktree_entry(self, path: Path) -> Path | None:
        """Return the folder `worktrees/NAME` of a repository that `path` is or lies in."""
        for folder in self._profile.git_folders:
            if path.is_relative_to(folder / "worktrees") and path != folder / "worktrees":
                return folder / "worktrees" / path.relative_to(folder / "worktrees").parts[0]
        return None

    def _take_away(self, path: Path, *, fresh_git: bool) -> list[PutBack]:
        """Remove what was not there before; of a repository that the command made, only what runs programs."""
        try:
            about = os.lstat(path)
        except OSError:
            return []
        content = _read(path)
        of_git = fresh_git and path.is_relative_to(self._profile.project / GIT_FOLDER)
        if of_git and (stat.S_ISDIR(about.st_mode) or path.suffix == ".sample" or _is_plain(path, content)):
            return []
        try:
            if stat.S_ISDIR(about.st_mode):
                path.chmod(0o700)
                for name in os.listdir(path):
                    self._take_away(path / name, fresh_git=False)
                path.rmdir()
            else:
                path.unlink()
        except OSError:
            return [PutBack(path, "changed", content)]
        if of_git and path.name == "config":
            path.write_bytes(_MINIMAL_CONFIG)
        return [PutBack(path, "removed", content)]

    def _restore(self, path: Path, node: SavedNode) -> list[PutBack]:
        if self._is_same(path, node):
            return []
        left = None
        try:
            if os.path.lexists(path):
                left = _read(path)
                if node.content is None and node.kind == stat.S_IFREG:
                    return [PutBack(path, "changed")]
                self._take_away(path, fresh_git=False)
            if stat.S_ISDIR(node.mode):
                path.mkdir(stat.S_IMODE(node.mode))
            elif stat.S_ISLNK(node.mode) and node.content is not None:
                os.symlink(os.fsdecode(node.content), path)
            elif node.content is not None:
                _write(path, node.content, node)
            else:
                return [PutBack(path, "changed", left)]
        except OSError:
            return [PutBack(path, "changed", left)]
        return [PutBack(path, "restored", left)]


_IN_FORCE: dict[tuple[Path, ...], tuple[CarveOuts, int]] = {}
_LAST: dict[tuple[Path, ...], CarveOuts] = {}
_LOCK = threading.Lock()


def share_carve_outs(profile: Profile) -> CarveOuts:
    """Return the state that commands of this project are compared with: one for all that run at the same time.

    A state taken while another command runs could hold what that one did, and would put it back later.
    """
    key = profile.guarded
    with _LOCK:
        state, users = _IN_FORCE.get(key) or (CarveOuts(profile, _LAST.get(key)), 0)
        _IN_FORCE[key] = state, users + 1
        return state


def release_carve_outs(profile: Profile) -> None:
    """End one use of the state that `share_carve_outs` returned."""
    key = profile.guarded
    with _LOCK:
        state, users = _IN_FORCE.pop(key)
        if users > 1:
            _IN_FORCE[key] = state, users - 1
        else:
            state.close()
            _LAST[key] = state


def protected_roots(profile: Profile) -> Iterator[tuple[Path, bool]]:
    """Yield the protected paths that exist, to be taken with what is in them; links are not followed.

    The second value is True for folders that are only on the way to what is protected, each before what is in it.
    """
    for folder in profile.guarded:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        yield folder, True
        for name in names:
            folded = name.lower() if name.isascii() else fold_name(name)
            if folded == GIT_FOLDER:
                yield from _git_paths(folder / name)
                for path in _named_by_git(folder / name / "config", folder):
                    yield path, False
            elif folded in PROTECTED_FOLDERS or folded in PROTECTED_FILES:
                yield folder / name, False
        if set(_BARE) <= set(names):
            yield folder / _BARE[0], False
    if profile.git_folder is not None:
        yield from _git_paths(profile.git_folder.parent.parent)


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
    yield git, _is_folder(git)
    yield from _controls(git, [control.split("/") for control in GIT_CONTROLS])


def _controls(folder: Path, patterns: list[list[str]]) -> Iterator[tuple[Path, bool]]:
    """Yield what matches one of the path patterns below `folder`, with the folders on the way; `**` is any of them."""
    try:
        names = sorted(os.listdir(folder)) if _is_folder(folder) else []
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
        elif deeper and (_is_folder(path) or os.path.islink(path)):
            yield path, _is_folder(path)
            yield from _controls(path, deeper)


def _walk(root: Path) -> Iterator[Path]:
    """Yield `root` and all in it, what is near the top first."""
    waiting = deque([root])
    while waiting:
        path = waiting.popleft()
        yield path
        if _is_folder(path):
            with suppress(OSError):
                waiting.extend(path / name for name in sorted(os.listdir(path)))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _open_folder(path: Path) -> int:
    """Return a handle of a folder that stays valid when it is moved; -1 if there is none."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1


def _is_handle_of(handle: int, path: Path) -> bool:
    try:
        about, there = os.fstat(handle), os.lstat(path)
    except OSError:
        return False
    return (about.st_dev, about.st_ino) == (there.st_dev, there.st_ino)


def _read(path: Path) -> bytes | None:
    """Return the bytes of a regular file; None for anything else, and for what is too large or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            return None
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(handle)


def _write(path: Path, content: bytes, node: SavedNode) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        with suppress(OSError):
            os.fchown(file.fileno(), *node.owner)
        os.fchmod(file.fileno(), stat.S_IMODE(node.mode))


_MINIMAL_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_PLAIN_LINE = re.compile(
    rb"\s*(?:[#;].*|\[(?:core|user|init|extensions|remote \"[^\"\\]*\"|branch \"[^\"\\]*\")\]"
    rb"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|name|email"
    rb"|defaultbranch|objectformat|refstorage|url|fetch|remote|merge|rebase) *= *[^\\]*)?\s*",
    re.IGNORECASE,
)
"""A line of a new repository's configuration that names no program and no other file."""


def _is_plain(path: Path, content: bytes | None) -> bool:
    """True for the configuration of a new repository that cannot run anything."""
    if path.name != "config" or content is None:
        return False
    return all(_PLAIN_LINE.fullmatch(line) for line in content.split(b"\n"))
