"""Copy git's folder before each command, so that no command destroys the only copy of what git holds.

`data/undo/git/KEY` is a repository that git can read. An object stays there when the project loses it; other files are
as they were before the newest command. Objects beyond a bound are hard links: `linked_objects` sees which were written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nexus_cli.config.paths import is_below, private_dir
from nexus_cli.config.worktree_record import REFERENCE, read_git_file, read_head
from nexus_cli.core.real_files import (
    NEW,
    READ,
    copy_file,
    is_there,
    list_folder,
    open_folder,
    open_regular,
    read_regular,
    real_path,
    scan_folder,
    stat_at,
    suppress_errors,
)
from nexus_cli.sandbox.own_git import find_git
from nexus_cli.sandbox.profile import find_worktree_folder
from nexus_cli.tree.read_state import RACY
from nexus_cli.undo.linked_objects import is_intact, read_linked, read_record, stamp_of, write_linked
from nexus_cli.undo.records import HEAD, MAX_LEVELS, TOO_DEEP

SECONDS = 3.0
"""Time limit of copying; the next command goes on with it."""
_COPIED = 64 << 20
"""Bytes that are copied at once; what is beyond is linked."""
_MAX_FILES = 2000
"""Most files that are copied at once, likewise: copying many small ones takes time."""
_MAX_COPIED = 100_000_000
"""Most bytes that are copied at once where no link can be made."""
_SOURCE = "nexus-source"
"""File of a copy that names the folder of which it is one."""
_OWN = "nexus-"
"""Beginning of the names of our own files in a copy."""
_GIT, _OBJECTS, _LFS, _REFS, _MODULES, _WORKTREES, _CONTENT = (
    "git",
    "objects",
    "lfs",
    "refs",
    "modules",
    "worktrees",
    "",
)
"""Kinds of folders: those of git (of the repository, of a submodule, of a linked worktree), and what is in them."""
_GROWING = frozenset({_OBJECTS, _LFS})
"""Folders whose files stay in the copy as they were first."""
_STAYING = _GROWING | {_MODULES}
"""Folders of which nothing is dropped that the project's repository drops."""
_FIRST = frozenset({_REFS, "logs"})
_MAX_LINK = 1 << 13
"""Most bytes of a file `.git`, which names a folder."""
_GRACE_SECONDS = 86_400.0
"""Seconds for which what was lost stays, whatever it takes."""
_TRIMMED = 3600.0
"""Seconds between two searches for objects that only the copy has."""


class GitFolders(NamedTuple):
    """The places of a repository."""

    place: Path
    """Its work tree, in which `.git` is."""
    git_dir: Path
    """The folder of git with its HEAD and its index."""
    common: Path
    """The folder of git with its objects and branches: of a linked worktree that of its repository."""


def find_git_folders(place: Path) -> GitFolders | None:
    """Return the folders of the repository at the real path `place`, without running git; None unless they belong to
    it: a file `.git` may name any folder."""
    dot_git = place / ".git"
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(dot_git).st_mode):
            return GitFolders(place, dot_git, dot_git)
        worktree = find_worktree_folder(place)
        git_dir = worktree or read_git_file(place)
        git = find_git(place) if git_dir else None
        if git_dir and git and git.may_use(git_dir):
            return GitFolders(place, git_dir, worktree.parent.parent if worktree else git_dir)
    return None


@dataclass
class CopyBounds:
    """The bounds of one copying, of all repositories together."""

    end: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    """When the time is over, of `time.monotonic`."""
    copied: int = 0
    """Bytes copied."""
    files: int = 0
    """Files copied."""


def keep_repository(data: Path, folders: GitFolders, bounds: CopyBounds, above: Path | None) -> None:
    """Copy what is new in the common git folder of a repository, unless that is in `above`, a git folder that is kept
    itself. Blocks; raises `OSError`, `TimeoutError`."""
    place = _find_copy(data, folders.place / ".git")
    private_dir(place.parent)
    if folders.common != folders.place / ".git":
        base = above or folders.common
        record = {
            "link": os.fsdecode(read_regular(folders.place / ".git", _MAX_LINK)),
            "copy": os.path.join(_find_copy(data, base).name, folders.common.relative_to(base)),
            **dict(zip(GitFolders._fields, map(str, folders), strict=True)),
        }
        if not place.is_file() or place.read_text() != json.dumps(record):
            place.write_text(json.dumps(record))
        place = _find_copy(data, folders.common)
    elif place.is_file():  # it was a linked worktree
        place.unlink()
    if above is not None:
        return
    private_dir(place)
    if not (source := place / _SOURCE).exists():
        source.write_bytes(os.fsencode(folders.common))
    _Mirror(place, bounds).mirror(folders.common)


