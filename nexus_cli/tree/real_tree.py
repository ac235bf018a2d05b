"""Read, replace and remove files relative to open folders, following no link.

Commands may have put links and other files anywhere below. No operation here leaves these folders, or changes a file in
place, which may be hard-linked elsewhere.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress

from nexus_cli.core.real_files import (
    REPLACED,
    FolderChain,
    open_folder,
    open_listable,
    open_regular,
    scan_folder,
    stat_at,
    suppress_errors,
)
from nexus_cli.tree.file_state import ABSENT_STATE, FileState
from nexus_cli.tree.read_state import KINDS
from nexus_cli.tree.write_state import DRAFT_MODE, ChangedMeanwhileError, finish_folder, write_state

_UNREACHABLE = {*REPLACED, errno.EACCES, errno.EPERM, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG}
"""Errors that mean that there is nothing, or nothing in reach of our rights. With others the result is unknown."""
MAX_LEVELS = 64
"""Most nested folders; each needs an open descriptor."""


class RealTree:
    """Operations on absolute paths at or below one of the roots; others count as missing."""

    def __init__(self, roots: Iterable[str]) -> None:
        """Open the roots; missing ones are ignored."""
        self._chains: dict[str, FolderChain] = {}
        for root in sorted(roots, key=len, reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError), open_folder(root) as handle:
                self._chains[root] = FolderChain(os.dup(handle))

    def close(self) -> None:
        """Release the roots."""
        for root in list(self._chains):
            self.leave(root)

    def leave(self, root: str) -> None:
        """Close `root`: paths in it count as missing from now on."""
        chain = self._chains.pop(root)
        chain.forget()
        os.close(chain.root)

    def forget(self) -> None:
        """Close all folders but the roots, so that replaced ones are opened again."""
        for chain in self._chains.values():
            chain.forget()

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of `path`, None if nothing in reach is there."""
        with suppress_errors(_UNREACHABLE):
            folder, name = self._find(path)
            # If we may no longer search a root, "." cannot be looked up in it.
            return os.fstat(folder) if name == "." else stat_at(folder, name)
        return None

    def is_folder(self, path: str) -> bool:
        """Return True if `path` is a folder, not a link to one."""
        status = self.stat(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def scan(self, path: str) -> list[tuple[str, bool]]:
        """List a folder: sorted names, each with True for a folder; [] if it cannot be listed."""
        with suppress_errors(_UNREACHABLE), scan_folder(*self._find(path)) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        return []

    def walk(self, path: str) -> Iterator[str]:
        """Yield `path` and the paths below it, breadth first, down to `MAX_LEVELS`."""
        waiting = deque([(path, self.is_folder(path))])
        deepest = path.count("/") + MAX_LEVELS
        while waiting:
            path, is_folder = waiting.popleft()
            yield path
            if is_folder and path.count("/") < deepest:
                waiting.extend((f"{path}/{name}", below) for name, below in self.scan(path))

    def read(self, path: str, most: int) -> bytes | None:
        """Return the bytes of a regular file of at most `most` bytes, None for anything else."""
        with suppress_errors(_UNREACHABLE):
            folder, name = self._find(path)
            with open_regular(folder, name) as file:
                return file.read() if os.fstat(file.fileno()).st_size <= most else None
        return None

    def read_link(self, path: str) -> bytes | None:
        """Return the target of a link, None if `path` is none."""
        with suppress_errors(_UNREACHABLE):
            folder, name = self._find(path)
            return os.fsencode(os.readlink(name, dir_fd=folder))
        return None

    def put(self, path: str, mode: int, content: bytes, owner: tuple[int, int]) -> None:
        """Make an empty folder at `path`, where nothing must be, or replace what is there by a link to `content` or by
        a file of it, as the kind in `mode` says. The owner is set as far as that is allowed."""
        folder, name = self._find(path)
        target = os.fsdecode(content) if stat.S_ISLNK(mode) else ""
        kind = KINDS[stat.S_IFMT(mode)]
        state = FileState(kind, stat.S_IMODE(mode), target=target, owner=f"{owner[0]}:{owner[1]}")
        if not stat.S_ISDIR(mode):
            write_state(folder, name, state, None, io.BytesIO(content), synced=False)
            return
        try:
            os.mkdir(name, DRAFT_MODE, dir_fd=folder)
            finish_folder(folder, name, ABSENT_STATE, state)
        except ChangedMeanwhileError as error:
            raise OSError(errno.EBUSY, "another process is changing it", path) from error

    def set_folder_mode(self, path: str, mode: int) -> None:
        """Set the mode of a folder. Fails on a file, which may be hard-linked elsewhere."""
        _set_mode(*self._find(path), stat.S_IMODE(mode))

    def move(self, path: str, to: str) -> None:
        """Rename `path` to `to`, which must not exist."""
        folder, name = self._find(path)
        source = os.dup(folder)
        try:
            target, new_name = self._find(to)
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        finally:
            os.close(source)
            self.forget()

    def remove(self, path: str) -> None:
        """Remove `path`; a folder with all that is in it, at any depth: nested folders are moved up first."""
        parent, last = self._find(path)
        if not self.is_folder(path):
            os.unlink(last, dir_fd=parent)
            return
        try:
            with _open_emptied(parent, last) as folder:
                prefix, number = secrets.token_hex(8), 0
                while names := os.listdir(folder):
                    for name in names:
                        if not stat.S_ISDIR(stat_at(folder, name).st_mode):
                            os.unlink(name, dir_fd=folder)
                            continue
                        with _open_emptied(folder, name) as inner:
                            for below in os.listdir(inner):
                                number += 1
                                if stat.S_ISDIR(stat_at(inner, below).st_mode):
                                    _set_mode(inner, below, 0o700)  # moving a folder needs write access to it
                                os.rename(below, f"{prefix}-{number}", src_dir_fd=inner, dst_dir_fd=folder)
                        os.rmdir(name, dir_fd=folder)
        finally:
            self.forget()
        parent, last = self._find(path)
        os.rmdir(last, dir_fd=parent)

    def _find(self, path: str) -> tuple[int, str]:
        """Return a descriptor of the parent folder of `path`, and its name there."""
        parent, _, name = path.rpartition("/")
        for root, chain in self._chains.items():
            if path == root:
                return chain.root, "."
            if path.startswith(f"{root}/"):
                return chain.open(parent[len(root) + 1 :]), name
        raise FileNotFoundError(errno.ENOENT, "is not below a folder that is open")


def _open_emptied(parent: int, name: str) -> AbstractContextManager[int]:
    """Give ourselves full access to a folder, and open it as `open_listable` does."""
    _set_mode(parent, name, 0o700)
    return open_listable(parent, name)


def _set_mode(parent: int, name: str, mode: int) -> None:
    if sys.platform != "linux":
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    with open_folder(name, inside=parent) as handle:
        os.chmod(f"/proc/self/fd/{handle}", mode)  # works on an O_PATH descriptor, without access to the folder
