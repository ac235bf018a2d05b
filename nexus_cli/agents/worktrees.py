"""The worktrees of a project: find or make one, work in it, look at what is in it, remove it.

What is in a worktree is what differs from the state that was carried over. `apply_worktree` brings it to the project.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.agents.git_commands import Git, GitError, failure
from nexus_cli.agents.make_worktree import fill_worktree, find_git, list_files, prepare_record, read_source
from nexus_cli.agents.snapshot_store import ChangeCounts, SnapshotStore
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.worktree_record import (
    WorktreeRecord,
    read_all_records,
    read_record,
    read_records,
    record_folder,
    worktrees_of,
)
from nexus_cli.core.errors import NexusError, nearest_name

LONGEST = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CACHES = frozenset({b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b"node_modules"})
"""Ignored folders that tools fill again: losing them loses nothing."""
WAIT = 60.0
"""Seconds that one process waits while another makes or removes a worktree of the same project."""


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """The content of a worktree, compared with the state that was carried over."""

    tree: str
    counts: ChangeCounts
    commits: int
    has_moved: bool
    """Its branch or its checked-out commit is or was another one than at first."""
    kept: tuple[str, ...]
    """What no difference shows: ignored files, repositories inside; worktrees that were made of it."""
    unreachable: bool
    """Commits of its branch are no part of what is checked out."""

    def is_empty(self, record: WorktreeRecord) -> bool:
        """True if nothing is lost with the worktree."""
        return self.tree == record.base and not self.has_moved and not self.kept

    def is_applied(self, record: WorktreeRecord) -> bool:
        """True if every change is in the project."""
        return self.tree == record.applied

    def describe(self) -> str:
        """Return what is in it, on one line."""
        counts, parts = self.counts, []
        if counts.files:
            files = "1 file" if counts.files == 1 else f"{counts.files} files"
            parts.append(f"{files} changed, +{counts.added} -{counts.removed}")
        if self.commits:
            parts.append("1 commit" if self.commits == 1 else f"{self.commits} commits")
        elif self.has_moved and not counts.files:
            parts.append("its branch was moved")
        if self.kept:
            more = f" and {len(self.kept) - 3} more" if len(self.kept) > 3 else ""
            parts.append(f"beside the diff: {', '.join(self.kept[:3])}{more}")
        return ", ".join(parts) or "nothing"


@dataclass
class WorktreeStay:
    """A process that works in a worktree: as long as it does, nobody removes it."""

    record: WorktreeRecord
    notices: list[str] = field(default_factory=list)
    _lock: FileLock | None = None

    def leave(self) -> str:
        """End the stay. Remove the worktree if nothing is in it and nobody else works there; else return a line that
        says what is in it. Once or more often; the line comes once. Raises nothing but `NexusError`."""
        lock, self._lock = self._lock, None
        if lock is None:
            return ""
        try:
            with _change_worktrees(self.record.folder.parent):
                lock.release()
                if not self.record.home.is_dir():
                    return f"worktree {self.record.name} was removed meanwhile"
                alone = _take_alone(self.record)
                if alone is None:
                    return ""
                try:
                    return self._remove_if_empty()
                finally:
                    alone.release()
        except (NexusError, GitError, OSError) as error:
            why = error.message if isinstance(error, NexusError) else str(error)
            return f"worktree {self.record.name} stays in {self.record.folder}: {why}"
        finally:
            lock.release()

    def _remove_if_empty(self) -> str:
        record = read_record(self.record.folder)
        if record is None or not record.folder.is_dir():
            return f"the folder of worktree {self.record.name} is gone: {self.record.folder}"
        state = inspect_worktree(record)
        if state.is_empty(record):
            _delete(record, with_branch=True)
            return ""
        name = record.name
        what = f"worktree {name} in {record.folder}: {state.describe()}"
        if state.is_applied(record) and state.counts.files:
            return f"{what}; all of it is applied: nexus worktree remove {name}"
        return f"{what}. See nexus worktree diff {name}, nexus worktree apply {name}"

    def stay(self) -> None:
        """End the stay and leave the worktree as it is."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def check_name(name: str) -> None:
    """Raise `NexusError("usage", ...)` for what cannot be the name of a worktree: it names a folder and a branch."""
    shown = "".join(char if char.isprintable() else "?" for char in name[:LONGEST])
    why = ""
    if len(name) > LONGEST:
        why = f"it has more than {LONGEST} characters"
    elif not _NAME.fullmatch(name):
        why = "it has letters, digits, dots, dashes and underscores, and begins with a letter or digit"
    elif ".." in name or name.endswith((".", ".lock")):
        why = "git allows no such branch"
    if why:
        raise NexusError("usage", f"no worktree '{shown}'", why, "Choose another name")