def find_copy(data: Path, root: str | Path) -> Path | None:
    """Return the copy of the repository of a project, None if there is none."""
    place = _find_copy(data, Path(root, ".git"))
    with suppress(KeyError):
        place = place.parent / read_record(place)["copy"]
    return place if place.is_dir() else None


def is_lost(root: Path, git_dir: Path, repository: Path) -> bool:
    """Return True if `.git` or all objects are gone or HEAD is unreadable; a sandbox may leave files in `.git`."""
    return not (is_there(root / ".git") and _has_head(git_dir) and _has_objects(repository))


def _has_objects(repository: str | Path, inside: int | None = None) -> bool:
    try:
        with open_folder(f"{repository}/objects", inside=inside) as objects:
            if any(len(name) == 2 for name in list_folder("", inside=objects)):
                return True
            with suppress(OSError):
                if any(name.endswith(".pack") for name in list_folder("pack", inside=objects)):
                    return True
            return is_there("info/alternates", inside=objects)
    except OSError:
        return False


def put_back(data: Path, root: str, *, only_objects: bool = False, dry_run: bool = False) -> bool:
    """Copy what a lost repository of the project has not from its copy, or objects to another; return True if done.

    Of what exists, empty files, broken objects and branches, and another HEAD are replaced, the HEAD renamed to
    `HEAD.nexus-undo`. A repository with a HEAD and objects gets nothing else. Blocks; raises `OSError`.
    """
    copy, record = find_copy(data, root), read_record(_find_copy(data, Path(root, ".git")))
    if copy is None:
        return False
    dot_git = Path(root, ".git")
    git_dir, common = (Path(record.get(name, dot_git)) for name in GitFolders._fields[1:])
    if only_objects == is_lost(Path(root), git_dir, common):
        return False
    if dry_run:
        return True
    with open_folder(root, create=True) as folder:
        if record and not only_objects and not is_there(".git", inside=folder):
            with open(os.open(".git", NEW, 0o644, dir_fd=folder), "wb") as file:
                file.write(os.fsencode(record["link"]))
    sources = {common: copy, git_dir: copy / os.path.relpath(git_dir, common)}
    for target, source in sources.items():
        if not source.is_dir() or (
            not only_objects and _has_head(target) and (target != common or _has_objects(target))
        ):
            continue
        for kind in (_OBJECTS, _REFS) if only_objects else (_GIT,):
            inner = "" if kind == _GIT else kind
            if (source / inner).is_dir():
                with open_folder(target / inner, create=True) as place:
                    _fill(source / inner, place, kind, only_broken=kind == _REFS)
    return True


def is_head_kept(data: Path, root: str) -> bool:
    """Return True if the copy's HEAD names a commit, False on a branch without one."""
    copy = find_copy(data, root)
    with suppress(OSError):
        if copy and (ref := read_head(real_path(copy))).startswith("refs/"):
            return (copy / ref).exists() or f" {ref}\n".encode() in _read(copy / "packed-refs")
    return True


def trim_copies(data: Path, most: int) -> None:
    """Remove what only a copy has, oldest loss first, until all copies take at most `most` bytes. Blocks.

    A loss counts from when this sees it first.
    """
    mark = data / "undo" / "git" / "trimmed"
    with suppress(OSError):
        if time.time() - mark.stat().st_mtime < _TRIMMED:
            return
    lost = []
    for path, status, is_lost in list_copies(data):
        with suppress(OSError):
            if is_lost == (status.st_mtime_ns != 0):  # a lost file has the time 0, and the change time of its loss
                os.utime(path, (0, 0) if is_lost else None, follow_symlinks=False)
        if is_lost:
            lost.append((path, os.lstat(path)))
        else:
            most -= status.st_size
    for path, status in sorted(lost, key=lambda pair: pair[1].st_ctime, reverse=True):
        most -= status.st_size
        if most < 0 and time.time() - status.st_ctime > _GRACE_SECONDS:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        mark.touch()


