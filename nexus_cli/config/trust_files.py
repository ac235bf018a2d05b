"""Read the files of a project that need trust: each once, through no link that leads out of it, bounded."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles, is_credential_name, is_made_to_be_read
from nexus_cli.core.real_files import read_real
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.core.version_memo import VersionMemo, file_version, is_settled

FOLDER = ".nexus"
SINGLE = ("config.toml", "mcp.json", "SOUL.md", "IDENTITY.md", "AGENT.md")
FOLDERS = ("recipes", "commands", "skills", "agents")
"""Parts of `.nexus` that can take effect; anything else is ignored."""
MAX_FILES = 2000
MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of one file."""
MAX_TOTAL_BYTES = 16 * 1024 * 1024
LARGE_TOTAL_BYTES = f"exceeds the limit of {MAX_TOTAL_BYTES // 2**20} MiB for all files together"
DEEPEST = 16
"""Most nested folders."""

FoundFiles = Iterator[tuple[str, str]]
"""Name and real path of each file."""


class LeftOut(NamedTuple):
    """A file, or a part of it, that cannot take effect."""

    name: str
    """Path of the file relative to `.nexus`."""
    why: str

    def __str__(self) -> str:
        return f"{shown_path(self.name)} {self.why}"


class UnfitError(Exception):
    """A file cannot take effect; in `.nexus` it makes the whole configuration invalid."""

    def __init__(self, name: str, why: str) -> None:
        self.left_out = LeftOut(name, why)
        super().__init__(str(self.left_out))


def shown_path(name: str) -> str:
    """Return the path of a part relative to the project, in a form that can be shown."""
    path = name.removeprefix("../") if name.startswith("../") else f"{FOLDER}/{name}".rstrip("/")
    return mask_unprintable(path)


def find_files(folder: Path, root: str) -> FoundFiles:
    """Yield name and path of every file that can take effect; links are followed if they stay in the project."""
    resolve_inside("", str(folder), root)
    if not os.path.isdir(folder):
        raise UnfitError("", "is not a folder")
    for name in SINGLE:
        if os.path.lexists(folder / name):
            yield name, resolve_inside(name, str(folder / name), root)
    for name in FOLDERS:
        if os.path.lexists(folder / name):
            yield from find_below(name, str(folder / name), root)


def find_below(name: str, path: str, root: str, above: frozenset[str] = frozenset()) -> FoundFiles:
    """Yield name and real path of the file at `path`, or of every file in this folder. Raises `UnfitError`."""
    real = resolve_inside(name, path, root)
    if os.path.isdir(real):
        yield from _find_in_folder(name, real, root, above)
    else:
        yield name, real


def find_below_entry(name: str, entry: os.DirEntry[str], root: str, above: frozenset[str] = frozenset()) -> FoundFiles:
    """Yield as `find_below`, for an entry of a folder with a real path: only a link has to be resolved."""
    if entry.is_symlink():
        yield from find_below(name, entry.path, root, above)
    elif entry.is_dir(follow_symlinks=False):
        yield from _find_in_folder(name, entry.path, root, above)
    else:
        yield name, entry.path


def _find_in_folder(name: str, real: str, root: str, above: frozenset[str]) -> FoundFiles:
    if real in above or len(above) > DEEPEST:
        raise UnfitError(name, "is nested too deeply, or is a circular link")
    for entry in list_entries(name, real):
        yield from find_below_entry(f"{name}/{entry.name}", entry, root, above | {real})


def list_entries(name: str, real: str) -> list[os.DirEntry[str]]:
    """Return the entries of the folder at a real path, sorted by name. Raises `UnfitError`."""
    try:
        with os.scandir(real) as listed:
            return sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise UnfitError(name, f"cannot be read ({error.strerror})") from error


def resolve_inside(name: str, path: str, root: str) -> str:
    real = os.path.realpath(path)
    if os.path.commonpath((real, root)) != root:
        raise UnfitError(name, "links to a place outside the project")
    return real


_unchanged: VersionMemo[bytes] = VersionMemo(2 * MAX_FILES, 2 * MAX_TOTAL_BYTES)


def read_parts(
    parts: FoundFiles, gate: UnaskedFiles, most: int = MAX_FILES, item: str = ""
) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, real path and content of each file; raise `UnfitError` as `read_part`, and for more than `most`: in
    the name of the `item` that they are."""
    size = 0
    for count, (name, path) in enumerate(parts):
        if count >= most:
            raise UnfitError(item or name, f"exceeds the limit of {most} files")
        data = read_part(name, path, gate)
        size += len(data)
        if size > MAX_TOTAL_BYTES:
            raise UnfitError(item or name, LARGE_TOTAL_BYTES)
        yield name, path, data


def read_part(name: str, real: str, gate: UnaskedFiles) -> bytes:
    """Return the content of a real path, read once while it stays the same; never block; raise `UnfitError`."""
    try:
        status = os.lstat(real)
        data = _unchanged.find(real, file_version(status))
        if data is None:
            data, status = read_real(real, MAX_BYTES + 1)
            if is_settled(status):
                _unchanged.keep(real, file_version(status), data, len(data))
    except OSError as error:
        why = "is not a regular file" if error.errno == errno.EINVAL else f"cannot be read ({error.strerror})"
        raise UnfitError(name, why) from error
    if len(data) > MAX_BYTES:
        raise UnfitError(name, f"is larger than {MAX_BYTES // 2**20} MiB")
    file_name, base = os.path.basename(name), os.path.basename(real)
    if is_made_to_be_read(file_name) or (is_credential_name(base) and base != file_name):
        try:
            path = Path(os.path.normpath(gate.project / FOLDER / name))
            gate.check_read(path, Path(real), data, status)
        except FileRefused as refused:
            raise UnfitError(name, str(refused)) from refused
    return data
