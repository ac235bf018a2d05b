"""Open folders and files by their real path, one descriptor after the other, following no link.

A checked path may be replaced by a link before it is opened. Such a link is an error here, so that only the checked
file can be opened.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import sys
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO

_FICLONE = 0x40049409
"""Linux: share the blocks of a file until one of both is written."""
_MAX_LINKS = 40
"""Most links on the way to a file, as in the kernel."""
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder as `dir_fd`, or to list it, a file to read, and a new one: through no link, waiting for no
pipe."""


REPLACED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)
"""Errors which mean that a file or a folder was removed meanwhile, or that something else is in its place."""


@contextmanager
def suppress_errors(numbers: Collection[int] = REPLACED) -> Iterator[None]:
    """Go on after the block if it raises an `OSError` with one of these numbers."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return a path without links and without `..`."""
    return Path(os.path.realpath(path))


def join_path(folder: str | os.PathLike[str], *names: str) -> str:
    """Join names to a folder. `.` and `..` are resolved by words, through no link."""
    return os.path.normpath(os.path.join(folder, *names))


def follow_path(path: str) -> Iterator[tuple[str, bool]]:
    """Yield each place on the way to an absolute path and to what its links name, with True for a link; raise `OSError`
    with `ELOOP` for too many links."""
    place, pending, links = os.sep, path.split(os.sep)[::-1], 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        place = os.path.dirname(place) if part == ".." else os.path.join(place, part)
        try:
            target = os.readlink(place)
        except OSError:  # no link, or nothing at all
            yield place, False
            continue
        yield place, True
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, "contains too many links")
        place = os.sep if os.path.isabs(target) else os.path.dirname(place)
        pending += target.split(os.sep)[::-1]


def follow_links(path: str) -> list[str]:
    """Return the links on the way to an absolute path, and its real path; raise as `follow_path`."""
    return [*(place for place, is_link in follow_path(path) if is_link), os.path.realpath(path)]


@contextmanager
def open_folder(path: PurePath | str, *, inside: int | None = None, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder at `path`: a real absolute path, or one relative to the folder `inside`.

    The descriptor is usable as `dir_fd` only. With `create` missing folders are created. Raises `OSError`, with `ELOOP`
    if a name is a link.
    """
    place = os.open(os.sep, FOLDER) if inside is None else os.dup(inside)
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


@contextmanager
def open_parent(path: PurePath | str, *, inside: int | None = None, create: bool = False) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder in which `path` is, as `open_folder` does, and the name of `path` there."""
    parent, _, name = os.fspath(path).rpartition(os.sep)
    with open_folder(parent, inside=inside, create=create) as folder:
        yield folder, name


class FolderChain:
    """Opens folders below `root`, following no link; keeps the path to the last one open, to reuse its beginning."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._opened: list[tuple[str, int]] = []

    def open(self, path: str) -> int:
        """Return a descriptor of the folder `path` ("": the root) until the next call. Raises as `open_folder`."""
        names = path.split(os.sep) if path else []
        shared = 0
        while shared < min(len(names), len(self._opened)) and self._opened[shared][0] == names[shared]:
            shared += 1
        self.forget(shared)
        for name in names[shared:]:
            self._opened.append((name, _open_inside(self._opened[-1][1] if self._opened else self.root, name, False)))
        return self._opened[-1][1] if self._opened else self.root

    def forget(self, depth: int = 0) -> None:
        """Close the open folders except the first `depth`."""
        while len(self._opened) > depth:
            os.close(self._opened.pop()[1])


@contextmanager
def open_listable(folder: int, name: str = ".") -> Iterator[int]:
    """Yield a descriptor of `folder`, or of the folder `name` in it, that can be listed, locked and synced. Raises
    `OSError`, `PermissionError` if not allowed."""
    descriptor = os.open(name, LISTED, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def stat_at(folder: int, name: str) -> os.stat_result:
    """Return the status of `name` in an open folder, that of a link itself. Raises `OSError`."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def stat_real(folder: int, name: str) -> os.stat_result:
    """Return the status of `name` in `folder`; raise `OSError` with `ELOOP` if it is a link."""
    status = stat_at(folder, name or ".")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "contains a link that was just created, or too many links")
    return status


def open_at(folder: int, name: str) -> int:
    """Open `name` in `folder` for reading and return the descriptor. Raises for a link; does not block on a pipe."""
    return os.open(name or ".", READ, dir_fd=folder)


def open_regular(folder: int, name: str) -> IO[bytes]:
    """Open the regular file `name` of an open folder for reading; raise `OSError` for anything else, also a link."""
    descriptor = open_at(folder, name)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", name)
    return open(descriptor, "rb")


