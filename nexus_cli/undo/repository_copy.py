"""Copy git's folder before each command, so that no command destroys the only copy of what git holds.

`data/undo/git/KEY` is a repository that git can read. An object stays there when the project loses it; other files are
as they were before the newest command. Objects beyond a bound are hard links: `linked_objects` sees which were written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO

from nexus_cli.config.paths import private_dir
from nexus_cli.core.real_files import (
    NEW,
    READ,
    copy_content,
    is_there,
    list_folder,
    open_folder,
    open_listable,
    open_regular,
    read_regular,
    walk_below,
)
from nexus_cli.undo.linked_objects import drop_written, is_intact, read_linked, stamp_of, write_linked

SECONDS = 3.0
"""Time limit of copying; the next command goes on with it."""
_COPIED = 64 << 20
"""Bytes that are copied at once; what is beyond is linked."""
_MOST_FILES = 2000
"""Most files that are copied at once, likewise: copying many small ones takes time."""
_MOST_COPIED = 100_000_000
"""Most bytes that are copied at once where no link can be made."""
_SOURCE = "nexus-source"
"""File of a copy that names the folder of which it is one."""
_REPLACED = "nexus-replaced"
"""Folder of a copy with the references of repositories in whose place another one came, by the commit of their HEAD."""
_RACY = 50_000_000
"""Nanoseconds after a change within which the clock of the file system may hide another one."""
_GROWING = frozenset({"objects", "modules", "lfs"})
"""Folders of which nothing is dropped that the project's repository drops."""
_FIRST = frozenset({"refs", "logs"})
_PASSING = (".lock", ".keep")
_HEAD = re.compile(rb"ref:\s*refs/[^\0\n]+\s*|(?!0+\s*\Z)([0-9a-f]{40}|[0-9a-f]{64})\s*")
"""Content of HEAD and of a branch."""
_PACKED = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs(?:/[^/.][^/]*)+)")
_MOST_PACKED = 64 << 20
"""Most bytes of `packed-refs`."""
_MOST_LINK = 1 << 13
"""Most bytes of a file `.git`, which names a folder."""
_YOUNG = 86_400.0
"""Seconds for which what was lost stays, whatever it takes."""
_TRIMMED = 3600.0
"""Seconds between two searches for objects that only the copy has."""


def keep_repository(data: Path, root: Path, repository: Path) -> None:
    """Copy what is new in git's common folder `repository` of `root`; blocks; raise `OSError`, `TimeoutError`."""
    place = _find_copy(data, root / ".git")
    private_dir(place.parent)
    if repository != root / ".git":
        link = os.fsdecode(read_regular(root / ".git", _MOST_LINK))
        about = json.dumps({"link": link, "copy": _find_copy(data, repository).name})
        if not place.is_file() or place.read_text() != about:
            place.write_text(about)
        place = _find_copy(data, repository)
    elif place.is_file():  # it was a linked worktree
        place.unlink()
    private_dir(place)
    if not (source := place / _SOURCE).exists():
        source.write_bytes(os.fsencode(repository))
    if _has_objects(repository) or not _has_objects(place):  # else a command has put an empty one in its place
        _put_references_aside(repository, place)
        _Mirror(place, time.monotonic() + SECONDS).mirror(repository)


def _put_references_aside(repository: Path, copy: Path) -> None:
    """Keep the references of a copy if its commits are not those of `repository`, which has come in the place of the
    one that was copied."""
    head = _find_head(copy)
    if head in ("", _find_head(repository)) or is_there(repository / "objects" / head[:2] / head[2:]):
        return
    with suppress(OSError):
        packs = (set(list_folder(place / "objects/pack")) for place in (repository, _real(copy)))
        if any(name.endswith(".pack") for name in set.intersection(*packs)):
            return
    aside = private_dir(copy / _REPLACED) / head
    for name in ("packed-refs", "refs", "HEAD"):
        with suppress(OSError):  # not there, or aside already
            os.renames(copy / name, aside / name)


