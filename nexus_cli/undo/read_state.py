"""Read the state of single paths below a root, through descriptors, following no link, and keep the bytes of files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nexus_cli.core.real_files import READ, FolderChain, open_folder
from nexus_cli.undo.byte_store import ByteStore
from nexus_cli.undo.records import ABSENT, FILE, GIT, LINK, FileState

MOST_COPIED = 5_000_000
"""Most bytes of a file that is copied; a larger one is kept by a hard link, and copied only where none is possible."""
MOST_COPIED_AT_ONCE = 100_000_000
"""Most bytes that one look copies; further files are kept by hard links."""
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)
"""Errors of a file system that cannot link a file to the store."""
MOST_SYNCED = 50
"""Most copies of one look that are synced one by one: for thousands that would take seconds."""
_RACY = 50_000_000
"""Nanoseconds after a change within which the clock of the file system may hide another one."""
Stamp = tuple[int, int, int, int, int]
"""Size, mtime (ns), inode, ctime (ns) and mode. A file with the same stamp is unchanged."""
GONE = FileState(ABSENT)
_NO_STAMP = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a path, and the stamp of its file."""

    state: FileState
    stamp: Stamp
    is_settled: bool = True
    """False if the file has to be read again even if its stamp is the same: it had just changed, or was not read."""


NOTHING = Seen(GONE, _NO_STAMP)
"""The state of a path without a file or link."""


class StateReader:
    """Reads states below the folder `root`; a context manager. Raises `OSError` only on entry."""

    def __init__(self, root: Path, store: ByteStore | None, seconds: float) -> None:
        """Without a `store` no bytes are kept: a change is seen by the stamp alone. After `seconds` files are only
        linked, after twice as long neither."""
        self._root = root
        self._store = store
        self._left = MOST_COPIED_AT_ONCE
        self._copies = 0
        self.repositories: list[str] = []
        """Folders with a `.git` that `list_below` came by."""
        self._end = time.monotonic() + seconds
        self._last_link = self._end + seconds

    def __enter__(self) -> StateReader:
        self._folder = open_folder(self._root)
        self._chain = FolderChain(self._folder.__enter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._chain.forget()
        self._folder.__exit__(None, None, None)

    def read(self, path: str, known: Seen | None = None, oid: str = "") -> Seen:
        """Return the state of `path`, that of `known` if its stamp is; `NOTHING` but for files and links."""
        parent, _, name = path.rpartition("/")
        try:
            folder = self._chain.open(parent)
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError):
            return NOTHING
        stamp = make_stamp(about)
        if known is not None and known.is_settled and known.stamp == stamp:
            return known
        if stat.S_ISLNK(about.st_mode):
            target = ""
            with suppress(OSError):
                target = os.readlink(name, dir_fd=folder)
            return Seen(FileState(LINK, target=target), stamp)
        if not stat.S_ISREG(about.st_mode):
            return NOTHING
        return self._read_file(folder, name, about, oid)

    def _read_file(self, folder: int, name: str, about: os.stat_result, oid: str) -> Seen:
        content = ""
        for _ in range(2):  # again if it grew meanwhile
            now = about
            with suppress(OSError, ValueError):
                content = self._keep(folder, name, about, oid)
            try:
                now = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                return NOTHING
            if (now.st_size, now.st_mtime_ns, now.st_ino) == (about.st_size, about.st_mtime_ns, about.st_ino):
                break
            about = now
        state = FileState(FILE, stat.S_IMODE(now.st_mode), content, now.st_size)
        is_settled = time.time_ns() - max(now.st_mtime_ns, now.st_ctime_ns) > _RACY
        return Seen(state, make_stamp(now), is_settled and not self.is_late)

    @property
    def is_late(self) -> bool:
        """True if the time is over."""
        return time.monotonic() > self._end

    def _keep(self, folder: int, name: str, about: os.stat_result, oid: str) -> str:
        """Keep the bytes of a file and return their content. Raises `OSError`, or `ValueError` if it grows."""
        if self._store is None or time.monotonic() > self._last_link:
            return ""
        size = about.st_size
        if self.is_late:
            return self._store.link(folder, name, about)
        if size > MOST_COPIED and not oid:
            return self._link(self._store, folder, name, about)
        with open(os.open(name, READ, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            if oid and _hash_blob(file, size, oid) == oid:
                return f"{GIT}{oid}"
            if size > min(MOST_COPIED, self._left):
                return self._link(self._store, folder, name, about)
            file.seek(0)
            return self._copy(self._store, file, size)

    def _link(self, store: ByteStore, folder: int, name: str, about: os.stat_result) -> str:
        """Link a large file, or copy it if the file system cannot."""
        try:
            return store.link(folder, name, about)
        except OSError as error:
            if error.errno not in _NO_LINKS or about.st_size > self._left:
                raise
        with open(os.open(name, READ, dir_fd=folder), "rb") as file:
            return self._copy(store, file, about.st_size)

    def _copy(self, store: ByteStore, file: IO[bytes], size: int) -> str:
        self._left -= size
        self._copies += 1
        return store.put(file, synced=self._copies <= MOST_SYNCED, most=max(size, MOST_COPIED))

    def list_below(self, path: str, skips: frozenset[str], most: int, skipped: set[str]) -> Iterator[str]:
        """Yield the files and links below the folder `path` ("": the root), at most `most`, following no link.

        Folders with a folded name of `skips`, and those that may not be read, are left out and added to `skipped`;
        repositories in `.git` are left out too.
        """
        waiting, count = [path], 0
        while waiting:
            folder = waiting.pop()
            try:
                handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._chain.open(folder))
            except (OSError, ValueError) as error:
                if isinstance(error, PermissionError):
                    skipped.add(folder)
                continue
            try:
                with os.scandir(handle) as entries:
                    for entry in entries:
                        inner = f"{folder}/{entry.name}" if folder else entry.name
                        name = entry.name.lower()
                        if name == ".git":
                            self.repositories.append(folder)
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            if name in skips:
                                skipped.add(inner)
                            else:
                                waiting.append(inner)
                        else:
                            count += 1
                            if count > most:
                                return
                            yield inner
            except OSError:
                continue
            finally:
                os.close(handle)


def make_stamp(about: os.stat_result) -> Stamp:
    """Return the stamp of a status."""
    return about.st_size, about.st_mtime_ns, about.st_ino, about.st_ctime_ns, about.st_mode


def _hash_blob(file: IO[bytes], size: int, oid: str) -> str:
    """Return git's name for a file of `size` bytes as a blob, in the format of `oid`."""
    digest = hashlib.new("sha1" if len(oid) == 40 else "sha256", b"blob %d\0" % size)
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)
        digest.update(piece)
    return digest.hexdigest()
