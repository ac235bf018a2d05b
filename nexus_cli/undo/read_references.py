"""Read the references of a repository, and the files in which git keeps what goes on: HEAD, branches, tags, the stash,
the index, a merge or rebase that is not ended, settings, hooks.

All is read through descriptors, following no link; git is not run. What a turn changed in them is known by comparing
two states. The bytes of the files are kept, so that undo has those before and redo those after.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nexus_cli.config.worktree_record import REFERENCE
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import open_folder, open_real, read_regular, scan_folder, stat_at, walk_below
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import SHA256
from nexus_cli.tree.index_entries import read_index
from nexus_cli.tree.read_state import RACY, Stamp, make_stamp
from nexus_cli.undo.plan_references import REFS, SYMBOLIC, is_shared
from nexus_cli.undo.records import GIT_FOLDER, HEAD, MODE
from nexus_cli.undo.repository_copy import GitFolders

INDEX, STASH_LOG, PACKED = "index", "logs/refs/stash", "packed-refs"
_FOLDERS = frozenset({"refs", "rebase-merge", "rebase-apply", "sequencer", "hooks", "info"})
_FILES = re.compile(
    r"HEAD|index|config(\.worktree)?|packed-refs|shallow|(?!FETCH)[A-Z_]+_HEAD|MERGE_(MSG|MODE|RR|AUTOSTASH)"
    r"|SQUASH_MSG|AUTO_MERGE|BISECT_[A-Z_]+"
)
"""Names of files directly in git's folder."""
_PASSING = re.compile(r".*\.lock|hooks/.*\.sample|info/refs", re.DOTALL)
_PACKED_ROW = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs(?:/[^/.][^/]*)+)")
_MAX_PACKED = 64 << 20
_MAX_KEPT = 64 << 20
"""Most bytes of files that are kept of one repository."""
_MAX_FILES = 50_000
"""Most files that are read of one repository."""
_MAX_REFERENCE = 5000
_KINDS = {"heads": "branch", "remotes": "branch", "tags": "tag", "notes": "notes"}
"""Words for references by the folder that they are in."""


@dataclass
class RepositoryState:
    """A repository at one moment."""

    folders: GitFolders
    values: dict[str, str] = field(default_factory=dict)
    """By name: of a reference a commit or `ref: NAME`, of a file its content in the byte store."""
    stamps: dict[str, Stamp] = field(default_factory=dict)
    """By path: of the files that were read."""
    packed: dict[str, str] = field(default_factory=dict)
    """The references in `packed-refs`."""
    log: int = 0
    """Bytes of HEAD's reflog."""
    at: int = 0
    """When it was read (ns)."""
    is_whole: bool = True
    """False if it has no object yet, or no HEAD that can be read."""


def read_state(folders: GitFolders, store: ByteStore, earlier: RepositoryState | None = None) -> RepositoryState:
    """Read a repository, files that changed since `earlier` alone, and keep the bytes of files. Blocks.

    Raises `OSError`.
    """
    state = RepositoryState(folders, at=time.time_ns())
    earlier, remaining = earlier or RepositoryState(folders), _MAX_KEPT
    for base in dict.fromkeys((folders.common, folders.git_dir)):
        with open_folder(base) as handle:
            for path, status in _list_files(handle):
                if folders.common != folders.git_dir and is_shared(path) != (base == folders.common):
                    continue
                stamp = state.stamps[path] = make_stamp(status)
                if len(state.stamps) > _MAX_FILES:
                    raise OSError(errno.E2BIG, f"it has more than {_MAX_FILES:,} references")
                remaining -= 0 if is_reference(path) else status.st_size
                is_same = earlier.stamps.get(path) == stamp and status.st_ctime_ns + RACY < earlier.at
                with suppress(OSError, ValueError):
                    if path == PACKED:
                        state.packed = earlier.packed if is_same else read_packed(handle)
                    elif is_same and path in earlier.values:
                        state.values[path] = earlier.values[path]
                    elif remaining < 0:
                        state.values[path] = f"size:{status.st_size}-{status.st_mtime_ns}"
                    elif value := _read_value(handle, path, status, store):
                        state.values[path] = value
            with suppress(OSError), open_folder("logs", inside=handle) as folder:
                state.log = stat_at(folder, HEAD).st_size
    state.values = state.packed | state.values
    return state


