"""Copy ignored files that work needs into a new worktree: installed dependencies, `.env` files, what settings name.

They are copies, on every system: nothing that is done to them reaches the project. On a file system with copy-on-write
(btrfs, XFS) the kernel shares the blocks. Scripts and path files of a Python environment name the folder of the
environment and the project; in the copy they name those of the worktree.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.real_files import (
    LISTED,
    NEW,
    REPLACED,
    copy_file,
    is_there,
    join_path,
    list_folder,
    open_folder,
    open_listable,
    open_parent,
    open_regular,
    read_regular,
    stat_at,
    suppress_errors,
    walk_below,
)
from nexus_cli.sandbox.own_git import Git
from nexus_cli.text.cells import one_line
from nexus_cli.tree.write_state import ChangedMeanwhileError, look_at, write_state

USUAL = ("node_modules", ".venv", "venv", "*.egg-info", ".env", ".env.*", ".claude/hooks")
"""Patterns of ignored files that most projects need."""
INCLUDE_FILE = ".worktreeinclude"
"""A project's own patterns; other programs read this file too."""
CARRIED = "carried.json"
"""File of a record folder: the copied paths, each with a stamp of its content."""
MAX_FILES, MOST_DEPTH = 200_000, 100
"""Most files of one copied path, and levels below it."""
_MAX_PATTERNS = 64 * 1024
_MAX_TEXT = 1 << 20
"""Most bytes of a script whose paths are changed."""
_NAMING_PATHS = re.compile(r"bin/[^/]+|pyvenv\.cfg|lib/python[^/]*/site-packages/[^/]+\.(?:pth|py|egg-link)")
"""Files of a Python environment that name its folder or the project."""


@dataclass(frozen=True, slots=True)
class CarriedFiles:
    """The outcome of a copy."""

    stamps: dict[str, str]
    """The copied paths, relative to the project; a folder ends in a slash."""
    notices: tuple[str, ...]
    """Lines for the person and the model."""


def find_needed(git: Git, root: Path, scratch: Path, include: Iterable[str]) -> list[str]:
    """Return the ignored paths of the project at `root` that match the usual patterns, `include` or its own file.

    `scratch` is a file to write the patterns to. Raises `GitError` and `OSError`.
    """
    own_patterns = b""
    with suppress(OSError):
        own_patterns = read_regular(root / INCLUDE_FILE, _MAX_PATTERNS)
    lines = [*map(os.fsencode, USUAL), own_patterns, *map(os.fsencode, include)]
    scratch.write_bytes(b"\n".join(lines) + b"\n")
    # A run may fail on an ignored folder that it cannot list.
    git = replace(git, reads=(scratch,))
    matches = git.try_run("ls-files", "-o", "-i", "-X", str(scratch), "--directory", "-z")[1].split(b"\0")[:-1]
    return [os.fsdecode(path) for path in git.list_ignored(matches)] if matches else []


