"""Replaces a file in one step: the old content or the new, never a part. Which content is right is the caller's."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from nexus_cli.tools.files import Refused, read
from nexus_cli.tools.threads import Stop


def replace_file(path: Path, data: bytes, stop: Stop, *, expected: str | None) -> None:
    """Write `data` to `path` (links already resolved) through a synced temporary file in the same folder.

    `expected` is the digest of the content that is replaced, None for a file that must not exist yet; anything else
    found there at the last moment raises `Refused`. An existing file keeps mode and, where we may, owner. Raises
    `OSError`, and `Stopped` when cancelled before the rename; then nothing has changed.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise Refused("is no regular file")
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, "is read-only")
    draft = path.parent / f".nexus-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                _same_owner(file.fileno(), old)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        found = read(path).digest if os.path.lexists(path) else None
        if found != expected:
            raise Refused("changed on disk meanwhile: read it again")
        stop.check()
        os.replace(draft, path)
    except BaseException:
        # Also on a keyboard interrupt: the draft must not stay behind.
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _same_owner(descriptor: int, old: os.stat_result) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some file systems cannot sync a folder; the rename itself has happened.
        pass
    finally:
        os.close(descriptor)