def put_references_back(data: Path, root: str, head: str) -> list[str]:
    """Write the references of the repository whose HEAD was at the commit `head`, and that another one replaced. Return
    their names: where the other one has that name, `NAME.nexus-undo`, also for a part of the name; the branch of HEAD
    is left out there. Blocks; raises `OSError`."""
    copy, written = find_copy(data, root), list[str]()
    kept = next((one for one in (copy / _REPLACED / head, copy) if _find_head(one) == head), None) if copy else None
    if kept is None:
        return []
    there, branch = _read_references(Path(root, ".git")), _read(kept / "HEAD").removeprefix(b"ref:").strip()
    folders = {place for name in there for place in accumulate(name.split("/")[:-1], "{}/{}".format)}
    for name, text in sorted(_read_references(_real(kept)).items()):
        if name not in there or (there[name] != text and os.fsencode(name) != branch):
            ways = accumulate(name.split("/"), "{}/{}".format)
            taken = name if name in folders else next((place for place in ways if place in there), "")
            place = f"{taken}.nexus-undo{name.removeprefix(taken)}" if taken else name
            above, _, base = place.rpartition("/")
            with suppress(OSError), open_folder(f"{root}/.git/{above}", create=True) as folder:
                with open(os.open(base, NEW, 0o644, dir_fd=folder), "wb") as file:
                    file.write(text + b"\n")
                written.append(place)
    return written


def _find_head(git_dir: Path) -> str:
    """Return the commit of HEAD, "" if there is none."""
    found = b""
    with suppress(OSError), open_folder(_real(git_dir)) as folder:
        found = read_regular("HEAD", 5000, inside=folder).strip()
        if found.startswith(b"ref:"):
            name = os.fsdecode(found[4:].strip())
            try:
                found = read_regular(name, 5000, inside=folder).strip()
            except OSError:
                found = _read_packed(folder).get(name, b"")
    return found.decode() if _HEAD.fullmatch(found) and not found.startswith(b"ref:") else ""


def _read_packed(git_dir: int) -> dict[str, bytes]:
    with suppress(OSError):
        rows = map(_PACKED.fullmatch, read_regular("packed-refs", _MOST_PACKED, inside=git_dir).splitlines())
        return {os.fsdecode(row[2]): row[1] for row in rows if row}
    return {}


def _read_references(git_dir: Path) -> dict[str, bytes]:
    """Return the references in a folder of git by name: each a commit, or the name of another one."""
    with open_folder(git_dir) as folder:
        found = _read_packed(folder)
        with suppress(OSError), open_folder("refs", inside=folder) as refs:
            for path, entry in walk_below(refs):
                if entry.is_file(follow_symlinks=False) and not path.endswith(".lock"):
                    with suppress(OSError):
                        text = read_regular(path, 5000, inside=refs).strip()
                        found |= {f"refs/{path}": text} if _HEAD.fullmatch(text) else {}
    return found


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def find_written(data: Path, root: Path) -> list[str]:
    """Return the paths in git's folder that were written in place since, so that they are kept no more. Blocks."""
    with suppress(OSError):
        if copy := find_copy(data, root):
            return drop_written(copy, SECONDS)
    return []


def find_copy(data: Path, root: str | Path) -> Path | None:
    """Return the copy of the repository of a project, None if there is none."""
    place = _find_copy(data, Path(root, ".git"))
    with suppress(OSError, ValueError, KeyError, TypeError):
        if place.is_file():
            place = place.parent / str(json.loads(place.read_text())["copy"])
    return place if place.is_dir() else None


def is_lost(root: Path, git_dir: Path, repository: Path) -> bool:
    """Return True if `.git` or all objects are gone or HEAD is unreadable; a sandbox may leave files in `.git`."""
    return not (is_there(root / ".git") and _has_head(git_dir) and _has_objects(repository))


