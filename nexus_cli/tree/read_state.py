"""Read the states of paths below a root, through descriptors, following no link, and keep the bytes of files."""

from __future__ import annotations

import base64
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from nexus_cli.core.real_files import FolderChain, open_folder, open_regular, stat_at
from nexus_cli.tree.blob_hash import hash_blob
from nexus_cli.tree.byte_store import ByteStore, link_content
from nexus_cli.tree.file_state import ABSENT_STATE, FILE, FOLDER, GIT, HARD_LINK, LINK, PIPE, SPECIAL, FileState

MAX_COPIED = 200_000_000
"""Most bytes of a file that is copied; a larger one is kept by a hard link. `undo.max_file_mb` sets another bound for
looks."""
MAX_COPIED_AT_ONCE = 250_000_000
"""Most bytes that one look copies; further files are kept by hard links."""
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a file system that cannot link a file to the store."""
MAX_SYNCED = 50
"""Most copies of one look that are synced one by one: for thousands that would take seconds."""
RACY = 50_000_000
"""Nanoseconds after a change within which the clock of the file system may hide another one."""
Stamp = tuple[int, int, int, int, int]
"""Size, mtime (ns), inode, ctime (ns) and mode. A file with the same stamp is unchanged."""


KINDS = {stat.S_IFREG: FILE, stat.S_IFLNK: LINK, stat.S_IFDIR: FOLDER, stat.S_IFIFO: PIPE}
_ACCESS = ("system.posix_acl_access", "system.posix_acl_default")


@dataclass(frozen=True, slots=True)
class StampedState:
    """The state of a path, and the stamp of its file."""

    state: FileState
    stamp: Stamp
    is_settled: bool = True
    """False if the file has to be read again even if its stamp is the same: it had just changed, or was not read."""

    @property
    def is_late(self) -> bool:
        """True if the bytes are kept by a hard link alone, because the time to copy them was over."""
        return not self.is_settled and self.state.content.startswith(HARD_LINK)


NOTHING = StampedState(ABSENT_STATE, (0, 0, 0, 0, 0))
"""The state of a path without a file or link."""


@contextmanager
def open_states(
    root: str | os.PathLike[str], store: ByteStore | None, seconds: float, most: int = MAX_COPIED
) -> Iterator[StateReader]:
    """Yield a reader of the states below the folder `root`. Raises `OSError` if that cannot be opened."""
    with open_folder(os.fspath(root)) as folder:
        reader = StateReader(folder, store, seconds, most)
        try:
            yield reader
        finally:
            reader.chain.forget()


class StateReader:
    """Reads states below an open folder, and keeps the bytes of files."""

    def __init__(self, root: int, store: ByteStore | None, seconds: float, most: int) -> None:
        """Without a `store` no bytes are kept: a change is seen by the stamp alone. After `seconds` files are only
        linked, after twice as long neither. A file of more than `most` bytes is not copied."""
        self.chain = FolderChain(root)
        self._store = store
        self._most = most
        self._copy_allowance = max(MAX_COPIED_AT_ONCE, most)
        self._copies = 0
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Count the seconds from now on."""
        self._end = time.monotonic() + self._seconds
        self._last_link = self._end + self._seconds

    def read(self, path: str, earlier: StampedState | None = None) -> StampedState:
        """Return the state of `path`, that of `earlier` if its stamp is; `NOTHING` if nothing is there."""
        parent, _, name = path.rpartition("/")
        try:
            folder = self.chain.open(parent)
            status = stat_at(folder, name)
            stamp = make_stamp(status)
            if earlier is not None and earlier.is_settled and earlier.stamp == stamp:
                return earlier
            if not stat.S_ISREG(status.st_mode):
                return describe(folder, name, status)
            return self.complete(path, describe(folder, name, status), earlier)
        except (OSError, ValueError):
            return NOTHING

    def complete(
        self, path: str, record: StampedState, earlier: StampedState | None = None, oid: str = ""
    ) -> StampedState:
        """Keep the bytes of a file that was just looked at, and return its state; `NOTHING` if it is gone.

        `earlier` is its earlier state, `oid` the blob that it probably equals. A file that there is no time to read
        keeps its earlier content if size, time and inode are unchanged: nothing shows a change.
        """
        parent, _, name = path.rpartition("/")
        earlier = earlier or NOTHING
        is_late = self.is_late
        is_unread = (is_late or record.state.size > self._copy_allowance) and record.state.size <= self._most
        if is_unread and earlier.state.content and earlier.stamp[:3] == record.stamp[:3]:
            return StampedState(replace(record.state, content=earlier.state.content), record.stamp, is_settled=False)
        if time.monotonic() > self._last_link:
            return StampedState(record.state, record.stamp, is_settled=False)
        is_whole = False
        for _ in range(2):  # again if it grew meanwhile
            content = ""
            try:
                folder = self.chain.open(parent)
                with suppress(OSError, ValueError):
                    content = self._keep(folder, name, record.stamp, earlier.state.content, oid, is_late)
                status = stat_at(folder, name)
                new, old = make_stamp(status), record.stamp
                record = record if new == old else describe(folder, name, status)
            except (OSError, ValueError):
                return NOTHING
            if is_whole := new[:3] == old[:3]:  # the rest changes with a hard link
                break
        if record.state.kind != FILE:
            return record
        is_settled = is_whole and record.is_settled and not is_unread
        return StampedState(replace(record.state, content=content), record.stamp, is_settled)

    @property
    def is_late(self) -> bool:
        """True if the time is over."""
        return time.monotonic() > self._end

    def _keep(self, folder: int, name: str, stamp: Stamp, earlier: str, oid: str, is_late: bool) -> str:
        """Keep the bytes of a file and return their content. Raises `OSError`, or `ValueError` if it grows."""
        if self._store is None:
            return ""
        size, oid = stamp[0], earlier.removeprefix(GIT) if earlier.startswith(GIT) else oid
        is_small = size <= min(self._most, self._copy_allowance) and not is_late
        with open_regular(folder, name) as file:
            status = os.fstat(file.fileno())
            if status.st_size != size:
                raise ValueError("the file has grown")
            if earlier.startswith(HARD_LINK) and link_content(file, status) == earlier and self._store.holds(earlier):
                return earlier
            if oid and not is_late and hash_blob(file, size, len(oid)) == oid:
                return f"{GIT}{oid}"
            if not is_small:
                try:
                    return self._store.link(folder, name, status)
                except OSError as error:
                    if error.errno not in NO_LINKS or size > min(self._most, self._copy_allowance):
                        raise
            file.seek(0)
            self._copy_allowance -= size
            self._copies += 1
            return self._store.put(file, synced=self._copies <= MAX_SYNCED, most=size)


