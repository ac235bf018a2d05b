"""Find out from git's index which files are as their blobs, so that their bytes need not be read or kept.

The index is an accelerator and never the truth: a file counts as clean only if size, inode and times are those that
the index has, to the nanosecond, and are older than the index. Everything else is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nexus_cli.config.git_configuration import personal_folder
from nexus_cli.core.real_files import is_there, read_real
from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.tree.index_entries import IndexEntry, read_index
from nexus_cli.tree.read_state import RACY

MAX_INDEX = 256 << 20
"""Most bytes of an index that is read."""
_COARSE = 2_000_000_000
"""Nanoseconds before the time of an index with whole seconds within which a file may have changed after git looked at
it; with nanoseconds `RACY`."""
_FILE = 0o100000
_CHECKED = ("filter", "ident", "working-tree-encoding")
"""Attributes with which a file may have other bytes than its blob of the same size."""
_SETTINGS = r"^(core\.attributesfile|extensions\.objectformat)$"


class Tracked(NamedTuple):
    """The entry of the index for a file that was looked at."""

    oid: str
    is_clean: bool
    """True if the file has the bytes of the blob."""


def find_tracked(git: Git, git_dir: Path, files: Mapping[str, os.stat_result], attributes: bool) -> dict[str, Tracked]:
    """Return the entries of the index in `git_dir` for those of `files`, which were just looked at, that it has.

    `attributes` is True if the project has a file with git attributes. Blocks; raises `GitError`, `OSError`, and
    `ValueError` for an index that cannot be read here.
    """
    try:
        data, status = read_real(git_dir / "index", MAX_INDEX)
    except FileNotFoundError:
        return {}
    if status.st_size > MAX_INDEX:
        raise ValueError(f"the index is larger than {MAX_INDEX >> 20} MiB")
    settings = _read_settings(git)
    length = 32 if settings.get("extensions.objectformat") == "sha256" else 20
    entries = (entry for entry in read_index(data, length) if entry[1].kind == _FILE)
    tracked = {path: index_entry for path, index_entry in entries if path in files}
    clean = {path for path, index_entry in tracked.items() if _is_clean(index_entry, files[path], status.st_mtime_ns)}
    if clean:
        attributes = attributes or is_there(git_dir / "info/attributes")
        attributes = attributes or "core.attributesfile" in settings or _has_own_attributes()
        clean -= _find_different(git, {path: tracked[path].oid for path in clean}, files, attributes)
    return {path: Tracked(index_entry.oid, path in clean) for path, index_entry in tracked.items()}


def _is_clean(entry: IndexEntry, file: os.stat_result, index_time: int) -> bool:
    """Return True if a file is as git found it before `index_time`, the time of the index (ns)."""
    times = (file.st_ctime_ns, file.st_mtime_ns)
    fields = [part & 0xFFFFFFFF for time in times for part in divmod(time, 1_000_000_000)]
    step, slack = (1, RACY) if any(entry.about[1:4:2]) else (2, _COARSE)
    return (
        not entry.is_overlooked
        and [*entry.about[:4:step]] == fields[::step]
        and max(times) < index_time - slack
        and (entry.about[5], entry.about[9]) == (file.st_ino & 0xFFFFFFFF, file.st_size & 0xFFFFFFFF)
    )


def _read_settings(git: Git) -> dict[str, str]:
    """Return the settings that decide on object names and attributes."""
    status, output, _ = git.try_run("config", "--includes", "-z", "--get-regexp", _SETTINGS)
    if status not in (0, 1):
        raise GitError("the settings cannot be read")
    rows = (os.fsdecode(row).partition("\n") for row in output.split(b"\0") if row)
    return {name.lower(): value.lower() for name, _, value in rows}


def _has_own_attributes() -> bool:
    """Return True if the person or the system has a file with attributes for all repositories."""
    return any(map(os.path.lexists, (personal_folder(os.environ) / "attributes", Path("/etc/gitattributes"))))


def _find_different(
    git: Git, oids: Mapping[str, str], files: Mapping[str, os.stat_result], attributes: bool
) -> set[str]:
    """Return the paths whose file is not their blob: of another size, or with attributes of a conversion."""
    names = "\n".join(set(oids.values())).encode() + b"\n"
    result = git.run("cat-file", "--batch-check=%(objectname) %(objectsize) %(objecttype)", stdin=names)
    rows = (os.fsdecode(line).split() for line in result.splitlines())
    sizes = {row[0]: row[1] for row in rows if row[2:] == ["blob"]}
    different = {path for path, oid in oids.items() if sizes.get(oid) != str(files[path].st_size)}
    if attributes:
        words = git.items("check-attr", "-z", "--stdin", *_CHECKED, inputs=map(os.fsencode, oids))
        told_of = zip(words[::3], words[2::3], strict=True)
        different |= {os.fsdecode(path) for path, value in told_of if value not in (b"unspecified", b"unset")}
    return different