def _has_objects(repository: Path) -> bool:
    try:
        with open_folder(repository / "objects") as objects:
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
    place, copy = _find_copy(data, Path(root, ".git")), find_copy(data, root)
    if copy is None:
        return False
    git_dir = Path(root, ".git")
    is_link = place.is_file()  # of a linked worktree, of which the repository is elsewhere
    is_gone = not os.path.lexists(git_dir) if is_link else is_lost(Path(root), git_dir, git_dir)
    if only_objects == is_gone:
        return False
    if dry_run:
        return True
    with open_folder(root, create=True) as folder:
        if is_link:
            if not only_objects:
                link = str(json.loads(place.read_text())["link"])
                with open(os.open(".git", NEW, 0o644, dir_fd=folder), "wb") as file:
                    file.write(os.fsencode(link))
            return True
        for inner in ("objects", "refs") if only_objects else ("",):
            with open_folder(f".git/{inner}", inside=folder, create=True) as target:
                _fill(copy / inner, target, kind=inner, only_broken=inner == "refs")
    return True


def is_head_kept(data: Path, root: str) -> bool:
    """Return True if the copy's HEAD names a commit, False on a branch without one."""
    copy = find_copy(data, root)
    with suppress(OSError):
        head = (copy / "HEAD").read_text("utf-8", "replace") if copy else ""
        ref = head.removeprefix("ref:").strip()
        if copy and head.startswith("ref:"):
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
    found = []
    for path, about, is_lost in _list_kept(data):
        with suppress(OSError):
            if is_lost == (about.st_mtime_ns != 0):  # a lost file has the time 0, and the change time of its loss
                os.utime(path, (0, 0) if is_lost else None, follow_symlinks=False)
        if is_lost:
            found.append((path, os.lstat(path)))
        else:
            most -= about.st_size
    for path, about in sorted(found, key=lambda one: one[1].st_ctime, reverse=True):
        most -= about.st_size
        if most < 0 and time.time() - about.st_ctime > _YOUNG:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        mark.touch()


def count_kept(data: Path, *, only_lost: bool = False) -> int:
    """Return the bytes of copies, or of what only a copy has; links to files that still exist take none. Blocks."""
    return sum(about.st_size for _, about, is_lost in _list_kept(data) if is_lost or not only_lost)


def forget_copies(data: Path, roots: set[str]) -> None:
    """Remove the copies of projects that are none of `roots`. Blocks."""
    needed = {_find_copy(data, Path(root, ".git")).name for root in roots}
    needed |= {copy.name for root in roots if (copy := find_copy(data, root))}
    with suppress(OSError):
        for place in (data / "undo" / "git").iterdir():
            if place.name not in needed:
                shutil.rmtree(place) if place.is_dir() else place.unlink()


