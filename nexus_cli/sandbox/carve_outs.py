"""Keep what is protected inside a writable project: git's hooks and configuration, instructions, start-up files.

Where mounts can hold it (bwrap) what exists is read-only; Landlock cannot take back below a folder what it gave there.
So everything is compared before and after a command: what changed is put back, what appeared is taken away, and both
are told and kept in a private folder. Nothing here follows a link, and under Landlock the work is done inside the
walls of the command (`confinement`): a link planted on its way leads nowhere that the command could not go itself.

Guarded are the folders that were there before (`guarded_places`), also where the command moved one within the project.
A folder that the command itself made is not, nor what it copied there: `git clone`, `git worktree add` and `npm create`
work. What it removed with its folder is not put back: nobody obeys what is gone.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nexus_cli.config.protected_places import GIT_FOLDER
from nexus_cli.sandbox.guarded_places import (
    MOST_DEPTH,
    RACY,
    GuardedFolder,
    find_folders,
    is_folder,
    look_again,
    protected_roots,
)
from nexus_cli.sandbox.profile import Profile

MOST_FILES, MOST_BYTES = 2_000, 8 << 20
"""What is remembered of one protected folder, near its top first; no folder takes this from another. Beyond it a file
cannot be put back."""
MOST_MOUNTS = 60
"""Each costs the more the more there are: a repository with 500 submodules would take seconds. The rest is put back."""
MOST_HANDLES = 100
"""Of the folders with protected names near the top; a moved one is found again by its handle."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        self._folders = find_folders(profile.project, profile.guarded)
        self._starts = {str(profile.project)}
        for root, passage in self._list_roots(self._folders):
            self._roots += [] if passage else [root]
            self._save_root(root, passage, known.nodes if known else {})
        self._git_folders = {folder / GIT_FOLDER for folder in profile.guarded}
        self._git_folders |= _find_git_folders(self._folders)
        if profile.git_folder is not None:
            self._git_folders.add(profile.git_folder.parent.parent)
        self._ways = _find_ways((*self._roots, *(git / "config" for git in self._git_folders)), profile.project)
        own = [path for path in self._ways if str(path) in self._folders or path in self._git_folders]
        handles = {path: _open_folder(path) for path in own[:MOST_HANDLES]}
        self._handles = {path: handle for path, handle in handles.items() if handle >= 0}

    def close(self) -> None:
        """Release the handles of folders."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def mount_points(self) -> list[Path]:
        """Return the paths that are to be read-only: existing, no links; of very many those near the project's top."""
        found = [path for path in self._roots if path in self.nodes and self.nodes[path].kind != stat.S_IFLNK]
        return sorted(found, key=lambda path: len(path.parts))[:MOST_MOUNTS]

    def put_back(self) -> list[PutBack]:
        """Compare with now, put back what changed, take away what appeared, and return what was done.

        What could not be put back comes first.
        """
        told = self._remove_links()
        self._follow_moved_folders()
        told += self._put_git_back()
        self._forget_removed_folders()
        self._forget_removed_worktrees()
        for path, node in self.nodes.items():
            # First of all: what cannot be listed or written could not be put back.
            if node.kind != stat.S_IFDIR or not is_folder(path) or os.lstat(path).st_mode == node.mode:
                continue
            if not any(map(os.path.islink, path.parents)):
                with suppress(OSError):
                    os.chmod(path, stat.S_IMODE(node.mode))
        folders = self._look_again()
        fresh = _find_git_folders(folders) - self.nodes.keys()
        self._git_folders |= fresh
        now: list[Path] = []
        for root, passage in self._list_roots(folders):
            if root not in self._partial:
                now += [root] if passage else _walk(root)
        for path in reversed(now):
            if path not in self.nodes and str(path) not in folders and not self._is_new_worktree(path):
                told += self._take_away(path, in_fresh_git=not fresh.isdisjoint((path, *path.parents)))
        for path, node in self.nodes.items():
            told += self._restore(path, node)
        return sorted(told, key=lambda one: one.what != "changed")

    def _list_roots(self, folders: Mapping[str, GuardedFolder]) -> Iterator[tuple[Path, bool]]:
        bare = {path for path, folder in self._folders.items() if folder.is_bare}
        return protected_roots(folders, self._profile.guarded, bare, self._profile.git_folder)

    def _look_again(self) -> dict[str, GuardedFolder]:
        """Return the guarded folders as they are; those that the command closed are opened again."""
        for _ in range(MOST_DEPTH + 1):
            folders = look_again(self._folders, self._starts)
            closed = [path for path, now in folders.items() if _is_closed(self._folders[path], now)]
            for path in closed:
                with suppress(OSError):
                    os.chmod(path, stat.S_IMODE(self._folders[path].mode))
            if not closed:
                break
        return folders

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
        racy = time.time_ns() - about.st_ctime_ns < RACY
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

    def _remove_links(self) -> list[PutBack]:
        """Take away links in place of folders that led to protected places: by one all else would go astray."""
        return [one for path in self._ways if os.path.islink(path) for one in self._take_away(path)]

    def _follow_moved_folders(self) -> None:
        """Guard a folder that was moved within the project at its new place too, with what was in it."""
        for path, handle in list(self._handles.items()):
            went = _find_handle(handle, path)
            if path.name == GIT_FOLDER or went in (None, path) or self._profile.project not in went.parents:
                continue
            moved = [one for one in self.nodes if one == path or path in one.parents]
            self.nodes |= {went / one.relative_to(path): self.nodes[one] for one in moved}
            self._partial |= {went / one.relative_to(path) for one in moved if one in self._partial}
            inside = [one for one in self._folders if one == str(path) or one.startswith(f"{path}/")]
            self._folders |= {f"{went}{one.removeprefix(str(path))}": self._folders[one] for one in inside}
            self._starts.add(str(went))

    def _put_git_back(self) -> list[PutBack]:
        """Move git folders back to their name if they were moved away from it; what took their name goes."""
        told: list[PutBack] = []
        for here, handle in self._handles.items():
            went = _find_handle(handle, here)
            if here.name != GIT_FOLDER or went == here or not is_folder(here.parent):
                continue
            if went is None:
                told.append(PutBack(here, "changed"))
            elif not self._was_moved(went.parent, here.parent):
                told += self._take_away(here) if os.path.lexists(here) else []
                try:
                    os.rename(went, here)
                    told.append(PutBack(here, "restored"))
                except OSError:
                    told.append(PutBack(here, "changed"))
        return told

    def _was_moved(self, path: Path, earlier: Path) -> bool:
        """True if the folder at `path` is the one that was at `earlier`."""
        return earlier in self._handles and _is_handle_of(self._handles[earlier], path)

    def _forget_removed_folders(self) -> None:
        """Leave out what was in a folder, or a git folder, that is gone: nothing obeys it."""
        own = (path for path in self._ways if str(path) in self._folders or path in self._git_folders)
        gone = {path for path in own if not is_folder(path)}
        if gone:
            self.nodes = {path: node for path, node in self.nodes.items() if gone.isdisjoint((path, *path.parents))}

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
            return path.name == "worktrees" and path.parent in self._git_folders and is_folder(path)
        place = _read(entry / "gitdir") or b""
        is_place = place.endswith(b"/.git\n") and place.count(b"\n") == 1
        is_part = _read(entry / "commondir") == b"../..\n" and not os.path.lexists(entry / "config.worktree")
        return is_folder(entry) and is_place and is_part

    def _worktree_entry(self, path: Path) -> Path | None:
        """Return the folder `worktrees/NAME` of a repository that `path` is or lies in."""
        if "worktrees" not in path.parts:
            return None
        entries = (one for one in (path, *path.parents) if one.parent.name == "worktrees")
        return next((one for one in entries if one.parent.parent in self._git_folders), None)

    def _take_away(self, path: Path, *, in_fresh_git: bool = False) -> list[PutBack]:
        """Remove what was not there before; of a repository that the command made, only what runs programs."""
        try:
            about = os.lstat(path)
        except OSError:
            return []
        content = _read(path)
        if in_fresh_git and (stat.S_ISDIR(about.st_mode) or path.suffix == ".sample" or _is_plain(path, content)):
            return []
        try:
            if stat.S_ISDIR(about.st_mode):
                _remove_folder(path)
            else:
                path.unlink()
        except OSError:
            return [PutBack(path, "changed", content)]
        if in_fresh_git and path.name == "config":
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
                self._take_away(path)
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