def make_worktree(project_root: Path, name: str) -> tuple[WorktreeRecord, list[str]]:
    """Return the worktree of this name, made if there is none, and lines for a person.

    Whoever works in it enters it (`enter_worktree`), else another process may remove it. Raises `NexusError`.
    """
    stay = enter_worktree(project_root, name)
    stay.stay()
    return stay.record, stay.notices


def enter_worktree(project_root: Path, name: str) -> WorktreeStay:
    """Return a stay in the worktree of this name, made if there is none. Raises `NexusError`; then none was made."""
    check_name(name)
    folder = worktrees_of(project_root)
    what = f"worktree {name} cannot be made"
    try:
        with _change_worktrees(folder):
            record, notices = _find_or_make(folder, project_root, name)
            return WorktreeStay(record, notices, FileLock.wait(record.lock, shared=True))
    except (GitError, OSError) as error:
        raise failure(what, error) from error


def stay_in(record: WorktreeRecord) -> WorktreeStay:
    """Return a stay in a worktree that is there. Raises `NexusError`."""
    try:
        with _change_worktrees(record.folder.parent):
            return WorktreeStay(record, [], FileLock.wait(record.lock, shared=True))
    except OSError as error:
        raise failure(f"worktree {record.name} cannot be entered", error) from error


def _find_or_make(folder: Path, project_root: Path, name: str) -> tuple[WorktreeRecord, list[str]]:
    place, notices = folder / name, list[str]()
    record = read_record(place)
    if record is not None and record.base and place.is_dir():
        return record, notices
    if record is None and os.path.lexists(place):
        why = f"{place} is there, and the record of it is not"
        raise NexusError("usage", f"no worktree {name}", why, "Move it away, or choose another name")
    source = read_source(project_root)
    if record is not None:
        # Nobody can have worked in one that was never made to its end.
        kept = _delete(record, with_branch=not record.base)
        if record.base:
            branch = f"; branch {kept} keeps its commits" if kept else ""
            notices.append(f"the folder of worktree {name} was deleted: it is made again{branch}")
    try:
        record, more = fill_worktree(prepare_record(folder, name, source), source)
    except BaseException:
        with suppress(OSError):
            _discard(place)
        raise
    return record, notices + more


def _discard(place: Path) -> None:
    """Take away what was made of a worktree that could not be made whole."""
    record = read_record(place)
    if record is not None:
        _delete(record, with_branch=True)
    else:
        _delete_tree(record_folder(place))


def find_worktree_of(project_root: Path, name: str) -> WorktreeRecord:
    """Return the worktree of this name; `NexusError("usage", ...)` if there is none."""
    check_name(name)
    record = read_record(worktrees_of(project_root) / name)
    if record is None or not record.base:
        names = [one.name for one in list_worktrees(project_root)]
        near = nearest_name(name, names)
        hint = f"Did you mean {near}?" if near else "See nexus worktree list"
        raise NexusError("usage", f"no worktree {name}", f"{project_root} has none of this name", hint)
    return record


def list_worktrees(project_root: Path | None) -> list[WorktreeRecord]:
    """Return the worktrees of a project, by name; those of all projects without one."""
    found = read_all_records() if project_root is None else read_records(worktrees_of(project_root))
    return [record for record in found if record.base]


def is_in_use(record: WorktreeRecord) -> bool:
    """True if a live process works in a worktree."""
    alone = _take_alone(record)
    if alone is not None:
        alone.release()
    return alone is None


def require_folder(record: WorktreeRecord) -> None:
    """Raise `NexusError("usage", ...)` if the folder of a worktree was deleted."""
    if not record.folder.is_dir():
        why, name = f"its folder is gone: {record.folder}", record.name
        raise NexusError("usage", f"worktree {name}", why, f"nexus worktree remove {name} forgets it")


def open_store(record: WorktreeRecord) -> SnapshotStore:
    """Return the store of a worktree."""
    return SnapshotStore(find_git(record.source), record.store, record.folder)


def save_state(record: WorktreeRecord) -> str:
    """Return the state of a worktree as it is now, as a tree of its store. Raises `GitError`."""
    store = open_store(record)
    return store.save_state(_listed(record, store))


