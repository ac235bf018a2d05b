"""Replace a file atomically.

Hold `locked_folder` to read, change and replace a file, so that no process of nexus loses the change of another.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nexus_cli.core.real_files import NEW, open_folder, open_listable, scan_folder, stat_at
from nexus_cli.core.version_memo import file_version
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError, read_file_at

_DRAFT = re.compile(r"\.nexus-[0-9a-f]{16}")
_STALE = 60.0
"""Seconds after which a temporary file is no longer in use."""
_WAIT = 10.0
"""Seconds to wait for another change in the same folder."""
_POLL = 0.005


@contextmanager
def locked_folder(folder: Path, stop: StopFlag, *, create: bool = False) -> Iterator[None]:
    """Lock `folder` (a real path) for changes of its files; with `create` make it first.

    The lock is on the folder itself: it leaves no file behind, and ends with its process. A folder that cannot be read,
    or that is on a file system without locks, is not locked: then only `replace_file` notices a change.
    Raises `ToolError` if another process holds the lock for `_WAIT` seconds, and `ThreadStopped`.
    """
    with ExitStack() as stack:
        handle = stack.enter_context(open_folder(folder, create=create))
        try:
            descriptor = stack.enter_context(open_listable(handle))
        except PermissionError:
            descriptor = -1
        end = time.monotonic() + _WAIT
        while descriptor >= 0 and not _take_lock(descriptor):
            stop.raise_if_pressed()
            if time.monotonic() > end:
                raise ToolError(f"{folder} has been locked by another change for {_WAIT:.0f} s: try again later")
            time.sleep(_POLL)
        yield


def _take_lock(descriptor: int) -> bool:
    """Return False while another process or thread has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # The file system cannot lock folders.
        return True
    return True


def is_draft(name: str) -> bool:
    """Return True for the name of a temporary file of `replace_file`, in use or left by a killed process."""
    return _DRAFT.fullmatch(name) is not None


def replace_file(path: Path, data: bytes, stop: StopFlag, *, expected: str | None) -> None:
    """Write `data` to a synced temporary file beside the real path `path`, and rename it. Follows no link.

    `expected` is the digest of the content to replace, None for a new file; raises `ToolError` if the file has another
    one just before the rename. An existing file keeps its mode and, if allowed, its owner. Temporary files that killed
    processes left in the folder are removed.
    Raises `OSError`, and `ThreadStopped` if cancelled before the rename; the file is unchanged then.
    """
    with open_folder(path.parent) as folder:
        _replace_at(folder, path.name, data, stop, expected)
        _sync_folder(folder)


def _replace_at(folder: int, name: str, data: bytes, stop: StopFlag, expected: str | None) -> None:
    try:
        old = stat_at(folder, name)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise ToolError("is not a regular file")
    if old is not None and not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(13, "is read-only")
    _remove_stale(folder)
    draft = f".nexus-{secrets.token_hex(8)}"
    descriptor = os.open(draft, NEW, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                _same_owner(file.fileno(), old)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        before = _file_state(folder, name)
        digest = read_file_at(folder, name).digest if before else None
        stop.raise_if_pressed()
        if digest != expected or _file_state(folder, name) != before:
            raise ToolError("changed on disk meanwhile: read it again")
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        # BaseException, to remove the temporary file on a keyboard interrupt too.
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


def _file_state(folder: int, name: str) -> tuple[int, ...]:
    """Return the `file_version` of a file, to notice a change; () if it does not exist."""
    try:
        return file_version(stat_at(folder, name))
    except FileNotFoundError:
        return ()


def _remove_stale(folder: int) -> None:
    """Remove the temporary files that killed processes of this user left in `folder`."""
    try:
        with scan_folder(folder) as entries:
            drafts = [entry.name for entry in entries if is_draft(entry.name)]
    except OSError:
        # A folder may be writable but not readable.
        return
    for name in drafts:
        try:
            status = stat_at(folder, name)
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if ours and time.time() - status.st_mtime > _STALE:
                os.unlink(name, dir_fd=folder)
        except OSError:
            continue


def _same_owner(descriptor: int, old: os.stat_result) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: int) -> None:
    # Some file systems cannot sync a folder, and some folders cannot be read; the rename is done in any case.
    with suppress(OSError), open_listable(folder) as descriptor:
        os.fsync(descriptor)