def _walk(root: Path) -> Iterator[Path]:
    """Yield `root` and all in it, what is near the top first."""
    waiting = deque([root])
    while waiting:
        path = waiting.popleft()
        yield path
        if is_folder(path):
            with suppress(OSError):
                waiting.extend(path / name for name in sorted(os.listdir(path)))


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _find_git_folders(folders: Mapping[str, GuardedFolder]) -> set[Path]:
    return {Path(path, GIT_FOLDER) for path, folder in folders.items() if GIT_FOLDER in folder.names}


def _find_ways(roots: Iterable[Path], project: Path) -> list[Path]:
    """Return the folders of `project` on the way to `roots`, no links, a parent before what is in it."""
    ways: set[Path] = set()
    for root in roots:
        for parent in root.parents:
            if parent in ways or project not in parent.parents:
                break
            ways.add(parent)
    return sorted((path for path in ways if is_folder(path)), key=lambda path: len(path.parts))


def _is_closed(before: GuardedFolder, now: GuardedFolder) -> bool:
    """True if the command took rights from a folder that are needed to see, or to take away, what it made there."""
    return bool(before.mode & ~now.mode & stat.S_IRWXU) and (not now.is_listed or now.names != before.names)


def _open_folder(path: Path) -> int:
    """Return a handle of a folder that stays valid when it is moved; -1 if there is none."""
    try:
        return os.open(path, _FOLDER)
    except OSError:
        return -1


def _is_handle_of(handle: int, path: Path) -> bool:
    try:
        about, there = os.fstat(handle), os.lstat(path)
    except OSError:
        return False
    return (about.st_dev, about.st_ino) == (there.st_dev, there.st_ino)


def _remove_folder(path: Path) -> None:
    """Remove a folder with all in it, however deep: what lies deeper is moved up, so no path becomes too long."""
    path.chmod(0o700)
    folder = os.open(path, _FOLDER)
    try:
        prefix, number = secrets.token_hex(8), 0
        while names := os.listdir(folder):
            for name in names:
                if not _make_accessible(name, folder):
                    os.unlink(name, dir_fd=folder)
                    continue
                inner = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    for below in os.listdir(inner):
                        number += 1
                        _make_accessible(below, inner)  # no folder is moved that may not be written
                        os.rename(below, f"{prefix}-{number}", src_dir_fd=inner, dst_dir_fd=folder)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=folder)
    finally:
        os.close(folder)
    path.rmdir()


def _make_accessible(name: str, folder: int) -> bool:
    """Give us all rights to a folder in `folder`; return False if it is none."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, 0o700, dir_fd=folder)
    return True


def _find_handle(handle: int, path: Path) -> Path | None:
    """Return where the open folder that was at `path` is now, None if it is gone or cannot be found."""
    if _is_handle_of(handle, path):
        return path
    try:
        went = Path(os.readlink(f"/proc/self/fd/{handle}"))
    except OSError:
        return None
    return went if _is_handle_of(handle, went) else None


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