def inspect_worktree(record: WorktreeRecord) -> WorktreeState:
    """Return what is in a worktree whose folder is there. Raises `GitError`."""
    store, git = open_store(record), _git_of(record)
    tree = store.save_state(_listed(record, store))
    counts = store.count_changes(record.base, tree) if tree != record.base else ChangeCounts(0, 0, 0)
    kept = list(_find_ignored(record, store, git))
    kept += [f"worktree {one.name}" for one in list_worktrees(record.folder)]
    if git is None:
        return WorktreeState(tree, counts, 0, True, (*kept, "its link to the repository is broken"), False)
    files = list_files(git)
    kept += [f"{os.fsdecode(path)}/ (a repository)" for path in files.nested]
    kept += [f"{os.fsdecode(path)}/ (a submodule)" for path in files.submodules if _has_entries(record.folder, path)]
    tip = git.line("for-each-ref", "--format=%(objectname)", f"refs/heads/{record.branch}")
    head = git.try_run("rev-parse", "--quiet", "--verify", "HEAD^{commit}")[1].decode().strip()
    tips = [one for one in (head, tip) if one]
    commits = int(git.line("rev-list", "--count", *tips, f"^{record.start}", "--")) if tips else 0
    has_moved = {*tips} != {record.start} or not tip or not head or _has_moved(record)
    unreachable = bool(tip and head and tip != head) and git.try_run("merge-base", "--is-ancestor", tip, head)[0] != 0
    return WorktreeState(tree, counts, commits, has_moved, tuple(kept), unreachable)


def diff_worktree(record: WorktreeRecord, *, stat: bool = False, binary: bool = False) -> bytes:
    """Return what was done in a worktree, as a patch or counted by file. Raises `NexusError`."""
    require_folder(record)
    options = ("--stat",) if stat else ("-p", "--binary", "--full-index") if binary else ()
    try:
        return open_store(record).diff(record.base, save_state(record), *options)
    except GitError as error:
        raise failure(f"worktree {record.name} cannot be compared", error) from error


def describe_worktree(record: WorktreeRecord) -> dict[str, Any]:
    """Return a worktree as JSON. Raises nothing: what is wrong with it is its `problem`."""
    value: dict[str, Any] = {
        "name": record.name, "project": str(record.source), "folder": str(record.folder), "branch": record.branch,
        "created": record.created, "state": "missing", "in_use": False, "files": 0, "added": 0, "removed": 0,
        "commits": 0, "kept": [], "problem": "",
    }  # fmt: skip
    if not record.folder.is_dir():
        return value
    try:
        state = inspect_worktree(record)
    except (GitError, OSError, NexusError) as error:
        return value | {"state": "unreadable", "problem": str(error)}
    counts = state.counts
    name = "empty" if state.is_empty(record) else "applied" if state.is_applied(record) and counts.files else "changed"
    return value | {
        "state": name, "in_use": is_in_use(record), "files": counts.files, "added": counts.added,
        "removed": counts.removed, "commits": state.commits, "kept": list(state.kept),
    }  # fmt: skip


def remove_worktree(record: WorktreeRecord, *, force: bool = False) -> str:
    """Remove a worktree with its branch; return a line about commits that can still be reached, or "".

    Raises `NexusError("usage", ...)` while someone works in it, or something in it is not applied, unless `force`.
    """
    name = record.name
    try:
        with _change_worktrees(record.folder.parent):
            alone = _take_alone(record)
            if alone is None and not force:
                why = "a session is working in it"
                raise NexusError("usage", f"worktree {name} stays", why, "End that session first, or use --force")
            try:
                return _remove(record, force)
            finally:
                if alone is not None:
                    alone.release()
    except (GitError, OSError) as error:
        raise failure(f"worktree {name} cannot be removed", error) from error


def _remove(record: WorktreeRecord, force: bool) -> str:
    if not record.folder.is_dir():
        kept = _delete(record, with_branch=False)
        return f"branch {kept} keeps its commits" if kept else ""
    if not force:
        try:
            state = inspect_worktree(record)
        except GitError as error:
            hint = "Look into it yourself; --force removes it"
            raise NexusError("usage", f"worktree {record.name} stays", str(error), hint) from error
        why = _describe_unapplied(record, state)
        if why:
            hint = f"nexus worktree apply {record.name} brings changes to the project; --force discards them"
            raise NexusError("usage", f"worktree {record.name} stays", why, hint)
    tip = ""
    with suppress(GitError, NexusError):
        tip = _repository_git(record).line("for-each-ref", "--format=%(objectname)", f"refs/heads/{record.branch}")
    kept = _delete(record, with_branch=True)
    if kept:
        return f"branch {kept} stays: it is checked out elsewhere"
    return f"its commits were {tip[:12]}" if tip not in ("", record.start) else ""


def _describe_unapplied(record: WorktreeRecord, state: WorktreeState) -> str:
    """Return what would be lost with a worktree, "" for nothing."""
    if state.is_empty(record):
        return ""
    if not state.is_applied(record):
        return f"it holds work that is not applied ({state.describe()})"
    if state.kept:
        return f"it holds what no diff shows ({', '.join(state.kept[:3])})"
    if state.unreachable or (not state.counts.files and state.has_moved):
        return f"its branch {record.branch} holds commits that are not in its files"
    return ""