def count_copied_bytes(data: Path) -> int:
    """Return the bytes of copies; links to files that still exist take none. Blocks."""
    return sum(status.st_size for _, status, _ in list_copies(data))


def forget_copies(data: Path, roots: set[str]) -> None:
    """Remove the copies of projects that are none of `roots`. Blocks."""
    needed = {_find_copy(data, Path(root, ".git")).name for root in roots}
    with suppress(OSError):
        places = list((data / "undo" / "git").iterdir())
        for place in places:
            work = os.path.dirname(_read(place / _SOURCE)) if place.is_dir() else read_record(place).get("place", "")
            needed |= {place.name} if is_below(os.fsdecode(work), *roots) else set()
        needed |= {read_record(place).get("copy", "").partition("/")[0] for place in places if place.name in needed}
        for place in places:
            if place.name not in needed:
                shutil.rmtree(place) if place.is_dir() else place.unlink()


@dataclass
class _Mirror:
    """One run of copying."""

    copy: Path
    bounds: CopyBounds
    _is_deep: bool = False
    """True if there were folders that are too deep to be copied."""

    def mirror(self, repository: Path) -> None:
        """Copy the folder of git, and note what is linked. Raises `OSError`, also if its path leads through a link."""
        linked = read_linked(self.copy)
        self._linked = dict(linked)
        try:
            with open_folder(repository) as source:
                self._mirror(source, str(self.copy), _GIT, MAX_LEVELS)
        finally:
            if self._linked != linked:
                write_linked(self.copy, self._linked)
        if self._is_deep:
            raise OSError(errno.ELOOP, TOO_DEEP)

    def _mirror(self, source: int, target: str, kind: str, levels: int) -> None:
        """Copy the files of an open folder of a `kind` and those below. What is gone there goes, unless it stays. Of a
        broken repository only what stays is copied: its worktrees and submodules may go on."""
        if time.monotonic() > self.bounds.end:
            raise TimeoutError(f"copying the repository took longer than {SECONDS:.0f} s")
        adds = kind in _STAYING or (kind == _GIT and not _may_replace(source, target))
        private_dir(Path(target))
        with os.scandir(target) as entries:
            copied = {entry.name: entry for entry in entries}
        with scan_folder(source) as entries:
            for entry in sorted(entries, key=_rank):
                if not _is_passing(entry.name, kind) and (kind != _GIT or not adds or entry.name in _STAYING):
                    old = copied.pop(entry.name, None)
                    with suppress_errors():
                        self._mirror_entry(source, entry, f"{target}/{entry.name}", old, kind, levels)
        for name, old in copied.items() if not adds else ():
            if not (kind == _GIT and (name in _STAYING or name.startswith(_OWN))):
                _remove(old)

    def _mirror_entry(
        self,
        source: int,
        entry: os.DirEntry[str],
        place: str,
        old: os.DirEntry[str] | None,
        kind: str,
        levels: int,
    ) -> None:
        """Copy an entry of a folder of a `kind` to `place`, where `old` is. A folder of loose objects is copied only if
        it has changed: it gets the change time of its original."""
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (is_folder or entry.is_file(follow_symlinks=False)):
            return
        if old is not None and old.is_dir(follow_symlinks=False) != is_folder:
            if kind in _STAYING:
                return
            _remove(old)
            old = None
        if not is_folder:
            self._keep(source, entry, place, old, stays=kind in _GROWING)
            return
        if not levels:
            self._is_deep = True
            return
        is_inner = len(os.path.basename(os.path.dirname(place))) == 2  # `lfs/objects/ab/cd`
        is_loose = len(entry.name) == 2 and (kind == _OBJECTS or (kind == _LFS and is_inner))
        changed = entry.stat(follow_symlinks=False).st_mtime_ns
        if is_loose and old is not None and old.stat().st_mtime_ns == changed:
            return
        with open_folder(entry.name, inside=source) as folder:
            is_git = is_there(HEAD, inside=folder) or os.path.lexists(f"{place}/{HEAD}")
            self._mirror(folder, place, _find_kind(kind, entry.name, is_git=is_git), levels - 1)
        if is_loose and time.time_ns() - changed > RACY:
            os.utime(place, ns=(changed, changed))

    def _keep(
        self, folder: int, entry: os.DirEntry[str], place: str, old: os.DirEntry[str] | None, *, stays: bool
    ) -> None:
        """Copy a file, or link it; with `stays` one that is there already is left, unless it was emptied."""
        name, new = entry.name, entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(new.st_mode):
            return
        if old is not None:
            copied = old.stat(follow_symlinks=False)
            if os.path.samestat(copied, new) or (stays and copied.st_size):
                return
            is_same = (copied.st_size, copied.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
            if is_same and new.st_ctime_ns + RACY < copied.st_ctime_ns:
                return
        draft = f"{os.path.dirname(place)}/.new-{os.urandom(8).hex()}"  # never one that exists: it may be a link
        with suppress(FileNotFoundError):  # removed just now
            is_copied = False
            if self.bounds.files < _MAX_FILES and self.bounds.copied + new.st_size <= _COPIED:
                with suppress(OSError):
                    self._copy(folder, name, draft, new)
                    is_copied = True
            if not is_copied:
                self._link(folder, name, draft, new)
            os.replace(draft, place)
            if not is_copied and os.path.samestat(status := os.lstat(place), new):
                self._linked[os.path.relpath(place, self.copy)] = stamp_of(status)
            with suppress(FileNotFoundError):
                os.unlink(draft)  # a rename of one link over another does nothing

    def _link(self, folder: int, name: str, draft: str, expected: os.stat_result) -> None:
        try:
            os.link(name, draft, src_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:
            if self.bounds.copied + expected.st_size > _MAX_COPIED:
                raise
            self._copy(folder, name, draft, expected)
            return
        status = os.lstat(draft)
        if not (stat.S_ISREG(status.st_mode) and os.path.samestat(status, expected)):  # put there meanwhile
            os.unlink(draft)
            raise FileNotFoundError(errno.ENOENT, "was replaced", name)

    def _copy(self, folder: int, name: str, draft: str, status: os.stat_result) -> None:
        try:
            with open_regular(folder, name) as source:
                if not os.path.samestat(os.fstat(source.fileno()), status):
                    raise FileNotFoundError(errno.ENOENT, "was replaced", name)
                is_cloned = copy_file(source.fileno(), os.open(draft, NEW, 0o600))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        self.bounds.copied += 0 if is_cloned else status.st_size
        self.bounds.files += 1


def _rank(entry: os.DirEntry[str]) -> int:
    """Order what makes it a repository first, and what grows last."""
    if entry.name in _STAYING:
        return 2
    return int(entry.name not in _FIRST and entry.is_dir(follow_symlinks=False))


def _is_passing(name: str, kind: str) -> bool:
    """Return True for what git removes by itself, and for a name of our own: in a folder of references it is one."""
    if kind == _OBJECTS:
        return name.startswith("tmp_") or name.endswith((".lock", ".keep"))
    return name.endswith(".lock") or (kind == _GIT and name.startswith(_OWN))


def _find_kind(kind: str, name: str, *, is_git: bool) -> str:
    """Return the kind of the folder `name` in one of a `kind`; `is_git` is True if it has a HEAD."""
    if kind == _GIT:
        return name if name in _STAYING | {_REFS, _WORKTREES} else _CONTENT
    return _GIT if is_git and kind in (_MODULES, _WORKTREES) else kind


def _may_replace(source: int, copy: str) -> bool:
    """Return False if a command has broken the open folder of git, or put an empty one in its place: the copy stays."""
    has_objects = _has_objects(copy)
    is_less = not _has_head("", source) or (has_objects and not _has_objects("", source))
    return not (is_less and (has_objects or _has_head(copy)))


def _remove(entry: os.DirEntry[str]) -> None:
    shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def _has_head(git_dir: str | Path, inside: int | None = None) -> bool:
    try:
        with open_folder(git_dir, inside=inside) as folder:
            is_link = stat.S_ISLNK(stat_at(folder, HEAD).st_mode)
            return is_link or REFERENCE.fullmatch(read_regular(HEAD, 5000, inside=folder)) is not None
    except OSError:
        return False


def _read(place: Path) -> bytes:
    with suppress(FileNotFoundError):
        return place.read_bytes()
    return b""


def _fill(source: Path, target: int, kind: str, *, only_broken: bool = False) -> None:
    """Copy what is missing or broken in the open folder `target` of a `kind`; HEAD, which makes it a repository, last.
    Of objects, references and HEAD it is known what is broken. A whole submodule or worktree is left as it is."""
    with os.scandir(source) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name == HEAD)
    for entry in ordered:
        if kind == _GIT and entry.name.startswith(_OWN):
            continue
        if entry.is_dir(follow_symlinks=False):
            inner_kind = _find_kind(kind, entry.name, is_git=os.path.lexists(f"{entry.path}/{HEAD}"))
            with open_folder(entry.name, inside=target, create=True) as inner:
                is_whole = inner_kind == _GIT and _has_head("", inner)
                if not is_whole or (kind == _MODULES and not _has_objects("", inner)):
                    _fill(Path(entry.path), inner, inner_kind, only_broken=only_broken)
        elif entry.is_file(follow_symlinks=False) and _is_wanted(entry, target, kind, only_broken=only_broken):
            _copy_into(entry, target)


def _is_wanted(entry: os.DirEntry[str], target: int, kind: str, *, only_broken: bool) -> bool:
    """Return True if the file in `target` is not there or broken, and the one of the copy is not. Another HEAD is
    renamed, what else is broken removed."""
    try:
        status = stat_at(target, entry.name)
    except FileNotFoundError:
        return not only_broken
    if not stat.S_ISREG(status.st_mode):
        return False
    place, is_head = Path(entry.path), kind == _GIT and entry.name == HEAD
    is_broken = status.st_size == 0 and entry.stat().st_size > 0
    if kind == _OBJECTS:
        is_broken = is_broken or (not is_intact(place, folder=target) and is_intact(place))
    elif kind == _REFS or is_head:
        with open_regular(target, entry.name) as file:
            data = file.read(5000)
        is_broken = REFERENCE.fullmatch(data) is None or (is_head and data != _read(place))
    if is_broken and is_head:
        os.replace(HEAD, "HEAD.nexus-undo", src_dir_fd=target, dst_dir_fd=target)
    elif is_broken:
        os.unlink(entry.name, dir_fd=target)
    return is_broken


def _copy_into(entry: os.DirEntry[str], target: int) -> None:
    draft = f".{entry.name}.nexus-new"
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=target)
    with open(os.open(entry.path, READ), "rb") as source:
        # With its time: git trusts a file that is older than the index, and a younger index would hide changes.
        copy_file(source.fileno(), os.open(draft, NEW, 0o600, dir_fd=target))
    try:
        with suppress(FileExistsError):
            os.link(draft, entry.name, src_dir_fd=target, dst_dir_fd=target, follow_symlinks=False)
    finally:
        os.unlink(draft, dir_fd=target)


def list_copies(data: Path) -> Iterator[tuple[Path, os.stat_result, bool]]:
    """Yield the files of copies that take room, with their status, and True for what no project has any more."""
    with suppress(OSError):
        for copy in (data / "undo" / "git").iterdir():
            source = os.fsdecode(_read(copy / _SOURCE)) if copy.is_dir() else ""
            for folder, _, names in os.walk(copy):
                below = os.path.relpath(folder, copy)
                is_object = below.split("/")[0] in _STAYING
                for name in names:
                    with suppress(OSError):
                        status = os.lstat(path := Path(folder, name))
                        if status.st_nlink == 1:
                            is_gone = not is_there(f"{source}/{below}/{name}")  # an older copy names none
                            yield path, status, is_object and is_gone


def _find_copy(data: Path, repository: Path) -> Path:
    return data / "undo" / "git" / hashlib.sha256(os.fsencode(repository)).hexdigest()[:32]
