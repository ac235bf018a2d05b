"""Look at a path below an open folder, and give it another state: through no link, and never in place.

A path is reached by descriptors from its root, one folder after the other, each time anew. A new state is written to a
draft beside it, which is renamed if the path is still as it was seen; where nothing was seen, nothing is replaced.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import IO

from nexus_cli.core.real_files import NEW, open_at, open_folder, open_regular
from nexus_cli.undo.byte_store import ByteStore, link_content
from nexus_cli.undo.plan_restore import BLOCKED, PresentState
from nexus_cli.undo.read_content import HASHES, blob_hash
from nexus_cli.undo.records import ABSENT, FILE, FOLDER, GIT, LINK, SHA256, SPECIAL, FileState

LARGE = 5_000_000
"""Bytes from which a file that is replaced is kept by a hard link, if possible, and not copied."""
LONGEST_NAME = 255
"""Most bytes of a file name."""
_PIECE = 1 << 20
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}


class ChangedMeanwhileError(Exception):
    """The path is not as it was seen."""


def look_at(root: int, path: str, wanted: Iterable[str]) -> PresentState:
    """Return the present state of `path` below the open folder `root`, with the content of a file in the forms of
    `wanted` (see `FileState.content`). Raises `OSError` if it cannot be read."""
    parent, _, name = path.rpartition("/")
    try:
        with open_folder(parent, inside=root) as folder:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                return _look_at_file(folder, name, about, wanted)
            if stat.S_ISLNK(about.st_mode):
                return PresentState(LINK, target=os.readlink(name, dir_fd=folder), stamp=_stamp(about))
            return PresentState(FOLDER if stat.S_ISDIR(about.st_mode) else SPECIAL, stamp=_stamp(about))
    except FileNotFoundError:
        return PresentState(ABSENT)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        return PresentState(BLOCKED, blocker=_find_blocker(root, parent))


def keep_bytes(root: int, path: str, now: PresentState, store: ByteStore) -> tuple[str, PresentState]:
    """Put the bytes of a file that is about to be replaced into the store; return their content and the present state.

    A hard link changes the ctime, which is part of the state. Raises `ChangedMeanwhileError` if it is not as it was
    seen, and `OSError`.
    """
    known = next((content for content in now.contents if content.startswith(SHA256)), "")
    if store.holds(known):
        return known, now
    parent, _, name = path.rpartition("/")
    with open_folder(parent, inside=root) as folder:
        _check(folder, name, now)
        if now.size > LARGE:
            with suppress(OSError):
                content = store.link(folder, name, os.stat(name, dir_fd=folder, follow_symlinks=False))
                stamp = _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))
                if (*stamp[:3], stamp[4]) != (*now.stamp[:3], now.stamp[4]):
                    raise ChangedMeanwhileError
                return content, replace(now, stamp=stamp)
        with open_regular(folder, name) as file:
            if _stamp(os.fstat(file.fileno())) != now.stamp:
                raise ChangedMeanwhileError
            content = store.put(file, synced=False)
    if content != known:
        raise ChangedMeanwhileError
    return content, now


def write_state(
    root: int,
    path: str,
    state: FileState,
    now: PresentState,
    source: IO[bytes] | None,
    draft: str,
    *,
    synced: bool = True,
) -> os.stat_result:
    """Make a file or a link of `state` at `path`; the bytes of a file are those of `source`. Return its status.

    Missing folders are made. With `synced` the bytes are on the disk on return. Raises `ChangedMeanwhileError` if the
    path is not as it was seen, and `OSError`.
    """
    parent, _, name = path.rpartition("/")
    with open_folder(parent, inside=root, create=True) as folder:
        try:
            if state.kind == LINK:
                os.symlink(state.target, draft, dir_fd=folder)
            else:
                _write_draft(folder, draft, state, source, _read_owner(folder, name), synced)
            _check(folder, name, now)
            _rename(folder, draft, name, is_new=now.kind == ABSENT)
        finally:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def remove_path(root: int, path: str, now: PresentState) -> None:
    """Remove a file or a link, and the folders above it that become empty. Raises as `write_state`."""
    parent, _, name = path.rpartition("/")
    with open_folder(parent, inside=root) as folder:
        _check(folder, name, now)
        os.unlink(name, dir_fd=folder)
    remove_empty_folders(root, path)


def remove_empty_folder(root: int, path: str) -> None:
    """Remove the folder `path` if it is empty."""
    parent, _, name = path.rpartition("/")
    with suppress(OSError), open_folder(parent, inside=root) as folder:
        os.rmdir(name, dir_fd=folder)


def remove_empty_folders(root: int, path: str) -> None:
    """Remove the folders above `path` that are empty, from the inside out; one that is gone already does not count."""
    parent = path.rpartition("/")[0]
    while parent:
        above, _, last = parent.rpartition("/")
        try:
            with open_folder(above, inside=root) as folder:
                os.rmdir(last, dir_fd=folder)
        except FileNotFoundError:
            pass
        except OSError:
            return
        parent = above


def remove_draft(root: int, path: str, draft: str) -> None:
    """Remove a draft that a killed process left beside `path`."""
    with suppress(OSError), open_folder(path.rpartition("/")[0], inside=root) as folder:
        os.unlink(draft, dir_fd=folder)


def _look_at_file(folder: int, name: str, about: os.stat_result, wanted: Iterable[str]) -> PresentState:
    """Return the state of a file; without contents if it may not be read."""
    found = set()
    lengths = {len(content) - len(GIT) for content in wanted if content.startswith(GIT)}
    blobs = [blob_hash(about.st_size, length) for length in lengths if length in HASHES]
    plain = hashlib.sha256()
    try:
        with open(open_at(folder, name), "rb") as file:
            opened = os.fstat(file.fileno())
            while (piece := file.read(_PIECE)) if stat.S_ISREG(opened.st_mode) else b"":
                plain.update(piece)
                for blob in blobs:
                    blob.update(piece)
            found.add(link_content(file, about))
            if not _stamp(about) == _stamp(opened) == _stamp(os.fstat(file.fileno())):
                raise OSError(errno.EBUSY, "it is being changed")
        found |= {f"{SHA256}{plain.hexdigest()}", *(f"{GIT}{blob.hexdigest()}" for blob in blobs)}
    except PermissionError:
        found = set()
    return PresentState(FILE, stat.S_IMODE(about.st_mode), frozenset(found), about.st_size, stamp=_stamp(about))


def _find_blocker(root: int, parent: str) -> str:
    """Return the first path on the way to `parent` that is no folder."""
    parts = parent.split("/")
    for count in range(1, len(parts) + 1):
        try:
            with open_folder("/".join(parts[:count]), inside=root):
                continue
        except OSError:
            return "/".join(parts[:count])
    return parent


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_mode


def _check(folder: int, name: str, now: PresentState) -> None:
    """Raise `ChangedMeanwhileError` unless `name` is as it was seen."""
    try:
        stamp = _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        stamp = ()
    if stamp != now.stamp:
        raise ChangedMeanwhileError


def _read_owner(folder: int, name: str) -> tuple[int, int] | None:
    with suppress(OSError):
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(about.st_mode):
            return about.st_uid, about.st_gid
    return None


def _write_draft(
    folder: int, draft: str, state: FileState, source: IO[bytes] | None, owner: tuple[int, int] | None, synced: bool
) -> None:
    with open(os.open(draft, NEW, 0o600, dir_fd=folder), "wb") as file:
        if source is not None:
            shutil.copyfileobj(source, file, _PIECE)
        file.flush()
        mode = state.mode
        if owner is not None and owner != (os.geteuid(), os.getegid()):
            try:
                os.fchown(file.fileno(), *owner)
            except PermissionError:
                mode &= 0o777  # another owner gets no rights of this one
        os.fchmod(file.fileno(), mode)
        if synced:
            os.fsync(file.fileno())


def _rename(folder: int, draft: str, name: str, *, is_new: bool) -> None:
    """Rename the draft to `name`; if that `is_new`, never over a file that appeared meanwhile."""
    if is_new:
        try:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except FileExistsError:
            raise ChangedMeanwhileError from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def free_name(root: int, path: str, ending: str) -> str:
    """Return `path` with `ending`, and a number if that is there already; a long name is shortened."""
    parent, _, name = path.rpartition("/")
    number = 1
    while True:
        tail = os.fsencode(ending if number == 1 else f"{ending}-{number}")
        short = os.fsencode(name)
        if len(short) + len(tail) > LONGEST_NAME:
            short = short[: LONGEST_NAME - len(tail)].decode("utf-8", "ignore").encode()
        found = os.fsdecode(short + tail)
        place = f"{parent}/{found}" if parent else found
        try:
            with open_folder(parent, inside=root) as folder:
                os.stat(found, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return place
        number += 1
