"""Open folders and files by their real path, handle by handle, through no link.

A path that was resolved and judged may have become a link before it is opened. Here such a link is an error: what is
opened is what was judged, or nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_folder(path: PurePath | str, *, inside: int | None = None, create: bool = False) -> Iterator[int]:
    """Yield a handle on the folder at `path`: a real absolute path, or one below the folder `inside`.

    The handle serves as `dir_fd` only. With `create` missing folders are made. Raises `OSError`, with `ELOOP` where a
    name is a link.
    """
    place = os.open(os.sep, _FOLDER) if inside is None else os.dup(inside)
    try:
        for name in os.fspath(path).split(os.sep):
            if name in ("", "."):
                continue
            inner = _open_inside(place, name, create)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


class FolderChain:
    """Open folders below `root`, through no link; the way to the last one stays open for those beside it."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._way: list[tuple[str, int]] = []

    def open(self, path: str) -> int:
        """Return a handle on the folder `path`, "" for the root; it is ours until the next call. As `open_folder`."""
        names = path.split(os.sep) if path else []
        known = 0
        while known < min(len(names), len(self._way)) and self._way[known][0] == names[known]:
            known += 1
        self.forget(known)
        for name in names[known:]:
            self._way.append((name, _open_inside(self._way[-1][1] if self._way else self.root, name, False)))
        return self._way[-1][1] if self._way else self.root

    def forget(self, known: int = 0) -> None:
        """Close the way but for its first `known` folders."""
        while len(self._way) > known:
            os.close(self._way.pop()[1])


@contextmanager
def open_listable(folder: int) -> Iterator[int]:
    """Yield a second handle on `folder` that can be listed, locked and synced; `PermissionError` if it may not."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def status_at(folder: int, name: str) -> os.stat_result:
    """Return the status of `name` in `folder`; `OSError` with `ELOOP` if it is a link."""
    status = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise _link_error()
    return status


def open_at(folder: int, name: str) -> int:
    """Return a descriptor for reading `name` in `folder`. A link is an error; a pipe does not block."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
    return os.open(name or ".", flags, dir_fd=folder)


def is_there(path: PurePath | str, *, inside: int | None = None) -> bool:
    """Return True if something, also a link, is at the real path `path` and no link leads to it."""
    parent, _, name = os.fspath(path).rstrip(os.sep).rpartition(os.sep)
    try:
        with open_folder(parent, inside=inside) as folder:
            os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def read_beginning(path: PurePath | str, most: int) -> bytes:
    """Return at most the first `most` bytes of a regular file, links followed; `OSError` for anything else.

    A pipe or device, which may never begin or never end, is not read.
    """
    # By an opener: `open` does not close the descriptor of a folder that it was handed.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        return file.read(most)


def _open_inside(place: int, name: str, create: bool) -> int:
    if name == "..":
        raise OSError(errno.EINVAL, "is no real path")
    try:
        return os.open(name, _FOLDER, dir_fd=place)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        status_at(place, name)
        raise
    try:
        os.mkdir(name, dir_fd=place)
    except FileExistsError:
        pass
    return _open_inside(place, name, False)


def _link_error() -> OSError:
    return OSError(errno.ELOOP, "leads through a link that was put there meanwhile, or through too many links")