def describe(folder: int, name: str, status: os.stat_result) -> StampedState:
    """Return the state of what is at `name` of an open folder, of the status `status`; that of a file without content.

    Raises `OSError` if a link cannot be read.
    """
    kind = KINDS.get(stat.S_IFMT(status.st_mode), SPECIAL)
    is_settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > RACY
    owner = f"{status.st_uid}:{status.st_gid}" if os.geteuid() == 0 and (status.st_uid or status.st_gid) else ""
    if kind == LINK:
        state = FileState(LINK, target=os.readlink(name, dir_fd=folder), owner=owner)
        return StampedState(state, make_stamp(status), is_settled)
    size = status.st_size if kind == FILE else 0
    has_some = kind in (FILE, FOLDER)
    attributes = read_attributes(f"/proc/self/fd/{folder}/{name}", follow_symlinks=False) if has_some else ()
    state = FileState(kind, stat.S_IMODE(status.st_mode), size=size, owner=owner, attributes=attributes)
    return StampedState(state, make_stamp(status), is_settled)


def is_attribute(name: str) -> bool:
    """Return True if an undo restores the extended attribute: one of users, or an access list."""
    return name.startswith("user.") or name in _ACCESS


def read_attributes(place: str | int, *, follow_symlinks: bool = True) -> tuple[tuple[str, str], ...]:
    """Return the extended attributes at `place` that an undo restores; () if none can be read."""
    attributes = []
    if sys.platform == "linux":
        with suppress(OSError):
            for name in os.listxattr(place, follow_symlinks=follow_symlinks):
                if is_attribute(name):
                    value = os.getxattr(place, name, follow_symlinks=follow_symlinks)
                    attributes.append((name, base64.b64encode(value).decode("ascii")))
    return tuple(sorted(attributes))


def make_stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a status."""
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns, status.st_mode
