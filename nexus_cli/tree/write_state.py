"""Look at a path below an open folder, and give it another state: through no link, and never in place.

A path is reached by descriptors from its root, one folder after the other, each time anew. A new state is written to a
draft beside it, which is renamed if the path is still as it was seen; where nothing was seen, nothing is replaced. A
folder is made for its owner alone, and gets its rights last.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO

from nexus_cli.core.errors import reason_of
from nexus_cli.core.real_files import (
    NEW,
    READ,
    REPLACED,
    list_folder,
    open_folder,
    open_parent,
    open_regular,
    stat_at,
)
from nexus_cli.tree.blob_hash import HASHES, blob_hash
from nexus_cli.tree.byte_store import ByteStore, link_content
from nexus_cli.tree.file_state import (
    ABSENT,
    ABSENT_PRESENT_STATE,
    BLOCKED,
    FILE,
    FOLDER,
    GIT,
    LINK,
    PIPE,
    SHA256,
    FileState,
    PresentState,
)
from nexus_cli.tree.read_state import NO_LINKS, describe, is_attribute, make_stamp, read_attributes

_OWNER = "owner"
DRAFT_MODE = 0o700
"""Mode of a folder until all that belongs in it is there."""
LARGE = 5_000_000
"""Bytes from which a file that is replaced is kept by a hard link, if possible, and not copied."""
LONGEST_NAME = 255
"""Most bytes of a file name."""
_PIECE = 1 << 20
_FILLED = (errno.ENOTEMPTY, errno.EEXIST)
"""Errors of a folder that is not empty."""


class ChangedMeanwhileError(Exception):
    """The path is not as it was seen."""


def look_at(root: int, path: str, compared: Iterable[str], *, lists: bool = False) -> PresentState:
    """Return the present state of `path` below the open folder `root`, with the content of a file in the forms of
    `compared` (see `FileState.content`), and the names in a folder if it `lists` them. Raises `OSError` if it cannot be
    read."""
    try:
        with open_parent(path, inside=root) as (folder, name):
            status = stat_at(folder, name)
            state = describe(folder, name, status).state
            contents = frozenset[str]()
            if state.kind == FILE:
                contents = _read_contents(folder, name, status, compared)
            elif lists and state.kind == FOLDER:
                contents = frozenset(list_folder(name, inside=folder))
            return PresentState(state, contents, _stamp(status))
    except FileNotFoundError:
        return ABSENT_PRESENT_STATE
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        return PresentState(FileState(BLOCKED), blocker=_find_blocker(root, os.path.dirname(path)))


def keep_bytes(root: int, path: str, now: PresentState, store: ByteStore) -> tuple[str, PresentState]:
    """Put the bytes of a file that is about to be replaced into the store; return their content and the present state.

    A hard link changes the ctime, which is part of the state. Raises `ChangedMeanwhileError` if it is not as it was
    seen, and `OSError`.
    """
    content_now = next((content for content in now.contents if content.startswith(SHA256)), "")
    if store.holds(content_now):
        return content_now, now
    with open_parent(path, inside=root) as (folder, name):
        _check(folder, name, now)
        if now.state.size > LARGE:
            with suppress(OSError):
                content = store.link(folder, name, stat_at(folder, name))
                stamp = _stamp(stat_at(folder, name))
                if (*stamp[:3], *stamp[4:6]) != (*now.stamp[:3], *now.stamp[4:6]):
                    raise ChangedMeanwhileError
                return content, replace(now, stamp=stamp)
        with open_regular(folder, name) as file:
            if _stamp(os.fstat(file.fileno())) != now.stamp:
                raise ChangedMeanwhileError
            content = store.put(file, synced=False)
    if content != content_now:
        raise ChangedMeanwhileError
    return content, now


def write_state(
    root: int,
    path: str,
    state: FileState,
    now: PresentState | None,
    source: IO[bytes] | None,
    draft: str = "",
    twin: tuple[str, PresentState] | None = None,
    *,
    synced: bool = True,
) -> tuple[os.stat_result, list[str]]:
    """Make a file, a link or a pipe of `state` at `path`; return its status, and which rights were refused and why. It
    is made beside `path`, under the name `draft`.

    The bytes of a file are those of `source`; without one it is a hard link to the path and state `twin`, or gets its
    rights alone. Missing folders are made. With `synced` the bytes are on the disk on return. Raises
    `ChangedMeanwhileError` if the path is not as it was seen, and `OSError`. Without `now` whatever is there
    is replaced, but a folder.
    """
    refused: list[str] = []
    draft = draft or f".nexus-{secrets.token_hex(8)}"
    with open_parent(path, inside=root, create=True) as (folder, name):
        if now is not None and twin is None and source is None and state.kind == FILE:
            with _open_place(folder, name) as place:
                if _stamp(os.stat(place)) != now.stamp:
                    raise ChangedMeanwhileError
                refused = _set_rights(place, state)
                return os.stat(place), refused
        try:
            if state.kind == LINK:
                os.symlink(state.target, draft, dir_fd=folder)
                refused = _set_owner(draft, state, folder)
            elif twin is not None:
                _link_draft(root, twin[0], folder, draft, twin[1])
            elif state.kind == PIPE:
                os.mkfifo(draft, 0o600, dir_fd=folder)
                with _open_place(folder, draft) as place:
                    refused = _set_rights(place, state)
            else:
                owner = _read_owner(folder, name) if now is not None and now.kind == FILE and not state.owner else ""
                refused = _write_draft(folder, draft, replace(state, owner=state.owner or owner), source, synced)
                refused = refused if not owner else [reason for reason in refused if not reason.startswith(_OWNER)]
            if now is not None:
                _check(folder, name, now)
            _rename(folder, draft, name, is_new=now is not None and now.kind == ABSENT)
        finally:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
        return stat_at(folder, name), refused


def _link_draft(root: int, path: str, folder: int, draft: str, now: PresentState) -> None:
    """Make the draft a hard link to the file at `path`. Raises as `write_state`."""
    with open_parent(path, inside=root) as (beside, name):
        os.link(name, draft, src_dir_fd=beside, dst_dir_fd=folder, follow_symlinks=False)
    if _stamp(stat_at(folder, draft))[:3] != now.stamp[:3]:
        raise ChangedMeanwhileError


def make_folder(root: int, path: str) -> None:
    """Make the folder `path` for its owner alone, or `make_writable` the present one. Raises as `write_state`."""
    with open_parent(path, inside=root, create=True) as (folder, name), suppress(FileExistsError):
        os.mkdir(name, DRAFT_MODE, dir_fd=folder)
    make_writable(root, path)


def make_writable(root: int, path: str) -> None:
    """Make the folder `path` writable for its owner, if that user runs nexus. Raises as `write_state`."""
    with open_parent(path, inside=root) as (folder, name), _open_place(folder, name) as place:
        status = os.stat(place)
        if not stat.S_ISDIR(status.st_mode):
            raise ChangedMeanwhileError
        if ~status.st_mode & DRAFT_MODE and status.st_uid == os.geteuid():
            os.chmod(place, stat.S_IMODE(status.st_mode) | DRAFT_MODE)


def finish_folder(root: int, path: str, before: FileState, state: FileState) -> list[str]:
    """Give a folder of `make_folder` the rights of `state`; return those that were refused and why. Raises as
    `write_state`."""
    with open_parent(path, inside=root) as (folder, name), _open_place(folder, name) as place:
        status, modes = os.stat(place), {before.mode | DRAFT_MODE, state.mode | DRAFT_MODE}
        if before.kind != FOLDER:
            modes.add(status.st_mode & 0o7000 | DRAFT_MODE)
        loose = DRAFT_MODE | (0o070 if before.attributes or state.attributes else 0)  # as a killed process left it
        if not stat.S_ISDIR(status.st_mode) or stat.S_IMODE(status.st_mode) | loose not in {
            mode | loose for mode in modes
        }:
            raise ChangedMeanwhileError
        return _set_rights(place, state)


def remove_path(root: int, path: str, now: PresentState) -> None:
    """Remove what is not a folder. Raises as `write_state`."""
    with open_parent(path, inside=root) as (folder, name):
        _check(folder, name, now)
        os.unlink(name, dir_fd=folder)


def remove_folder(root: int, path: str) -> bool:
    """Remove the folder `path`; return False if something is in it, True if there is no folder. Raises `OSError`."""
    try:
        with open_parent(path, inside=root) as (folder, name):
            os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (*_FILLED, *REPLACED):
            raise
        return error.errno not in _FILLED
    return True


def remove_empty_folders(root: int, path: str, ending: str = "") -> None:
    """Remove the folders above `path` that are empty, up to the one whose name has the `ending`."""
    with suppress(OSError):
        while (path := os.path.dirname(path)) and ending in path and remove_folder(root, path):
            pass


def remove_draft(root: int, path: str, draft: str) -> None:
    """Remove a draft that a killed process left beside `path`."""
    with suppress(OSError), open_parent(path, inside=root) as (folder, _):
        os.unlink(draft, dir_fd=folder)


@contextmanager
def replace_locked(folder: int, name: str, mode: int = 0o600, *, removes: bool = False) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `name` in an open folder of git when the block ends; with `removes` both go.

    It has the name by which git locks the other. Raises `OSError`, also while git has the lock.
    """
    lock = f"{name}.lock"
    with open(os.open(lock, NEW, mode, dir_fd=folder), "wb") as file:
        try:
            yield file
            file.flush()
            if removes:
                os.unlink(name, dir_fd=folder)
                os.unlink(lock, dir_fd=folder)
            else:
                os.replace(lock, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(lock, dir_fd=folder)
            raise


@contextmanager
def _open_place(folder: int, name: str) -> Iterator[str | int]:
    """Yield a path for `os` to the file that is at `name` now, whatever is there later. No link is followed."""
    descriptor = os.open(name, READ | getattr(os, "O_PATH", 0), dir_fd=folder)
    try:
        yield f"/proc/self/fd/{descriptor}" if hasattr(os, "O_PATH") else descriptor
    finally:
        os.close(descriptor)


def _read_contents(folder: int, name: str, status: os.stat_result, compared: Iterable[str]) -> frozenset[str]:
    """Return the content of a file in all forms; none if it may not be read."""
    lengths = {len(content) - len(GIT) for content in compared if content.startswith(GIT)}
    blobs = [blob_hash(status.st_size, length) for length in lengths if length in HASHES]
    plain = hashlib.sha256()
    try:
        with open_regular(folder, name) as file:
            opened = os.fstat(file.fileno())
            while piece := file.read(_PIECE):
                plain.update(piece)
                for blob in blobs:
                    blob.update(piece)
            linked = link_content(file, status)
            if not _stamp(status) == _stamp(opened) == _stamp(os.fstat(file.fileno())):
                raise OSError(errno.EBUSY, "it is being changed")
    except PermissionError:
        return frozenset()
    return frozenset((linked, f"{SHA256}{plain.hexdigest()}", *(f"{GIT}{blob.hexdigest()}" for blob in blobs)))


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


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return *make_stamp(status), status.st_dev, status.st_nlink


def _check(folder: int, name: str, now: PresentState) -> None:
    """Raise `ChangedMeanwhileError` unless `name` is as it was seen."""
    try:
        stamp = _stamp(stat_at(folder, name))
    except FileNotFoundError:
        stamp = ()
    if stamp != now.stamp:
        raise ChangedMeanwhileError


def _read_owner(folder: int, name: str) -> str:
    """Return the owner of a file that an ordinary user replaces, who restores it as far as that is allowed."""
    with suppress(OSError):
        if os.geteuid():
            status = stat_at(folder, name)
            return f"{status.st_uid}:{status.st_gid}"
    return ""


def _write_draft(folder: int, draft: str, state: FileState, source: IO[bytes] | None, synced: bool) -> list[str]:
    """Write a file; return as `_set_rights`."""
    with open(os.open(draft, NEW, 0o600, dir_fd=folder), "wb") as file:
        if source is not None:
            shutil.copyfileobj(source, file, _PIECE)
        file.flush()
        refused = _set_rights(file.fileno(), state)
        if synced:
            os.fsync(file.fileno())
    return refused


def _set_rights(place: str | int, state: FileState) -> list[str]:
    """Give an open path owner, attributes and mode, in this order; return which were refused and why.

    Another owner gets no rights of this one: without the owner the mode is set without setuid and setgid.
    """
    owner = _set_owner(place, state)
    attributes = _set_attributes(place, dict(state.attributes))
    os.chmod(place, state.mode & 0o777 if owner else state.mode)
    return owner + attributes


def _set_owner(place: str | int, state: FileState, folder: int | None = None) -> list[str]:
    """Set the owner, without one that of root if that runs nexus; return why not. `folder` is that of a link."""
    owner = state.owner or ("0:0" if os.geteuid() == 0 else "")
    if owner:
        try:
            user, group = map(int, owner.split(":"))
            if folder is None:
                status = os.stat(place)
                if (user, group) != (status.st_uid, status.st_gid):
                    os.chown(place, user, group)
            else:
                os.chown(place, user, group, dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError) as error:
            return [_explain(_OWNER, error)]
    return []


def _set_attributes(place: str | int, attributes: dict[str, str]) -> list[str]:
    """Set the extended attributes, and remove others that undo restores; return why not."""
    present = dict(read_attributes(place))
    try:
        for name in present.keys() - attributes.keys():
            os.removexattr(place, name)
        for name in filter(is_attribute, sorted(attributes)):
            if present.get(name) != attributes[name]:
                os.setxattr(place, name, base64.b64decode(attributes[name]))
    except (OSError, ValueError, AttributeError) as error:
        return [_explain("attributes", error)]
    return []


def _explain(subject: str, error: Exception) -> str:
    return f"{subject} ({reason_of(error)})".lower()


def _rename(folder: int, draft: str, name: str, *, is_new: bool) -> None:
    """Rename the draft to `name`; if that `is_new`, never over a file that appeared meanwhile."""
    if is_new:
        try:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except FileExistsError:
            raise ChangedMeanwhileError from None
        except OSError as error:
            if error.errno not in NO_LINKS:
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
        candidate = os.fsdecode(short + tail)
        place = f"{parent}/{candidate}" if parent else candidate
        try:
            with open_folder(parent, inside=root) as folder:
                stat_at(folder, candidate)
        except FileNotFoundError:
            return place
        number += 1