def open_real(path: PurePath | str, *, inside: int | None = None) -> IO[bytes]:
    """Open the regular file at `path`, a path as `open_folder` takes it, for reading. Raises as `open_regular`."""
    with open_parent(path, inside=inside) as (folder, name):
        return open_regular(folder, name)


def read_regular(path: PurePath | str, most: int, *, inside: int | None = None) -> bytes:
    """Return the bytes of the regular file at `path`, as `read_real` does.

    Raises `OSError`, with `EFBIG` for a file of more than `most` bytes.
    """
    data, _ = read_real(path, most + 1, inside=inside)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"has more than {most:,} bytes", os.fspath(path))
    return data


def stamp_content(path: PurePath | str, most: int) -> str:
    """Return a text that changes with the mode and the content of the regular file at `path`: with size and time, if it
    has more than `most` bytes. Raises as `read_regular`."""
    with open_real(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > most:
            return f"{status.st_size} {status.st_mtime_ns}"
        return f"{status.st_mode} {hashlib.sha256(file.read(most)).hexdigest()}"


def list_folder(path: PurePath | str, *, inside: int | None = None) -> list[str]:
    """Return the names in the folder at `path`, a path as `open_folder` takes it. Raises `OSError`."""
    with open_folder(path, inside=inside) as folder, open_listable(folder) as listed:
        return os.listdir(listed)


@contextmanager
def scan_folder(folder: int, name: str = ".") -> Iterator[Iterator[os.DirEntry[str]]]:
    """Yield the entries of `folder`, or of the folder `name` in it, which can be examined until the block ends. Raises
    as `open_listable`."""
    with open_listable(folder, name) as listed, os.scandir(listed) as entries:
        yield entries


def walk_below(folder: int, *, skips: Container[str] = (), levels: int = 100) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the relative path and the entry of everything below an open folder, following no link.

    Folders whose name is in `skips`, or that are more than `levels` deep, are not entered; those that cannot be listed
    count as empty. An entry can be examined until the next one is asked for; its own `path` is only its name.
    """
    with suppress(OSError), open_listable(folder) as listed, os.scandir(listed) as entries:
        for entry in entries:
            yield entry.name, entry
            if levels and entry.is_dir(follow_symlinks=False) and entry.name not in skips:
                with suppress(OSError), open_folder(entry.name, inside=listed) as inner:
                    for path, below in walk_below(inner, skips=skips, levels=levels - 1):
                        yield f"{entry.name}/{path}", below


def copy_content(source: int, target: int, most: int) -> bool:
    """Copy at most `most` bytes of an open file to an empty one. Return True if both share their blocks until one of
    them is written. Raises `OSError`."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.ioctl(target, _FICLONE, source)
            return True
    while most > 0 and (piece := os.read(source, min(most, 1 << 20))):
        most -= len(piece)
        while piece:
            piece = piece[os.write(target, piece) :]
    return False


def copy_file(source: int, target: int) -> bool:
    """Copy an open file to an empty one, with mode and times, and close that. Returns and raises as `copy_content`."""
    try:
        status = os.fstat(source)
        is_cloned = copy_content(source, target, status.st_size)
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        return is_cloned
    finally:
        os.close(target)


def is_there(path: PurePath | str, *, inside: int | None = None) -> bool:
    """Return True if the real path `path` exists, even as a link, and no folder above it is a link."""
    try:
        with open_parent(os.fspath(path).rstrip(os.sep), inside=inside) as (folder, name):
            stat_at(folder, name or ".")
    except OSError:
        return False
    return True


def read_beginning(path: PurePath | str, most: int = -1) -> bytes:
    """Return at most the first `most` bytes of a regular file (-1: all), following links; raise `OSError` for others,
    without waiting for the writer of a pipe."""
    # With an opener, because `open` does not close a descriptor of a folder passed to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        return file.read(most)


def read_real(path: PurePath | str, most: int, *, inside: int | None = None) -> tuple[bytes, os.stat_result]:
    """Return at most the first `most` bytes of the regular file at `path`, a path as `open_folder` takes it, and its
    status before; raise `OSError` for others, and if a name in the path is a link."""
    with open_real(path, inside=inside) as file:
        status = os.fstat(file.fileno())
        return file.read(most), status


def _open_inside(place: int, name: str, create: bool) -> int:
    if name == "..":
        raise OSError(errno.EINVAL, "is not a real path")
    try:
        return os.open(name, FOLDER, dir_fd=place)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        stat_real(place, name)
        raise
    try:
        os.mkdir(name, dir_fd=place)
    except FileExistsError:
        pass
    return _open_inside(place, name, False)
