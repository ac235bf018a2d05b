"""Inspect a worktree: its diff against the carried-over state, and content that no diff shows."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord, read_records, worktrees_of
from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.real_files import list_folder, open_folder, read_regular, walk_below
from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.worktrees.carry_ignored import drop_carried, read_carried, stamp_path
from nexus_cli.worktrees.make_worktree import STAGED, ProjectFiles, list_below, list_files
from nexus_cli.worktrees.own_repository import (
    find_git,
    has_own_repository,
    list_own_references,
    own_repository_git,
    read_tips,
)
from nexus_cli.worktrees.project_files import is_taken_back
from nexus_cli.worktrees.snapshot_store import ChangeCounts, SnapshotStore

CACHES = frozenset(
    b"__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .venv node_modules .next .nuxt .turbo "
    b".parcel-cache .gradle .eggs".split()
)
"""Names of ignored folders that tools can fill again, so that they may be lost."""
_MAX_LOG = 64 << 20
"""Most bytes of a log of commits."""


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """The content of a worktree, compared with the state that was carried over."""

    tree: str
    counts: ChangeCounts
    commits: int
    has_moved: bool
    """True if its branch or checked-out commit was ever different from the first one."""
    kept: tuple[str, ...]
    """Content that no diff shows: ignored files, nested repositories, worktrees made from this one."""
    unreachable: bool
    """True if commits of its branch are not in the history of the checked-out commit."""
    taken_back: tuple[str, ...]
    """Applied paths that the project has again as they were before."""

    @property
    def built(self) -> tuple[str, ...]:
        """Ignored folders without a carried file, as builds make them; () without other changes. They are lost with a
        worktree whose changes were applied."""
        return tuple(path for path in self.kept if path.endswith("/")) if self.counts.files else ()

    def is_empty(self, record: WorktreeRecord) -> bool:
        """True if deleting the worktree loses nothing."""
        return self.tree == record.base and not self.has_moved and not self.kept

    def is_applied(self, record: WorktreeRecord) -> bool:
        """True if every change was applied, and the project took none back."""
        return self.tree == record.applied and not self.taken_back

    def describe(self) -> str:
        """Return a summary of its content on one line."""
        counts, parts = self.counts, []
        if counts.files:
            parts.append(f"{plural(counts.files, 'file')} changed, +{counts.added} -{counts.removed}")
        if self.commits:
            parts.append(plural(self.commits, "commit"))
        elif self.has_moved and not counts.files:
            parts.append("the branch was moved")
        if self.kept:
            parts.append(f"not in the diff: {name_first(self.kept, 3)}")
        return ", ".join(parts) or "nothing"


def open_store(record: WorktreeRecord) -> SnapshotStore:
    return SnapshotStore(find_git(record.source), record.store, record.folder)


def save_state(record: WorktreeRecord) -> str:
    """Store the current state of a worktree as a tree. Raises `GitError`."""
    store, git, files = open_store(record), _git_of(record), None
    with suppress(GitError):
        files = None if git is None else list_files(git)
    return store.save_state(_listed(record, store, files))


def inspect_worktree(record: WorktreeRecord) -> WorktreeState:
    """Return the state of a worktree whose folder exists. Raises `GitError`."""
    store, git = open_store(record), _git_of(record)
    files = None if git is None else list_files(git)
    tree = store.save_state(_listed(record, store, files))
    counts = store.count_changes(record.base, tree) if tree != record.base else ChangeCounts(0, 0, 0)
    taken_back = _find_taken_back(record, store) if tree == record.applied != record.base else ()
    kept_files = list(_find_ignored(record, store, git))
    kept_files += _find_special(record.folder)
    kept_files += [f"worktree {worktree.name}" for worktree in read_records(worktrees_of(record.folder))]
    if git is None or files is None:
        return WorktreeState(
            tree,
            counts,
            0,
            True,
            (*kept_files, "the repository is broken, points elsewhere, or was created by nexus 0.2"),
            False,
            taken_back,
        )
    kept_files += [f"{os.fsdecode(path)}/ (a repository)" for path in files.nested]
    kept_files += [
        f"{os.fsdecode(path)}/ (a submodule)" for path in files.submodules if _has_entries(record.folder, path)
    ]
    kept_files += [f"staged content of {os.fsdecode(path)}" for path in _find_staged(record, git, files)]
    kept_files += [f"the reference {name}" for name in list_own_references(record)]
    tip, head = read_tips(git, record.branch)
    tips = [commit for commit in (head, tip) if commit]
    commits = int(git.line("rev-list", "--count", *tips, f"^{record.start}", "--")) if tips else 0
    has_moved = {*tips} != {record.start} or not tip or not head or _has_moved(record)
    unreachable = bool(tip and head and tip != head) and git.try_run("merge-base", "--is-ancestor", tip, head)[0] != 0
    return WorktreeState(tree, counts, commits, has_moved, tuple(kept_files), unreachable, taken_back)


def _find_taken_back(record: WorktreeRecord, store: SnapshotStore) -> tuple[str, ...]:
    """Return the applied paths that the project took back, as far as they can be read."""
    with suppress(OSError):
        changes = [change for change in store.changes(record.base, record.applied) if is_taken_back(record, change)]
        return tuple(sorted({os.fsdecode(path) for change in changes for path in (change.path, change.before)}))
    return ()


def _listed(record: WorktreeRecord, store: SnapshotStore, files: ProjectFiles | None) -> list[bytes]:
    """Return the paths to compare in addition to those of the base: from git's list `files`, else from the store.

    Copies of ignored files are no part of the changes, even if the worktree has other ignore rules.
    """
    if files is not None:
        paths = [*files.tracked, *files.untracked]
    else:
        paths = [path for path in store.list_others() if not path.endswith(b"/")]
    return drop_carried(paths, read_carried(record.home))


def _find_ignored(record: WorktreeRecord, store: SnapshotStore, git: Git | None) -> Iterator[str]:
    """Yield the ignored files and folders that were created in a worktree."""
    if git is None:
        return
    query = ("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
    base = store.list_base()
    carried = ((path, stamp) for path, stamp in read_carried(record.home).items() if not _is_cache(os.fsencode(path)))
    unchanged = [path for path, stamp in carried if stamp == stamp_path(record.folder / path)]
    for path in drop_carried(git.items(*query), unchanged):
        # A cache with a `.gitignore` of its own is listed file by file.
        if path in base or _is_cache(path):
            continue
        if path.endswith(b"/") and any(
            base_path.startswith(path) for base_path in (*base, *map(os.fsencode, unchanged))
        ):
            files = list_below(record.folder, path.rstrip(b"/"))
            yield from (os.fsdecode(ignored) for ignored in drop_carried(files, unchanged) if ignored not in base)
        elif not path.endswith(b"/") or _has_entries(record.folder, path):
            yield os.fsdecode(path)


def _find_special(folder: Path) -> Iterator[str]:
    """Yield pipes, sockets and devices in a worktree, which git does not list; caches are not searched."""
    with open_folder(folder) as opened:
        for path, entry in walk_below(opened, skips={".git", *map(os.fsdecode, CACHES)}):
            is_known = entry.is_dir(follow_symlinks=False) or entry.is_symlink()
            if not is_known and not entry.is_file(follow_symlinks=False):
                yield f"{path} (not a regular file)"


def _is_cache(path: bytes) -> bool:
    return not CACHES.isdisjoint(path.split(b"/"))


def _find_staged(record: WorktreeRecord, git: Git, files: ProjectFiles) -> list[bytes]:
    """Return the paths with staged content that is in no file and no commit and was staged in the worktree."""
    before = {entry.split(b" ", 2)[1] for entry in (record.home / STAGED).read_bytes().split(b"\0")[:-1]}
    staged = {entry.partition(b"\t")[2] for entry in files.staged if entry.split(b" ", 2)[1] not in before}
    query = ("--name-only", "--ignore-submodules", "-z")
    if staged:
        no_filters = git.without_filters()
        staged &= {*git.items(*no_filters, "diff-files", *query)}
        staged &= {*git.items(*no_filters, "diff-index", "--cached", *query, "HEAD")}
    return sorted(staged)


def _has_entries(folder: Path, path: bytes) -> bool:
    try:
        return bool(list_folder(folder / os.fsdecode(path)))
    except OSError:
        return False


def _git_of(record: WorktreeRecord) -> Git | None:
    """Return git in a worktree, None if its repository was replaced, leads elsewhere, or is that of its project: such
    linked worktrees were made by 0.2."""
    return own_repository_git(record) if has_own_repository(record) else None


def _has_moved(record: WorktreeRecord) -> bool:
    """True if another commit was ever checked out: some commits may then be on no branch."""
    try:
        lines = read_regular(record.folder / ".git/logs/HEAD", _MAX_LOG).splitlines()
    except OSError as error:
        return error.errno == errno.EFBIG
    return any(line.split(b" ", 2)[1:2] != [record.start.encode()] for line in lines)