def carry_files(source: Path, target: Path, paths: Iterable[str], most_bytes: int) -> CarriedFiles:
    """Copy `paths` with their content, modes and times, as far as they fit into `most_bytes` and half of the free disk.

    No link is followed. Raises `OSError` if the disk is full.
    """
    remaining_bytes = min(most_bytes, shutil.disk_usage(target).free // 2)
    stamps: dict[str, str] = {}
    copied: list[str] = []
    refused: list[str] = []
    unread: list[str] = []
    outside: list[str] = []
    for path in paths:
        name = path.rstrip("/")
        if is_there(target / name):
            continue
        measured = _measure(source / name)
        if measured is None or measured[1] > remaining_bytes:
            why = (
                "too many files"
                if measured is None
                else f"{_megabytes(measured[1])}, exceeds worktree.include_mb or the free disk space"
            )
            refused.append(f"{path} ({why})")
            continue
        if not _copy_path(source, target, name, unread, outside):
            continue
        remaining_bytes -= measured[1]
        if (target / name / "pyvenv.cfg").is_file():
            _relocate_environment(target / name, source, target)
        stamps[path] = stamp_path(target / name)
        if path != name:
            copied.append(f"{path} ({plural(measured[0], 'file')}, {_megabytes(measured[1])})")
        elif not (target / name).is_symlink():
            copied.append(path)
    lines = (
        ("copied, but not included in the diff: {}", copied),
        ("not copied: {}", refused),
        ("links to the originals (writing to them changes the originals): {}", outside),
        (
            "not copied, because they cannot be read: {}",
            [unread_path.removeprefix(f"{source}{os.sep}") for unread_path in unread],
        ),
    )
    return CarriedFiles(stamps, tuple(text.format(list_names(names)) for text, names in lines if names))


def list_names(names: Sequence[str]) -> str:
    """Return the first names for one line of text, and how many more there are."""
    return name_first([*map(one_line, names)], 3)


def read_carried(home: Path) -> dict[str, str]:
    """Return the copied paths of a worktree by its record folder, with their stamps."""
    try:
        value = json.loads((home / CARRIED).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(path): str(stamp) for path, stamp in value.items()}


def drop_carried(paths: Iterable[bytes], carried: Collection[str]) -> list[bytes]:
    """Return `paths` without those that were copied or lie in a copied folder."""
    files = {os.fsencode(path) for path in carried if not path.endswith("/")}
    folders = tuple(os.fsencode(path) for path in carried if path.endswith("/"))
    return [path for path in paths if path not in files and not path.startswith(folders)]


def stamp_path(path: Path) -> str:
    """Return a text that changes with the content of a file or a folder: names, sizes, times and modes in it."""
    lines = []
    for name, status in _list_below(path):
        is_folder = stat.S_ISDIR(status.st_mode)
        lines.append(repr((name, status.st_mode, *(() if is_folder else (status.st_size, status.st_mtime_ns)))))
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _measure(path: Path) -> tuple[int, int] | None:
    """Return the number of files at and below `path` and their bytes, None if there are too many or too deep ones."""
    count = size = 0
    for name, status in _list_below(path):
        if not stat.S_ISDIR(status.st_mode):
            count += 1
            size += status.st_size
        if count > MAX_FILES or name.count("/") > MOST_DEPTH:
            return None
    return count, size


def _list_below(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the status of a file, with "", or path and status of everything below a folder; no link is followed."""
    with suppress(OSError), open_parent(path) as (parent, name):
        status = stat_at(parent, name)
        if not stat.S_ISDIR(status.st_mode):
            yield "", status
            return
        with open_folder(name, inside=parent) as folder:
            for name, entry in walk_below(folder, levels=MOST_DEPTH + 2):
                with suppress(FileNotFoundError):
                    yield name, entry.stat(follow_symlinks=False)


def _copy_path(source: Path, target: Path, name: str, unread: list[str], outside: list[str]) -> bool:
    """Copy one file or folder; return False if it is gone or no file. Add what may not be read to `unread`, and links
    out of the project with their targets to `outside`.

    Raises `OSError` if it cannot be written.
    """
    parent, _, last = name.rpartition("/")
    relink = _relinker(source, target, outside)
    with (
        suppress_errors((*REPLACED, errno.EACCES)),
        open_folder(target / parent, create=True) as into,
        open_folder(source / parent) as folder,
    ):
        _copy_entry(folder, last, into, f"{source}/{parent}".rstrip("/"), relink, unread)
    return is_there(target / name)


def _copy_entry(
    folder: int, name: str, target: int, place: str, relink: Callable[[str, str], str], unread: list[str]
) -> None:
    status = stat_at(folder, name)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(relink(f"{place}/{name}", os.readlink(name, dir_fd=folder)), name, dir_fd=target)
    elif stat.S_ISREG(status.st_mode):
        try:
            copy_regular(folder, name, target)
        except PermissionError:
            unread.append(f"{place}/{name}")
    elif stat.S_ISDIR(status.st_mode):
        try:
            handle = os.open(name, LISTED, dir_fd=folder)
        except PermissionError:
            unread.append(f"{place}/{name}")
            return
        try:
            os.mkdir(name, 0o700, dir_fd=target)
            with open_folder(name, inside=target) as inner, open_listable(inner) as copy:
                for entry in os.listdir(handle):
                    with suppress(FileNotFoundError):
                        _copy_entry(handle, entry, inner, f"{place}/{name}", relink, unread)
                os.fchmod(copy, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        finally:
            os.close(handle)


def copy_regular(folder: int, name: str, target: int) -> None:
    """Copy a regular file of an open folder to the open folder `target`, with mode and times, as a clone if possible.

    Raises `OSError`, with `EINVAL` if it is no regular file any more.
    """
    with open_regular(folder, name) as source:
        copy_file(source.fileno(), os.open(name, NEW, 0o600, dir_fd=target))


def _relinker(source: Path, target: Path, outside: list[str]) -> Callable[[str, str], str]:
    """Return a function that takes the path and the target of a link, and returns the target for its copy: in the
    worktree if the original is in the project, else where it was; it adds such a link to `outside`, unless it is the
    interpreter of a Python environment."""
    root = f"{source}{os.sep}"

    def relink(path: str, link: str) -> str:
        full_path = join_path(os.path.dirname(path), link)
        if f"{full_path}{os.sep}".startswith(root):
            return str(target / full_path[len(root) :]) if os.path.isabs(link) else link
        if "/bin/python" not in path:
            outside.append(f"{path.removeprefix(root)} to {full_path}")
        return full_path

    return relink


def _relocate_environment(folder: Path, source: Path, target: Path) -> None:
    """Replace the project's path by the worktree's in the scripts and path files of a copied Python environment.

    Only real files in real folders of the copy are changed: its links may lead anywhere.
    """
    old = re.compile(re.escape(os.fsencode(source)) + rb"(?![\w.-])")
    libraries = []
    with suppress(OSError):
        libraries = [f"lib/{name}/site-packages" for name in list_folder(folder / "lib") if name.startswith("python")]
    for place in ("", "bin", *libraries):
        with suppress(OSError), open_folder(folder / place) as handle:
            for name in list_folder("", inside=handle):
                if _NAMING_PATHS.fullmatch(f"{place}/{name}".lstrip("/")):
                    with suppress(OSError, ChangedMeanwhileError):
                        _replace_text(handle, name, old, os.fsencode(target))


def _replace_text(folder: int, name: str, old: re.Pattern[bytes], new: bytes) -> None:
    """Replace `old` in a small text file of an open folder. Raises `OSError`, also for a link, and
    `ChangedMeanwhileError`."""
    data = read_regular(name, _MAX_TEXT, inside=folder)
    changed = old.sub(lambda _: new, data)
    if changed != data and b"\0" not in data:
        now = look_at(folder, name, ())
        write_state(folder, name, now.state, now, io.BytesIO(changed), synced=False)