def _list_files(git_dir: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files that are followed in a folder of git, with their status."""
    with scan_folder(git_dir) as entries:
        for entry in entries:
            if _FILES.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False)
            elif entry.name in _FOLDERS:
                with suppress(OSError), open_folder(entry.name, inside=git_dir) as folder:
                    for path, below in walk_below(folder):
                        place = f"{entry.name}/{path}"
                        if below.is_file(follow_symlinks=False) and not _PASSING.fullmatch(place):
                            yield place, below.stat(follow_symlinks=False)
    with suppress(OSError), open_folder("logs/refs", inside=git_dir) as folder:
        status = stat_at(folder, "stash")
        if stat.S_ISREG(status.st_mode):
            yield STASH_LOG, status


def _read_value(git_dir: int, path: str, status: os.stat_result, store: ByteStore) -> str:
    """Return the value of a reference or a file, "" of what is none. Raises `OSError`, `ValueError`."""
    if is_reference(path):
        match = REFERENCE.fullmatch(read_regular(path, _MAX_REFERENCE, inside=git_dir))
        return os.fsdecode(match[2] or os.fsencode(SYMBOLIC) + match[1]) if match else ""
    with open_real(path, inside=git_dir) as file:
        return store.put(file, synced=False, most=status.st_size) + f"{MODE}{stat.S_IMODE(status.st_mode):o}"


def is_reference(name: str) -> bool:
    """Return True for a reference that git writes itself, False for a file of git's folder."""
    return name == HEAD or name.startswith(REFS)


def read_packed(git_dir: int) -> dict[str, str]:
    """Return the references in `packed-refs` of an open folder of git."""
    with suppress(OSError):
        rows = map(_PACKED_ROW.fullmatch, read_regular(PACKED, _MAX_PACKED, inside=git_dir).splitlines())
        return {os.fsdecode(row[2]): row[1].decode() for row in rows if row}
    return {}


def is_same_value(store: ByteStore, name: str, one: str, other: str) -> bool:
    """Return True if two values are the same: of the index the same entries, whatever git noted of the files' times."""
    if one == other or name != INDEX:
        return one == other
    return list_index(one, store) == list_index(other, store)


def list_index(value: str, store: ByteStore) -> list[tuple[str, int, str, bytes]]:
    """Return path, mode, blob and flags of the entries of an index that is kept; its value alone if it cannot be
    read."""
    data = read_kept(value, store) or b""
    length = 32 if hashlib.sha256(data[:-32]).digest() == data[-32:] else 20
    with suppress(ValueError, IndexError):
        return [(path, entry.mode, entry.oid, entry.flags) for path, entry in read_index(data, length)]
    return [("", 0, value, b"")]


def read_kept(value: str, store: ByteStore) -> bytes | None:
    """Return the bytes of a file by its value, None if they are not kept."""
    with suppress(OSError):
        if value.startswith(SHA256):
            with store.open(value.partition(MODE)[0]) as file:
                return file.read()
    return None


def name_references(rows: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Return references by the name that a person knows them by, other files of git's folder by their path in it; the
    list of stashes goes with the newest."""
    by_name: dict[str, JsonObject] = {}
    for row in rows:
        kind, _, short_name = row["name"].removeprefix("logs/").removeprefix("refs/").partition("/")
        plain_name = kind if is_reference(row["name"].removeprefix("logs/")) else f"{GIT_FOLDER}/{kind}"
        name = f"{_KINDS[kind]} {short_name}" if kind in _KINDS else plain_name
        by_name.setdefault(mask_unprintable(f"{name} of {row['repository']}" if row["repository"] else name), row)
    return by_name
