"""Store the states of a worktree, byte for byte, in a separate git store beside it.

The store has no configuration, filters, hooks or line-end conversion: it saves the bytes on the disk, and comparing two
states runs no program. Objects of the repository are borrowed. Objects that only a state needs are packed here, so that
garbage collection in the repository cannot delete them.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from nexus_cli.config.paths import private_dir
from nexus_cli.core.real_files import FolderChain, open_folder, stat_at
from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.tree.file_state import ABSENT_PRESENT_STATE, PresentState

MISSING = "000000"
LINK = "120000"
EXECUTABLE = "100755"
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding -merge\n"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A path in one state: its mode as git names it, and its blob."""

    mode: str
    blob: str = ""
    now: PresentState = field(default=ABSENT_PRESENT_STATE, compare=False)
    """Of a path of the project: its present state, whose stamp changes with each write, even one of the same content.
    """


NO_FILE = TreeFile(MISSING)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One path that differs between two states; with a rename, also the earlier path."""

    path: bytes
    before: bytes
    """The path in the older state: `path` itself unless it was renamed."""
    old: TreeFile
    new: TreeFile


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of files and lines that differ."""

    files: int
    added: int
    removed: int


class SnapshotStore:
    """The store of one worktree."""

    def __init__(self, program: str, folder: Path, work_tree: Path) -> None:
        self._folder = folder
        self._tree = work_tree
        self._git = self._git_with(program, "index")
        self._program = program

    @classmethod
    def create(cls, program: str, folder: Path, work_tree: Path, objects: Path, object_format: str) -> SnapshotStore:
        """Create an empty store that borrows the objects of a repository. Raises `OSError`."""
        for name in ("objects/info", "objects/pack", "refs", "info"):
            private_dir(folder / name)
        config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfilemode = true\n\tprotectHFS = true\n"
        config += "\tlooseCompression = 0\n"  # they are packed soon
        if object_format != "sha1":
            config += f"[extensions]\n\tobjectformat = {object_format}\n"
        files = {
            "HEAD": b"ref: refs/heads/none\n",
            "config": config.encode(),
            "info/attributes": _ATTRIBUTES.encode(),
            "objects/info/alternates": os.fsencode(quote_alternate(objects)) + b"\n",
        }
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return cls(program, folder, work_tree)

    def save_base(self, paths: Iterable[bytes]) -> str:
        """Store `paths` in their current state as the base that later states are compared with; return its tree."""
        present, _ = split_present(self._tree, paths)
        _update(self._git, present, ())
        return self._git.line("write-tree")

    def save_state(self, paths: Iterable[bytes]) -> str:
        """Store `paths`, and those of the base, in their current state; return the tree."""
        present, absent = split_present(self._tree, {*self.list_base(), *paths})
        with self._draft_index() as git:
            _update(git, present, absent)
            return git.line("write-tree")

    def replace_paths(self, tree: str, entries: Sequence[tuple[str, str, bytes]]) -> str:
        """Return a copy of `tree` in which these entries (mode, blob, path) replace the ones at their paths."""
        with self._draft_index() as git:
            git.run("read-tree", tree)
            deleted = [path for mode, _, path in entries if mode == MISSING]
            _update(git, (), deleted)
            lines = [f"{mode} {blob}\t".encode() + path for mode, blob, path in entries if mode != MISSING]
            if lines:
                git.items("update-index", "--replace", "-z", "--index-info", inputs=lines)
            return git.line("write-tree")

    def hold(self, tree: str, start: str) -> None:
        """Pack the objects of `tree` that the commit `start`, which the repository keeps, does not have."""
        stdin = f"{tree}\n^{start}^{{tree}}\n".encode()
        self._git.try_run("pack-objects", "--revs", "-q", str(self._folder / "objects/pack/pack"), stdin=stdin)
        self._git.try_run("prune-packed", "-q")

    def list_others(self) -> list[bytes]:
        """Return the files that are neither in the base nor ignored, by the ignore files of the tree only."""
        return self._git.items("ls-files", "-o", "--exclude-standard", "-z")

    def list_base(self) -> set[bytes]:
        return set(self._git.items("ls-files", "-z"))

    def changes(self, old: str, new: str) -> list[TreeChange]:
        """Return the differences between two trees, by path. Renames are detected by similar content."""
        tree_changes, items = [], iter(self._git.items("diff-tree", "-r", "-z", "-M", "--no-abbrev", old, new))
        for head in items:
            *modes, old_blob, new_blob, kind = head.decode("ascii").lstrip(":").split()
            before = path = next(items)
            if kind.startswith(("R", "C")):
                path = next(items)
            pairs = zip(modes, (old_blob, new_blob), strict=True)
            files = (NO_FILE if mode == MISSING else TreeFile(mode, blob) for mode, blob in pairs)
            tree_changes.append(TreeChange(path, before, *files))
        return tree_changes

    def count_changes(self, old: str, new: str, paths: Sequence[str] = ()) -> ChangeCounts:
        """Count the files and lines that differ, in `paths` if given; binary files have no lines."""
        files = added = removed = 0
        items = iter(self._git.items("diff-tree", "-r", "-z", "-M", "--numstat", old, new, *_limit_to(paths)))
        for head in items:
            lines_added, less, path = head.split(b"\t", 2)
            files += 1
            added += int(lines_added.strip(b"-") or 0)
            removed += int(less.strip(b"-") or 0)
            if not path:  # a rename: both names follow
                next(items), next(items)
        return ChangeCounts(files, added, removed)

    def diff(self, old: str, new: str, *options: str, paths: Sequence[str] = ()) -> bytes:
        """Return the difference of two trees as git prints it, limited to `paths` if given."""
        form = ("-M", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
        return self._git.run("diff-tree", "-r", *(options or ("-p",)), *form, old, new, *_limit_to(paths))

    def open_blobs(self) -> BlobReader:
        return BlobReader(self._git)

    @contextmanager
    def _draft_index(self) -> Iterator[Git]:
        """Yield git with a copy of the base's index. The copy keeps its modification time, which git needs to detect
        racing changes."""
        draft = self._folder / f"draft-{os.urandom(6).hex()}"
        try:
            if (self._folder / "index").exists():
                shutil.copy2(self._folder / "index", draft)
            yield self._git_with(self._program, draft.name)
        finally:
            draft.unlink(missing_ok=True)

    def _git_with(self, program: str, index: str) -> Git:
        variables = {
            "GIT_DIR": str(self._folder),
            "GIT_WORK_TREE": str(self._tree),
            "GIT_INDEX_FILE": str(self._folder / index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
        }
        place = self._tree if self._tree.is_dir() else self._folder
        return Git(program, place, variables, project=place, reads=(self._folder,), writes=(self._folder,))


class BlobReader:
    """Reads blobs of a store one by one, with one process."""

    def __init__(self, git: Git) -> None:
        self._child = git.start("cat-file", "--batch")

    def __enter__(self) -> BlobReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def copy(self, blob: str, file: IO[bytes]) -> None:
        """Write a blob to `file`; raise `GitError` if there is none, `OSError` if `file` cannot be written."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(blob.encode() + b"\n")
        self._child.stdin.flush()
        head = self._child.stdout.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise GitError(f"object {blob[:12]} of the worktree's snapshot is missing")
        remaining = int(head[2])
        while remaining:
            piece = self._child.stdout.read(min(remaining, _PIECE))
            if not piece:
                raise GitError(f"object {blob[:12]} of the worktree's snapshot could not be read")
            file.write(piece)
            remaining -= len(piece)
        self._child.stdout.read(1)

    def read(self, blob: str) -> bytes:
        """Return the bytes of a blob. Raises `GitError` if there is none."""
        data = io.BytesIO()
        self.copy(blob, data)
        return data.getvalue()


def split_present(root: Path, paths: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Split `paths` into those that are files or links below `root` and the others; no link is followed."""
    present, absent = list[bytes](), list[bytes]()
    with open_folder(root) as folder:
        chain = FolderChain(folder)
        for path in sorted(set(paths)):
            parent, _, name = os.fsdecode(path).rpartition("/")
            mode = 0
            with suppress(OSError):
                mode = stat_at(chain.open(parent), name).st_mode
            (present if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else absent).append(path)
        chain.forget()
    return present, absent


def _update(git: Git, present: Sequence[bytes], absent: Sequence[bytes]) -> None:
    if absent:
        git.items("update-index", "--force-remove", "-z", "--stdin", inputs=absent)
    if present:
        git.items("update-index", "--add", "--replace", "-z", "--stdin", inputs=present)


def _limit_to(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that limit a comparison to `paths`; () for no paths, which is all of them."""
    return ("--", *(f":(literal){path}" for path in paths)) if paths else ()


def quote_alternate(path: Path, *, always: bool = False) -> str:
    """Return a path as a line of `alternates`; unusual characters are quoted as in a C string."""
    text = str(path)
    if not always and not text.startswith('"') and "\n" not in text and not text.startswith("#"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