def _listed(record: WorktreeRecord, store: SnapshotStore) -> list[bytes]:
    """Return the paths in a worktree that count, besides those of the base."""
    git = _git_of(record)
    if git is not None:
        with suppress(GitError):
            files = list_files(git)
            return [*files.tracked, *files.others]
    return [path for path in store.list_others() if not path.endswith(b"/")]


def _find_ignored(record: WorktreeRecord, store: SnapshotStore, git: Git | None) -> Iterator[str]:
    """Yield the ignored files and folders that were made in a worktree."""
    if git is None:
        return
    query = ("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
    base = store.list_base()
    for path in git.run(*query).split(b"\0")[:-1]:
        if path in base or path.rstrip(b"/").rpartition(b"/")[2] in CACHES:
            continue
        if path.endswith(b"/") and any(one.startswith(path) for one in base):
            root = os.fsencode(record.folder)
            walked = os.walk(os.path.join(root, path))
            files = (os.path.relpath(os.path.join(folder, name), root) for folder, _, names in walked for name in names)
            yield from (os.fsdecode(one) for one in files if one not in base)
        elif not path.endswith(b"/") or _has_entries(record.folder, path):
            yield os.fsdecode(path)


def _has_entries(folder: Path, path: bytes) -> bool:
    try:
        return bool(os.listdir(os.path.join(os.fsencode(folder), path)))
    except OSError:
        return False


def _git_folder(record: WorktreeRecord) -> Path | None:
    """Return the folder that the repository keeps of a worktree; None if its link leads elsewhere."""
    try:
        kind, _, named = (record.folder / ".git").read_text().strip().partition(": ")
        folder = Path(os.path.realpath(record.folder / named))
    except (OSError, ValueError):
        return None
    is_ours = kind == "gitdir" and folder.parent == record.repository / "worktrees" and folder.is_dir()
    return folder if is_ours else None


def _git_of(record: WorktreeRecord) -> Git | None:
    """Return git in a worktree, None if that is no worktree of its repository any more."""
    folder = _git_folder(record)
    if folder is None:
        return None
    place = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(record.folder)}
    return Git(find_git(record.source), record.folder, place)


def _repository_git(record: WorktreeRecord) -> Git:
    cwd = record.repository if record.repository.is_dir() else record.home
    return Git(find_git(record.source), cwd, {"GIT_DIR": str(record.repository)})


def _has_moved(record: WorktreeRecord) -> bool:
    """True if another commit was ever checked out: commits may be left that no branch names."""
    folder = _git_folder(record)
    try:
        lines = (folder / "logs/HEAD").read_bytes().splitlines() if folder else []
    except OSError:
        return False
    return any(line.split(b" ", 2)[1:2] != [record.start.encode()] for line in lines)


def _delete(record: WorktreeRecord, *, with_branch: bool) -> str:
    """Delete folder, entry and record of a worktree, and its branch; without `with_branch` only one without commits.

    Return the branch if it stays. Raises `OSError` if files cannot be deleted: then the record stays too.
    """
    _delete_tree(record.folder)
    branch = ""
    with suppress(GitError, NexusError):
        git = _repository_git(record)
        git.try_run("worktree", "remove", "--force", "--force", str(record.folder))
        if record.branch:
            tip = git.line("for-each-ref", "--format=%(objectname)", f"refs/heads/{record.branch}")
            deletes = with_branch or tip == record.start
            if tip and (not deletes or git.try_run("branch", "-q", "-D", record.branch)[0]):
                branch = record.branch
    _delete_tree(record_folder(record.folder))
    return branch


def _delete_tree(folder: Path) -> None:
    """Delete a folder with all that is in it, folders without the right to write too."""

    def open_and_retry(act: Callable[..., Any], path: str, error: Any) -> None:
        if isinstance(error[1], FileNotFoundError):
            return
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, stat.S_IRWXU)
        if act in (os.open, os.scandir, os.lstat):
            shutil.rmtree(path)
        else:
            act(path)

    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=open_and_retry)


def _take_alone(record: WorktreeRecord) -> FileLock | None:
    """Return the lock of a worktree for one process alone, None while others work in it."""
    return FileLock.take(record.lock)


@contextmanager
def _change_worktrees(folder: Path) -> Iterator[None]:
    """Let one process at a time make, enter or remove worktrees of a project."""
    try:
        lock = FileLock.wait_for(folder / ".making.lock", WAIT)
    except TimeoutError as error:
        why = "another process is making or removing one"
        raise NexusError("usage", "no worktree", why, "Try again later") from error
    with lock:
        yield