@dataclass
class _Mirror:
    """One run of copying."""

    copy: Path
    end: float
    """When the time is over, of `time.monotonic`."""
    copied: int = 0
    """Bytes copied."""
    files: int = 0
    """Files copied."""

    def mirror(self, repository: Path) -> None:
        """Copy the folder of git, and note what is linked. Raises `OSError`, also if its path leads through a link."""
        linked = read_linked(self.copy)
        self._linked = dict(linked)
        try:
            with open_folder(repository) as source:
                self._mirror(source, str(self.copy))
        finally:
            if self._linked != linked:
                write_linked(self.copy, self._linked)

    def _mirror(self, source: int, target: str, *, grows: bool = False) -> None:
        """Copy the files of an open folder and those below; a folder of loose objects only if it has changed."""
        if time.monotonic() > self.end:
            raise TimeoutError(f"keeping the repository takes longer than {SECONDS:.0f} s")
        private_dir(Path(target))
        names = set()
        with open_listable(source) as listed, os.scandir(listed) as entries:
            for entry in sorted(entries, key=_rank):
                name, place = entry.name, f"{target}/{entry.name}"
                if name.endswith(_PASSING) or name.startswith(("tmp_", "nexus-")):
                    continue
                names.add(name)
                with _unless_replaced():
                    if entry.is_file(follow_symlinks=False):
                        self._keep(source, name, place, stays=grows)
                    elif entry.is_dir(follow_symlinks=False):
                        self._mirror_below(source, name, place, grows=grows)
        if not grows:
            for gone in set(os.listdir(target)) - names - _GROWING:
                place = f"{target}/{gone}"
                if not gone.startswith("nexus-"):
                    shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place)

    def _mirror_below(self, source: int, name: str, place: str, *, grows: bool) -> None:
        """Mirror a folder. One of loose objects gets the change time of its original, by which it is known."""
        is_loose = grows and len(name) == 2
        changed = os.stat(name, dir_fd=source, follow_symlinks=False).st_mtime_ns
        with suppress(FileNotFoundError):
            if is_loose and os.stat(place).st_mtime_ns == changed:
                return
        with open_folder(name, inside=source) as folder:
            self._mirror(folder, place, grows=grows or name in _GROWING)
        if is_loose and time.time_ns() - changed > _RACY:
            os.utime(place, ns=(changed, changed))

    def _keep(self, folder: int, name: str, place: str, *, stays: bool) -> None:
        """Copy a file, or link it; with `stays` one that is there already is left, unless it was emptied."""
        new, old = os.stat(name, dir_fd=folder, follow_symlinks=False), None
        if not stat.S_ISREG(new.st_mode):
            return
        with suppress(FileNotFoundError):
            old = os.lstat(place)
            is_linked = os.path.samestat(old, new)
            if is_linked or (stays and old.st_size):
                return
            is_same = (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
            if is_same and not is_linked and new.st_ctime_ns + _RACY < old.st_ctime_ns:
                return
        draft = f"{os.path.dirname(place)}/.new-{os.urandom(8).hex()}"  # never one that exists: it may be a link
        with suppress(FileNotFoundError):  # removed just now
            is_copied = False
            if self.files < _MOST_FILES and self.copied + new.st_size <= _COPIED:
                with suppress(OSError):
                    self._copy(folder, name, draft, new)
                    is_copied = True
            if not is_copied:
                self._link(folder, name, draft, new)
            os.replace(draft, place)
            if not is_copied and os.path.samestat(about := os.lstat(place), new):
                self._linked[os.path.relpath(place, self.copy)] = stamp_of(about)
            with suppress(FileNotFoundError):
                os.unlink(draft)  # a rename of one link over another does nothing

    def _link(self, folder: int, name: str, draft: str, about: os.stat_result) -> None:
        try:
            os.link(name, draft, src_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:
            if self.copied + about.st_size > _MOST_COPIED:
                raise
            self._copy(folder, name, draft, about)
            return
        made = os.lstat(draft)
        if not (stat.S_ISREG(made.st_mode) and os.path.samestat(made, about)):  # put there meanwhile
            os.unlink(draft)
            raise FileNotFoundError(errno.ENOENT, "was replaced", name)

    def _copy(self, folder: int, name: str, draft: str, about: os.stat_result) -> None:
        try:
            with open_regular(folder, name) as source:
                if not os.path.samestat(os.fstat(source.fileno()), about):
                    raise FileNotFoundError(errno.ENOENT, "was replaced", name)
                is_cloned = _copy_file(source, os.open(draft, NEW, 0o600), about)
            os.utime(draft, ns=(about.st_mtime_ns, about.st_mtime_ns))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        self.copied += 0 if is_cloned else about.st_size
        self.files += 1


def _copy_file(source: IO[bytes], target: int, about: os.stat_result) -> bool:
    """Copy a file of the status `about` to the descriptor of an empty one and close that; return as `copy_content`."""
    try:
        is_cloned = copy_content(source.fileno(), target, about.st_size)
        os.fchmod(target, stat.S_IMODE(about.st_mode))
        return is_cloned
    finally:
        os.close(target)


@contextmanager
def _unless_replaced() -> Iterator[None]:
    """Go on after an error that means that something else was put in the place of a file or a folder meanwhile."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise


def _rank(entry: os.DirEntry[str]) -> int:
    """Order what makes it a repository first, and what grows last."""
    if entry.name in _GROWING:
        return 2
    return int(entry.name not in _FIRST and entry.is_dir(follow_symlinks=False))


def _has_head(git_dir: Path) -> bool:
    try:
        with open_folder(git_dir) as folder:
            is_link = stat.S_ISLNK(os.stat("HEAD", dir_fd=folder, follow_symlinks=False).st_mode)
            return is_link or _HEAD.fullmatch(read_regular("HEAD", 5000, inside=folder)) is not None
    except OSError:
        return False


def _read(place: Path) -> bytes:
    with suppress(FileNotFoundError):
        return place.read_bytes()
    return b""


def _fill(source: Path, target: int, *, kind: str = "", only_broken: bool = False) -> None:
    """Copy what is missing or broken in the open folder `target`; HEAD, which makes it a repository, last. In folders
    of the `kind` objects or refs it is known what is broken."""
    with os.scandir(source) as entries:
        found = sorted(entries, key=lambda entry: entry.name == "HEAD")
    for entry in found:
        if entry.name.startswith("nexus-"):
            continue
        if entry.is_dir(follow_symlinks=False):
            inner_kind = entry.name if entry.name in ("objects", "refs", "logs") and kind != "refs" else kind
            with open_folder(entry.name, inside=target, create=True) as inner:
                _fill(Path(entry.path), inner, kind=inner_kind, only_broken=only_broken)
        elif entry.is_file(follow_symlinks=False) and _is_wanted(entry, target, kind, only_broken=only_broken):
            _copy_into(entry, target)


def _is_wanted(entry: os.DirEntry[str], target: int, kind: str, *, only_broken: bool) -> bool:
    """Return True if the file in `target` is not there or broken, and the one of the copy is not. Another HEAD is
    renamed, what else is broken removed."""
    try:
        about = os.stat(entry.name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        return not only_broken
    if not stat.S_ISREG(about.st_mode):
        return False
    place = Path(entry.path)
    is_broken = about.st_size == 0 and entry.stat().st_size > 0
    if kind == "objects":
        is_broken = is_broken or (not is_intact(place, folder=target) and is_intact(place))
    elif kind == "refs" or (entry.name == "HEAD" and not kind):
        with open(os.open(entry.name, READ, dir_fd=target), "rb") as file:
            data = file.read(5000)
        is_broken = _HEAD.fullmatch(data) is None or (kind != "refs" and data != _read(place))
    if is_broken and entry.name == "HEAD" and not kind:
        os.replace("HEAD", "HEAD.nexus-undo", src_dir_fd=target, dst_dir_fd=target)
    elif is_broken:
        os.unlink(entry.name, dir_fd=target)
    return is_broken


def _copy_into(entry: os.DirEntry[str], target: int) -> None:
    draft = f".{entry.name}.nexus-new"
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=target)
    about = entry.stat(follow_symlinks=False)
    with open(os.open(entry.path, READ), "rb") as source:
        _copy_file(source, os.open(draft, NEW, 0o600, dir_fd=target), about)
    try:
        # git trusts a file that is older than the index: a younger index would hide changes.
        os.utime(draft, ns=(about.st_mtime_ns, about.st_mtime_ns), dir_fd=target, follow_symlinks=False)
        with suppress(FileExistsError):
            os.link(draft, entry.name, src_dir_fd=target, dst_dir_fd=target, follow_symlinks=False)
    finally:
        os.unlink(draft, dir_fd=target)


def _list_kept(data: Path) -> Iterator[tuple[Path, os.stat_result, bool]]:
    """Yield the files of copies that take room, with their status, and True for what no project has any more."""
    with suppress(OSError):
        for copy in (data / "undo" / "git").iterdir():
            source = os.fsdecode(_read(copy / _SOURCE)) if copy.is_dir() else ""
            for folder, _, names in os.walk(copy):
                below = os.path.relpath(folder, copy)
                is_object = below.split("/")[0] in _GROWING
                for name in names:
                    with suppress(OSError):
                        about = os.lstat(path := Path(folder, name))
                        if about.st_nlink == 1:
                            is_gone = not is_there(f"{source}/{below}/{name}")  # an older copy names none
                            yield path, about, is_object and is_gone


def _find_copy(data: Path, repository: Path) -> Path:
    return data / "undo" / "git" / hashlib.sha256(os.fsencode(repository)).hexdigest()[:32]
